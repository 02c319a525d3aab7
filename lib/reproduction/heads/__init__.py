"""IAV over finetuned models: which are compared, and what is measured of them.

`compared` finds them in the table of runs, `measure` and `heads` make the tables.
"""

from reproduction.heads.compared import (
    compared_runs,
    finetuned,
    outlined_to_explain,
    pictures_to_explain,
)
from reproduction.heads.heads import head_numbers
from reproduction.heads.measure import (
    Explainer,
    Explanation,
    beyond_table,
    by_image,
    chance_table,
    entropy_table,
    epochs_table,
    explain_runs,
    follow_epochs,
    masking_table,
    outline_table,
    score_table,
    shift_rows,
    space_table,
)
from reproduction.training.pretrained import learned_classes, test_pictures

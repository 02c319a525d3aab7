"""IAV over finetuned models: which are compared, and what is measured of them.

`runs` finds or makes them, `measure` and `heads` make the tables.
"""

from reproduction.heads.heads import head_numbers
from reproduction.heads.measure import (
    Explainer,
    Explanation,
    chance_table,
    entropy_table,
    explain_runs,
    finetune_runs,
    follow_epochs,
    masking_table,
    score_table,
    shift_rows,
    space_table,
)
from reproduction.heads.runs import (
    compared_runs,
    finetune_run,
    outlined_to_explain,
    pictures_to_explain,
    test_pictures,
)

"""IAV over finetuned models: which are compared, and what is measured of them.

`runs` finds or makes them, `measure` and `heads` make the tables.
"""

from reproduction.heads.heads import head_numbers
from reproduction.heads.measure import (
    Explainer,
    chance_table,
    entropy_table,
    follow_epochs,
    object_share_pct,
    score_table,
    space_table,
)
from reproduction.heads.runs import (
    compared_runs,
    finetune_run,
    outlined_to_explain,
    pictures_to_explain,
    test_pictures,
)

"""The papers' claims held against what came out here, and our numbers beside their tables.

A claim is a sentence in `assets/paper/claims.csv`, and a function in the file of its paper:
`robustvit`, `beyond_intuition`, `iav`. Its docstring is the criterion; it yields numbers, which
`numbers` takes of a run's tables, and `judging` holds all against their lines by one rule. `report`
has what the report shows, `compared` puts our numbers beside the paper's.
"""

from reproduction.claims import beyond_intuition, iav, robustvit
from reproduction.claims.compared import (
    compared,
    dino_changes,
    halves_beside,
    map_changes,
    replaced,
    run_changes,
    seed_changes,
    split_changes,
    variant_changes,
    variants_beside,
)
from reproduction.claims.judging import CLAIMS, judge
from reproduction.claims.report import (
    FIVE,
    ResultTables,
    added_told,
    findings,
    folded,
    number_table,
    verdict_counts,
    verdict_page,
    verdict_table,
)

"""The papers' claims held against what came out here, and our numbers beside their tables.

A claim is a sentence in `assets/paper/claims.csv`, and a criterion with its rows in
`assets/paper/criteria.yaml`. `criteria` reads them, `evaluator` judges all by one rule, `deciding`
says what would decide the rest, `report` has what the report shows, `compared` puts our numbers
beside the paper's.
"""

from reproduction.claims.compared import (
    compared,
    dino_changes,
    halves_beside,
    map_changes,
    run_changes,
    seed_changes,
    split_changes,
    variant_changes,
    variants_beside,
)
from reproduction.claims.criteria import criteria
from reproduction.claims.evaluator import judge
from reproduction.claims.report import (
    ResultTables,
    findings,
    folded,
    verdict_counts,
    verdict_page,
    verdict_table,
)

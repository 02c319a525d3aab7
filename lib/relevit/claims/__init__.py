"""What the papers claim against what came out here: one function a claim, with its criterion.

`registry` judges them on the tables that stages save; `robustvit`, `robustvit_images`,
`attribution`, `texts` and `iav` hold the claims. `paper_form` puts our numbers beside the paper's,
`report` has what the report shows around them. May import all of the library but pictures and
the pipeline.
"""

# Importing these registers their claims.
from relevit.claims import attribution, iav, robustvit, robustvit_images, texts
from relevit.claims.paper_form import (
    basis,
    beside,
    dino_rows,
    layout,
    map_rows,
    nine_sets,
    run_rows,
    seed_rows,
    side_by_side,
    sign_table,
    split_rows,
    variant_rows,
    with_note,
)
from relevit.claims.registry import (
    CLAIMS,
    TABLES,
    Verdict,
    judge,
    read_tables,
    signed,
    verdict_table,
)
from relevit.claims.report import (
    accuracy_overview,
    claim_grid,
    clip_overview,
    evidence_cells,
    findings,
    folded,
    not_shown,
    phrases_overview,
    shaded_texts,
    text_overview,
)

__all__ = [
    "CLAIMS",
    "TABLES",
    "Verdict",
    "accuracy_overview",
    "basis",
    "beside",
    "claim_grid",
    "clip_overview",
    "dino_rows",
    "evidence_cells",
    "findings",
    "folded",
    "judge",
    "layout",
    "map_rows",
    "nine_sets",
    "not_shown",
    "phrases_overview",
    "read_tables",
    "run_rows",
    "seed_rows",
    "shaded_texts",
    "side_by_side",
    "sign_table",
    "signed",
    "split_rows",
    "text_overview",
    "variant_rows",
    "verdict_table",
    "with_note",
]

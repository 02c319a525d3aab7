"""The papers' own numbers, as data: tables and claims, in our names.

May import data and models, which give the names; evaluation and claims build on it.
"""

from relevit.paper.attribution import (
    published_ablation,
    published_map_rows,
    published_perturbation,
    published_segmentation,
    published_segmentation_changes,
)
from relevit.paper.published import (
    CAPTIONS,
    MASKS,
    METRICS,
    PAPER_SETS,
    SHIFTED_AVERAGE,
    VARIANT_METHODS,
    averages,
    claims,
    paper_variants,
    published_ablations,
    published_changes,
    published_name,
    published_rows,
    read_table,
    robustness,
)

__all__ = [
    "CAPTIONS",
    "MASKS",
    "METRICS",
    "PAPER_SETS",
    "SHIFTED_AVERAGE",
    "VARIANT_METHODS",
    "averages",
    "claims",
    "paper_variants",
    "published_ablation",
    "published_ablations",
    "published_changes",
    "published_map_rows",
    "published_name",
    "published_perturbation",
    "published_rows",
    "published_segmentation",
    "published_segmentation_changes",
    "read_table",
    "robustness",
]

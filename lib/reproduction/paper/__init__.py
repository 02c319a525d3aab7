"""The papers' own numbers, as data: tables and claims, in our names."""

from reproduction.paper.published import (
    CAPTIONS,
    MASKS,
    claims,
    paper_variants,
    published_ablation,
    published_ablations,
    published_changes,
    published_map_changes,
    published_perturbation,
    published_rows,
    published_segmentation,
)

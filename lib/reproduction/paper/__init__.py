"""The papers' own numbers, as data: tables and claims, in our names."""

from reproduction.paper.published import (
    CAPTIONS,
    published_map_changes,
    published_perturbation,
    published_rows,
)

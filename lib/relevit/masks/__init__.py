"""Masks without annotation: TokenCut on self-supervised features, refined to the image's edges.

Also how good they are, and their file. The room may import relevance and what lies below it.
"""

from relevit.masks.automatic import (
    AutomaticMasks,
    automatic_masks,
    mask_quality,
    quality_rows,
    refine,
    zoom_in,
)
from relevit.masks.bilateral import BilateralSettings, bilateral_solve, solid
from relevit.masks.stored import MASKS, load_masks, masks_of, save_masks
from relevit.masks.token_cut import (
    TAU,
    Cut,
    feature_model,
    feature_spec,
    joined_share,
    key_features,
    tokencut,
)

__all__ = [
    "MASKS",
    "TAU",
    "AutomaticMasks",
    "BilateralSettings",
    "Cut",
    "automatic_masks",
    "bilateral_solve",
    "feature_model",
    "feature_spec",
    "joined_share",
    "key_features",
    "load_masks",
    "mask_quality",
    "masks_of",
    "quality_rows",
    "refine",
    "save_masks",
    "solid",
    "tokencut",
    "zoom_in",
]

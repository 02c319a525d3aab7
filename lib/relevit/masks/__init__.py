"""Masks without annotation: TokenCut on self-supervised features, refined to the image's edges."""

from relevit.masks.automatic import (
    AutomaticMasks,
    automatic_masks,
    mask_quality,
    quality_rows,
    refine,
    zoom_in,
)
from relevit.masks.bilateral import BilateralSettings, bilateral_solve, solid
from relevit.masks.cut import TAU, Cut, joined_share, tokencut
from relevit.masks.features import feature_model, feature_spec, key_features
from relevit.masks.stored import MASKS, load_masks, save_masks

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
    "quality_rows",
    "refine",
    "save_masks",
    "solid",
    "tokencut",
    "zoom_in",
]

"""Masks without annotation: TokenCut on self-supervised features, refined to the image's edges.

Also how good they are, and their file.
"""

from relevit.masks.automatic import (
    AutomaticMasks,
    automatic_masks,
    in_the_middle,
    mask_quality,
    quality_rows,
    refine,
    sound,
    zoom_in,
)
from relevit.masks.backbone import feature_model, feature_spec
from relevit.masks.bilateral import bilateral_solve, solid
from relevit.masks.stored import MASKS, load_masks, masks_of, save_masks
from relevit.masks.token_cut import Cut, joined_share, key_features, tokencut

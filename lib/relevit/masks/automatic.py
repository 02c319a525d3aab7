"""Automatic masks from end to end, and how good they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, UInt8
from scipy.ndimage import find_objects
from torch import Tensor, nn
from torch.nn.functional import interpolate

from relevit.masks.bilateral import PUBLISHED, BilateralSettings, bilateral_solve, solid
from relevit.masks.token_cut import TAU, KeyBias, key_features, tokencut
from relevit.models.spec import ModelSpec
from relevit.relevance import Protocol

BATCH = 25  # images whose features are computed at once; masks do not depend on it but for rounding
AGREEMENT = 0.5  # IoU of coarse and refined mask below which the script gives the image up (B17)
SMALLEST_AREA = 520 / 224**2  # share of the image below which a mask is skipped (B15)
CORLOC_IOU = 0.5  # of the boxes, from which an object counts as found


@dataclass(frozen=True)
class AutomaticMasks:
    """`coarse` are TokenCut's, by patches; `refined` follow edges. `kept`: see `refine`.

    A kept refined mask has both object and background.
    """

    coarse: Bool[Tensor, "images 1 height width"]
    refined: Bool[Tensor, "images 1 height width"]
    kept: Bool[Tensor, " images"]

    def __len__(self) -> int:
        return len(self.kept)


def automatic_masks(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "images 3 height width"],
    *,
    tau: float = TAU,
    bias: KeyBias = "removed",
    settings: BilateralSettings = PUBLISHED,
    protocol: Protocol = "published",
    on_image: Callable[[], object] = lambda: None,
) -> AutomaticMasks:
    """Mask each image's object by TokenCut, without label or annotation.

    The images are enlarged to what `model` takes (`feature_model`), so that its patches are
    finer; the masks have the size of the images, a patch's pixels being those nearest to it
    (differences B18). Results are on the CPU.
    Raises: ValueError as `key_features`, `tokencut` and `refine`.
    """
    device, side = next(model.parameters()).device, model.patch_embed.img_size
    coarse, refined, kept = [], [], []
    for part in images.split(BATCH):
        pixels = interpolate(spec.normalise(part.to(device)), side, mode="bicubic", antialias=True)
        cut = tokencut(key_features(model, pixels, bias), model.patch_embed.grid_size, tau)
        masks = interpolate(cut.mask[:, None].float(), images.shape[-2:], mode="nearest").cpu() > 0
        coarse.append(masks)
        for image, mask in zip(part.cpu(), masks, strict=True):
            fine, keep = refine(image, mask[0], settings, protocol)
            refined.append(fine[None])
            kept.append(keep)
            on_image()
    return AutomaticMasks(torch.cat(coarse), torch.stack(refined), torch.tensor(kept))


def refine(
    image: UInt8[Tensor, "3 height width"],
    coarse: Bool[Tensor, "height width"],
    settings: BilateralSettings = PUBLISHED,
    protocol: Protocol = "published",
) -> tuple[Bool[Tensor, "height width"], bool]:
    """The coarse mask brought to the image's edges, and whether the image is kept for training.

    `published`: an answer that overlaps the coarse mask by an IoU below AGREEMENT is multiplied
    by -1, which makes its sum negative instead of turning it over (differences B17), and masks
    whose sum is below that of SMALLEST_AREA are skipped in training (B15): neither is kept. The
    mask returned is the one before the multiplication. `described`: the coarse mask stands in
    for an answer that lost it, and the image is kept.
    Under both, a mask without object or without background is not kept: it would teach nothing.
    Raises: ValueError as `bilateral_solve` and `solid`.
    """
    before = coarse.numpy()
    after = solid(bilateral_solve(image.permute(1, 2, 0).numpy(), before, settings), protocol)
    agrees = _iou(after, before) >= AGREEMENT
    if protocol == "described":
        after, keep = (after if agrees else before), True
    else:
        keep = agrees and after.mean() >= SMALLEST_AREA
    return torch.from_numpy(after), bool(keep and 0 < after.mean() < 1)


def mask_quality(
    found: Bool[Tensor, "images 1 height width"], truth: Bool[Tensor, "images 1 height width"]
) -> pd.DataFrame:
    """How well masks agree with the exact ones, one row an image.

    Columns: `iou_pct` (pixels; 0 for an empty mask) and `located` (boxes around both overlap by
    an IoU of CORLOC_IOU or more; its mean is CorLoc).
    Raises: ValueError when the shapes differ or a true mask is empty.
    """
    if found.shape != truth.shape or not bool(truth.flatten(1).any(dim=1).all()):
        raise ValueError(
            f"mask_quality: masks {tuple(found.shape)}, exact ones {tuple(truth.shape)}; needed is "
            "one for each image, and an object in every exact one"
        )
    rows = []
    for ours, exact in zip(found.squeeze(1).numpy(), truth.squeeze(1).numpy(), strict=True):
        located = ours.any() and _iou(_box(ours), _box(exact)) >= CORLOC_IOU
        rows.append({"iou_pct": 100 * _iou(ours, exact), "located": bool(located)})
    return pd.DataFrame(rows)


def quality_rows(
    found: AutomaticMasks, truth: Bool[Tensor, "images 1 height width"]
) -> pd.DataFrame:
    """`mask_quality` of both stages: index, stage (coarse, refined), iou_pct, located, kept.

    An image without its object has no row: the middle of a photograph may not show it.
    Raises: ValueError when no image shows its object, and for other shapes.
    """
    shown = truth.flatten(1).any(dim=1)
    places = (shown if bool(shown.any()) else ~shown).nonzero()[:, 0]
    parts = [
        mask_quality(getattr(found, stage)[places], truth[places]).assign(
            index=places.tolist(), stage=stage, kept=found.kept[places].numpy()
        )
        for stage in ("coarse", "refined")
    ]
    columns = ["index", "stage", "iou_pct", "located", "kept"]
    return pd.concat(parts, ignore_index=True)[columns]


def zoom_in(
    images: UInt8[Tensor, "images 3 height width"], masks: Bool[Tensor, "images 1 height width"]
) -> tuple[UInt8[Tensor, "images 3 height width"], Bool[Tensor, "images 1 height width"]]:
    """Images and masks cut to the object's box and enlarged to their size again.

    Shows what becomes of objects that fill most of the image. Raises: ValueError for a mask
    without object.
    """
    size, zoomed = images.shape[-2:], []
    for image, mask in zip(images, masks, strict=True):
        if not bool(mask.any()):
            raise ValueError("zoom_in: a mask has no object; leave its image out")
        box = find_objects(mask[0].cpu().numpy().astype(int))[0]
        both = torch.cat([image, mask.to(image.dtype)])[(slice(None), *box)]
        zoomed.append(interpolate(both[None], size, mode="nearest")[0])
    both = torch.stack(zoomed)
    return both[:, :3], both[:, 3:].bool()


def _iou(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / max((a | b).sum(), 1))


def _box(mask: np.ndarray) -> np.ndarray:
    box = np.zeros_like(mask)
    box[find_objects(mask.astype(int))[0]] = True
    return box

"""Automatic masks from end to end, and how good they are."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy
import torch
from jaxtyping import Bool, Shaped, UInt8
from torch import Tensor, nn
from torch.nn.functional import interpolate

from relevit.base.device import at_once, cores
from relevit.maps import patch_grid, to_pixels
from relevit.masks.bilateral import bilateral_solve, solid
from relevit.masks.token_cut import TAU, KeyBias, key_features, tokencut
from relevit.models.spec import ModelSpec

BATCH = 25  # images whose features are computed at once (`at_once`)
BORDER = 0.25  # of the picture's border, the most that an object covers (`sound`)
AGREEMENT = 0.5  # IoU of coarse and refined mask below which the latter has lost the object (B17)
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
    component: bool = True,
    **refining: Any,
) -> AutomaticMasks:
    """Mask each image's object by TokenCut, without label or annotation.

    The images are enlarged to what `model` takes (`feature_model`), so that its patches are
    finer; the masks have the size of the images, a patch's pixels being those nearest to it
    (differences B18). `refining` are the options of `refine`. Results are on the CPU.
    """
    device, side = next(model.parameters()).device, model.patch_embed.img_size
    coarse, refined, kept = [], [], []
    solve = partial(refine, **refining)
    for part in images.split(at_once(BATCH, device)):
        pixels = interpolate(spec.normalise(part.to(device)), side, mode="bicubic", antialias=True)
        keys = key_features(model, pixels, bias)
        grid = patch_grid(model, pixels)
        cut = tokencut(keys, grid, tau, component=component)
        masks = to_pixels(cut.mask, tuple(images.shape[-2:]))[:, None].cpu()
        coarse.append(masks)
        with ThreadPoolExecutor(cores()) as pool:  # NumPy and SciPy let others run
            for fine, keep in pool.map(solve, part.cpu(), masks[:, 0]):
                refined.append(fine[None])
                kept.append(keep)
    return AutomaticMasks(torch.cat(coarse), torch.stack(refined), torch.tensor(kept))


def refine(
    image: UInt8[Tensor, "3 height width"],
    coarse: Bool[Tensor, "height width"],
    *,
    second_piece: bool = False,
    fall_back: bool = True,
    smallest_share: float = 0.0,
) -> tuple[Bool[Tensor, "height width"], bool]:
    """The coarse mask brought to the image's edges, and whether the image is kept for training.

    `second_piece` as `solid` (B19). Where the answer overlaps the coarse mask by an IoU below
    AGREEMENT, the solver has lost the object: with `fall_back` the coarse mask stands in, without
    it the image is given up (the published script multiplies the answer by -1, which makes its
    sum negative instead of turning it over, B17). Masks of less than `smallest_share` of the
    image are skipped in training (B15). A mask without object or without background is never kept:
    it would teach nothing.
    """
    before = coarse.numpy()
    after = solid(
        bilateral_solve(image.permute(1, 2, 0).numpy(), before), second_piece=second_piece
    )
    agrees = _iou(after, before) >= AGREEMENT
    if fall_back and not agrees:
        after = before
    share = after.mean()
    keep = (agrees or fall_back) and share >= smallest_share and 0 < share < 1
    return torch.from_numpy(after), bool(keep)


def sound(found: AutomaticMasks) -> AutomaticMasks:
    """The same, of which those are kept that mark an object, and not the background in its place.

    TokenCut often marks the background behind faces and what else fills the picture. Ours: a mask
    that covers more than BORDER of the picture's border is given up. Of photographs that were
    looked at, 99 of 104 that are left outline the object, and 101 of 150 before (docs/photographs).
    """
    masks = found.refined[:, 0].float()
    sides = [masks[:, 0], masks[:, -1], masks[..., 0], masks[..., -1]]
    border = torch.cat(sides, dim=1).mean(dim=1)
    return replace(found, kept=found.kept & (border <= BORDER).to(found.kept.device))


def mask_quality(
    found: Bool[Tensor, "images 1 height width"], truth: Bool[Tensor, "images 1 height width"]
) -> pd.DataFrame:
    """How well masks agree with the exact ones, none of them empty, one row an image.

    Columns: `iou_pct` (pixels; 0 for an empty mask) and `located` (boxes around both overlap by
    an IoU of CORLOC_IOU or more; its mean is CorLoc).
    """
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
    """
    places = truth.flatten(1).any(dim=1).nonzero()[:, 0]
    parts = [
        mask_quality(getattr(found, stage)[places], truth[places]).assign(
            index=places.tolist(), stage=stage, kept=found.kept[places].numpy()
        )
        for stage in ("coarse", "refined")
    ]
    columns = ["index", "stage", "iou_pct", "located", "kept"]
    return pd.concat(parts, ignore_index=True)[columns]


def in_the_middle(
    masks: Shaped[Tensor, "*images height width"],
) -> Shaped[Tensor, "*images height width"]:
    """One ellipse for all images, as large as masks are on average: it knows of no object.

    It is the zero of a mask's quality. Of an image's shape; fractions of masks count as such.
    """
    height, width = masks.shape[-2:]
    rows, columns = torch.linspace(-1, 1, height)[:, None], torch.linspace(-1, 1, width)
    ellipse = rows**2 + columns**2 <= 4 / math.pi * masks.float().mean().cpu()
    return ellipse.to(masks).expand_as(masks).clone()


def zoom_in(
    images: UInt8[Tensor, "images 3 height width"], masks: Bool[Tensor, "images 1 height width"]
) -> tuple[UInt8[Tensor, "images 3 height width"], Bool[Tensor, "images 1 height width"]]:
    """Images and masks cut to the object's box and enlarged to their size again.

    Shows what becomes of objects that fill most of the image.
    """
    size, zoomed = images.shape[-2:], []
    for image, mask in zip(images, masks, strict=True):
        box = scipy.ndimage.find_objects(mask[0].cpu().numpy().astype(int))[0]
        both = torch.cat([image, mask.to(image.dtype)])[(slice(None), *box)]
        zoomed.append(interpolate(both[None], size, mode="nearest")[0])
    both = torch.stack(zoomed)
    return both[:, :3], both[:, 3:].bool()


def _iou(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / max((a | b).sum(), 1))


def _box(mask: np.ndarray) -> np.ndarray:
    box = np.zeros_like(mask)
    box[scipy.ndimage.find_objects(mask.astype(int))[0]] = True
    return box

"""What a classifier loses on pictures that are blurred or cut into tiles.

Source: IAV Sec. V.A, Fig. 3 b to d; the pictures are made in `relevit.data.corruptions`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, get_args

import pandas as pd
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor, nn

from relevit.base.device import Precision
from relevit.data.corruptions import blur, jigsaw
from relevit.evaluate.bfloat16 import Answers, label_gap
from relevit.models.spec import ModelSpec

Corruption = Literal["none", "blur", "jigsaw", "patch_jigsaw"]

HALVES = 2  # tiles a side of the coarse jigsaw
BATCH = 50  # images corrupted and classified at once; the answers do not depend on it
PROBE = 16  # images on which bfloat16 is compared with float32, for each corruption and level


def shift_table(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "batch 3 height width"],
    labels: Int[Tensor, " batch"],
    levels: Mapping[str, Sequence[float]],
    *,
    precision: Precision | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Accuracy of a classifier on its images as they are and under each corruption and level.

    Source: IAV Fig. 3 b to d. `levels` gives the levels of each corruption: `blur` in pixels
    (standard deviation), `jigsaw` (grid 2) and `patch_jigsaw` (the model's patch grid) in swaps.
    `precision` runs a converted copy of the weights; None keeps the model's own format. With
    `bfloat16`, answers that rounding could change are computed again in float32, judged by the
    errors on PROBE images under each corruption and level (`relevit.evaluate.bfloat16`).

    One row a corruption and level, in the order given, after the row ('none', 0). Columns:
    `corruption`, `level`, `top1_pct`, `images` (their number).
    Raises: ValueError for an unknown corruption, a level that is not above 0 or not whole for
    swaps, images or labels that do not fit, or a model without a square patch grid.
    """
    _check(images, labels, levels)
    answers = Answers(model, precision)
    tiles = {"jigsaw": HALVES}
    if "patch_jigsaw" in levels:
        tiles["patch_jigsaw"] = _patch_grid(model)
    cases = [("none", 0.0), *((name, float(v)) for name, of_it in levels.items() for v in of_it)]
    corrupted = [partial(_corrupt, name, level, tiles.get(name), seed) for name, level in cases]
    probe = images[torch.linspace(0, len(images) - 1, min(PROBE, len(images))).long()]
    answers.measure(spec.normalise(corrupt(probe, 0), like=answers.like) for corrupt in corrupted)
    rows = []
    for (name, level), corrupt in zip(cases, corrupted, strict=True):
        hits = torch.cat(
            [
                _hits(answers, spec, corrupt(images[part], int(part[0])), labels[part].cpu())
                for part in torch.arange(len(images)).split(BATCH)
            ]
        )
        rows.append((name, level, 100 * float(hits.double().mean()), len(images)))
    return pd.DataFrame(rows, columns=["corruption", "level", "top1_pct", "images"])


def _corrupt(
    name: Corruption, level: float, tiles: int | None, seed: int, images: Tensor, first_index: int
) -> UInt8[Tensor, "batch 3 height width"]:
    if tiles is not None:
        return jigsaw(images, tiles, int(level), seed, first_index)
    return blur(images, level)  # 'none' has level 0


def _hits(
    answers: Answers, spec: ModelSpec, images: Tensor, labels: Int[Tensor, " batch"]
) -> Bool[Tensor, " batch"]:
    """Whether the label has the highest logit; NaN is no right answer."""

    def gap(logits: Tensor) -> Tensor:
        return label_gap(logits, labels, k=1)

    logits = answers(spec.normalise(images, like=answers.like), gap)
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(
            f"shift_table: labels {int(labels.min())} to {int(labels.max())} and a model of "
            f"{logits.shape[1]} classes; needed are labels in 0..{logits.shape[1] - 1}: use the "
            "model that was finetuned on these images"
        )
    return (logits.argmax(dim=1) == labels) & logits.isfinite().all(dim=1)


def _patch_grid(model: nn.Module) -> int:
    grid = getattr(getattr(model, "patch_embed", None), "grid_size", None)
    if grid is None or len(set(grid)) != 1:
        raise ValueError(
            f"shift_table: this {type(model).__name__} has the patch grid {grid}; 'patch_jigsaw' "
            "needs a square one: leave it out, or use a Vision Transformer for square images"
        )
    return int(grid[0])


def _check(images: Tensor, labels: Tensor, levels: Mapping[str, Sequence[float]]) -> None:
    if images.dtype != torch.uint8:
        raise ValueError(
            f"shift_table: images of {images.dtype}; needed are bytes (torch.uint8): corrupt them "
            "before they are normalised"
        )
    if labels.shape != images.shape[:1]:
        raise ValueError(
            f"shift_table: {len(images)} images and labels {tuple(labels.shape)}; needed is one "
            "label for each image"
        )
    allowed = get_args(Corruption)[1:]
    for name, values in levels.items():
        if name not in allowed:
            raise ValueError(f"shift_table: corruption {name!r} is unknown; use {allowed}")
        whole = name == "blur" or all(float(value).is_integer() for value in values)
        if not whole or not all(0 < value < math.inf for value in values):
            raise ValueError(
                f"shift_table: levels {list(values)} of {name!r}; needed are numbers above 0, "
                "whole ones for swaps: the images as they are come without asking"
            )

"""What a classifier loses on pictures that are blurred or cut into tiles.

Source: IAV Sec. V.A, Fig. 3 b to d; the pictures are made in `habitats.corruptions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import pandas as pd
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor, nn

from habitats.corruptions import blur, jigsaw
from relevit.evaluate.answering import Answers, label_gap
from relevit.maps import patch_grid
from relevit.models.spec import ModelSpec

Corruption = Literal["blur", "jigsaw", "patch_jigsaw"]

HALVES = 2  # tiles a side of the coarse jigsaw
BATCH = 50  # images corrupted and classified at once; the answers do not depend on it


def shift_table(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "batch 3 height width"],
    labels: Int[Tensor, " batch"],
    levels: Mapping[Corruption, Sequence[float]],
    *,
    seed: int = 0,
) -> pd.DataFrame:
    """Accuracy of a classifier on its images as they are and under each corruption and level.

    Source: IAV Fig. 3 b to d. `levels` gives the levels of each corruption: `blur` in pixels
    (standard deviation), `jigsaw` (grid 2) and `patch_jigsaw` (the model's patch grid) in swaps.

    One row a corruption and level, in the order given, after the row ('none', 0). Columns:
    `corruption`, `level`, `top1_pct`, `images` (their number).
    """
    answers = Answers(model)
    tiles: dict[str, int | tuple[int, int]] = {"jigsaw": HALVES}
    if "patch_jigsaw" in levels:
        tiles["patch_jigsaw"] = patch_grid(model, images)

    def corrupt(case: tuple[str, float], images: Tensor, first_index: int = 0) -> Tensor:
        name, level = case
        if name in tiles:
            changed = jigsaw(images, tiles[name], int(level), seed, first_index)
        else:
            changed = blur(images, level)  # 'none' has level 0
        return spec.normalise(changed, like=answers.like)

    cases = [("none", 0.0), *((name, float(v)) for name, of_it in levels.items() for v in of_it)]
    rows = []
    for case in cases:
        parts = torch.arange(len(images)).split(BATCH)
        hits = [
            _hits(answers, corrupt(case, images[part], int(part[0])), labels[part].cpu())
            for part in parts
        ]
        rows.append((*case, 100 * float(torch.cat(hits).double().mean()), len(images)))
    return pd.DataFrame(rows, columns=["corruption", "level", "top1_pct", "images"])


def _hits(answers: Answers, pixels: Tensor, labels: Tensor) -> Bool[Tensor, " batch"]:
    """Whether the label has the highest logit; NaN is no right answer."""
    logits = answers(pixels, partial(label_gap, labels=labels, k=1))
    return (logits.argmax(dim=1) == labels) & logits.isfinite().all(dim=1)

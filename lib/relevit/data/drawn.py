"""Sets of Cutouts as labelled pictures that are drawn when they are read."""

from __future__ import annotations

import torch

from relevit.data import cutouts
from relevit.data.foregrounds import CLASSES, Drawings
from relevit.data.labelled import Labelled


def drawn(
    set_name: str, count: int, *, drawings: Drawings | None = None, seed: int = 0, size: int = 112
) -> Labelled:
    """The first `count` images of a set; arguments and errors as `cutouts.draw`.

    Nothing is kept in memory, so that a training can see new images in every epoch.
    """
    classes = CLASSES if drawings is None else drawings.classes
    return Labelled(
        set_name,
        classes,
        torch.arange(count) % len(classes),
        lambda wanted: (
            cutouts.draw(set_name, list(wanted), seed=seed, size=size, drawings=drawings).images
        ),
    )

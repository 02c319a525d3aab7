"""How much a model leans on context: the backgrounds challenge, and where its relevance lies.

Source: Xiao, Engstrom, Ilyas, Madry 2020, Noise or Signal: The Role of Image Backgrounds in Object
Recognition. Of Habitats alone, whose animals can be moved from one home into another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pandas as pd
import torch
from torch import nn

from habitats.homes import CHALLENGE
from relevit.attribution import explain
from relevit.data.batch import Batch
from relevit.evaluate.predictions import BATCH, Classifier
from relevit.models.spec import ModelSpec

PARTS = ("object", "props", "texture")
Batches = Callable[..., Iterable[Batch]]


def backgrounds_challenge(
    classifier: Classifier, batches: Batches, images: int, *, seed: int = 0
) -> dict[str, float]:
    """Top-1 in percent on the three sets of CHALLENGE, and `background_gap_pts`.

    The gap is `mixed_same` less `mixed_random`: the same animals at home and in a random home.
    `batches` are the `test_batches` of a benchmark whose homes can be chosen.
    """
    top1 = {}
    for name in CHALLENGE:
        answers = classifier.predict(
            batches(name, images, BATCH, seed=seed, size=classifier.spec.image_size)
        )
        top1[f"{name}_pct"] = 100 * float((answers["label_rank"] == 0).mean())
    gap = top1["mixed_same_pct"] - top1["mixed_random_pct"]
    return top1 | {"background_gap_pts": gap}


def relevance_shares(
    model: nn.Module, spec: ModelSpec, batches: Iterable[Batch], method: str = "gae"
) -> pd.DataFrame:
    """One row an image: the share of its relevance on object, props and texture, in percent.

    Maps are for the predicted class, GAE's or another method's, raised to pixels and with their
    lowest value at 0, as the finetuning looks at them; of signed maps what speaks for the class.
    Where things beside the object are not known, what is not object
    is texture.
    """
    device = next(model.parameters()).device
    parts = []
    for batch in batches:
        pixels = spec.normalise(batch.images.to(device))
        heat = explain(model, pixels, method=method, positive=True).cpu().double()
        heat = heat / heat.sum(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)
        on_object = batch.masks > 0.5
        on_props = torch.zeros_like(on_object) if batch.props is None else batch.props
        masks = (on_object, on_props, ~(on_object | on_props))
        shares = [100 * (heat * mask).sum(dim=(1, 2, 3)) for mask in masks]
        parts.append(torch.stack(shares, dim=1))
    columns = [f"on_{part}_pct" for part in PARTS]
    return pd.DataFrame(torch.cat(parts).numpy(), columns=columns)

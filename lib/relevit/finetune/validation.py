"""What finetuning looks at after each epoch: accuracy and losses on validation images alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor, nn

from relevit.base.device import Precision, at_once
from relevit.data.batch import Batch
from relevit.evaluate.predictions import BATCH, predict
from relevit.finetune.epochs import read
from relevit.finetune.hyperparameters import BASELINES
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import step_losses
from relevit.masks import AutomaticMasks
from relevit.models.spec import ModelSpec
from relevit.models.trunk import Frozen, Trunk, kept_tokens, open_trunk

CLASS_LOSSES = "validation_class_losses"  # of a log: those of each image


def validation_figures(
    spec: ModelSpec,
    *,
    images: int,
    maps: int,
    precision: Precision,
    masks: AutomaticMasks | None = None,
    seed: int = 0,
    draw: Callable[..., Batch],
    frozen: Frozen | None = None,
) -> Callable[[nn.Module, FinetuneSettings], dict[str, Any]]:
    """What finetuning looks at after each epoch, on the validation images alone.

    `images` of them give `top1_pct`, `confidence_loss` (Eq. 4 without temperature) and
    `label_loss` (cross-entropy of the label), in nats; the losses of the maps are means over the
    first `maps`, computed as in training but without augmentation. With automatic `masks` of these
    first images, those count that are fit for training. `class_losses` are the run's own class
    term of each image. `draw` is that of the preset's benchmark, and may give fewer. Tokens of
    `frozen` blocks are kept.
    """
    shown = draw("validation", range(max(images, maps)), seed=seed, size=spec.image_size)
    mapped = shown.select(range(len(shown))[:maps])
    if masks is not None:
        mapped = replace(mapped, masks=masks.refined).select(masks.kept.nonzero()[:, 0])

    def figures(model: nn.Module, settings: FinetuneSettings) -> dict[str, Any]:
        device, trunk = next(model.parameters()).device, open_trunk(model, frozen)
        size, found = settings.batch_size, []
        if settings.method not in BASELINES:  # of which some terms are sums over a batch
            size = at_once(size, device)
        parts = list(mapped.split(size))
        for part in parts:
            pixels = spec.normalise(part.images.to(device))
            masks, labels = part.masks.to(device).float(), part.labels.to(device)
            with step_tokens(trunk, pixels, settings, train=False):
                losses = step_losses(model, pixels, masks, labels, settings, train=False)
            found.append({name: value.detach() for name, value in losses.named.items()})
        rows = [pd.Series(row) * len(part) for row, part in zip(read(found), parts, strict=True)]
        means = (sum(rows) / len(mapped)).to_dict()
        asked = shown.select(range(len(shown))[:images])
        answers = predict(model, spec, asked.split(BATCH), precision, frozen)
        losses = {
            "confidence": -np.log(answers["confidence_pct"] / 100),
            "label": answers["label_loss"],
        }
        return {
            "top1_pct": 100 * float((answers["label_rank"] == 0).mean()),
            **{f"{name}_loss": float(each.mean()) for name, each in losses.items()},
            "class_losses": losses[settings.class_loss].round(6).tolist(),
            **means,
        }

    return figures


def step_tokens(
    trunk: Trunk | None, images: Tensor, settings: FinetuneSettings, *, train: bool
) -> AbstractContextManager[None]:
    """Where `step_losses` of these images takes the tokens of its frozen blocks from files.

    Baselines look at the pixels, and a head alone has no map of its own: it is of all blocks.
    """
    looks = not (train and settings.weights["relevance"] == 0)
    if settings.method in BASELINES or (looks and not settings.trained_blocks):
        return nullcontext()
    ruled = looks and settings.explanation == "attn_lrp"
    return kept_tokens(trunk, images, settings.precision + (" by rules" if ruled else ""))

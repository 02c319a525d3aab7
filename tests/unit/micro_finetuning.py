"""A relevance finetuning that takes a moment: a two-block ViT and ten small pictures."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import timm
import torch

from habitats.cutouts import CUTOUTS
from relevit.finetune import loop
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import step_losses
from relevit.models.spec import ModelSpec

SIZE = 28
SPEC = ModelSpec(
    "micro",
    "vit_tiny_patch16_224",
    SIZE,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
    options={"patch_size": 14, "embed_dim": 16, "depth": 2, "num_heads": 2},
)
SETTINGS = FinetuneSettings(lr=1.0e-3, epochs=3, batch_size=4)
RESULT = ("weights.safetensors", "log.jsonl")


class Stop(BaseException):
    """Ends a run at once; not an Exception, so that nothing catches it."""


def stop(*args, **kwargs):
    raise Stop


def micro_model(seed=0):
    torch.manual_seed(seed)
    return timm.create_model(SPEC.timm_name, img_size=SIZE, num_classes=40, **SPEC.options)


@cache
def pictures(name, count):
    """Cutouts with both object and background in the mask, whatever the recipes say."""
    drawn = CUTOUTS.draw(name, range(3 * count), size=SIZE)
    share = drawn.masks.float().mean(dim=(1, 2, 3))
    return drawn.select(((share > 0) & (share < 1)).nonzero()[:count, 0])


def validate(model, settings):
    shown = pictures("validation", 4)
    images = SPEC.normalise(shown.images)
    return step_losses(model, images, shown.masks.float(), shown.labels, settings).numbers()


def run(
    folder,
    settings=SETTINGS,
    *,
    model=None,
    validate=validate,
    after_step=lambda model: None,
    **options,
):
    """One micro finetuning; `after_step` is called after each step with the model."""
    model = micro_model() if model is None else model
    options = {"inputs": {}, "on_step": lambda *_: after_step(model)} | options
    return loop.finetune(
        model, SPEC, pictures("finetune", 10), validate, settings, Path(folder), **options
    )


def result(folder):
    return {name: (Path(folder) / name).read_bytes() for name in RESULT}


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])

"""Whatever looks at a model leaves its modes, hooks, gradients and switches as they were."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn

from relevit.attribution import METHODS
from relevit.evaluate.perturbation import Erasing, Judged, perturbation_rows
from relevit.finetune.baselines import Sample, pixel_gradients
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import step_losses
from relevit.iav import class_attention
from relevit.masks import key_features

from .attribution_cases import GRAPH, explain


def erased(model, images):
    batch = Judged(images, torch.rand(len(images), 16), torch.zeros(len(images)).long())
    half = Erasing("token", shares_pct=[50])
    perturbation_rows(model, lambda pixels: pixels, [batch], (4, 4), half)


def sample(images):
    return Sample(images, torch.ones_like(images[:, :1]), torch.zeros(len(images)).long())


def stepped(method, protocol):
    settings = FinetuneSettings(lr=1.0, method=method, protocol=protocol)
    return lambda model, images: step_losses(model, *sample(images), settings)


LOOKS = {
    "pixel_gradients": lambda model, images: pixel_gradients(model, sample(images), "rrr"),
    **{
        f"step_losses, {method}, {protocol}": stepped(method, protocol)
        for method in ("relevance", "gradmask", "rrr")
        for protocol in ("published", "described")
    },
    **{name: partial(explain, name) for name in METHODS},
    **{f"{name}, exact": partial(explain, name, exact_gradient=True) for name in GRAPH},
    "key_features": key_features,
    "class_attention": class_attention,
    "perturbation_rows": erased,
}


class Broken(nn.Module):
    def forward(self, x):
        raise KeyError("broken")


@pytest.mark.parametrize(("training", "broken"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("name", LOOKS)
def test_model_is_left_as_it_was(build_vit, images, state_of, name, broken, training):
    model = build_vit().train(training)
    model.blocks[0].attn.fused_attn = False
    model.patch_embed.requires_grad_(False)
    if broken:
        model.blocks[1].mlp = Broken().train(training)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    before = state_of(model)
    with pytest.raises(KeyError, match="broken") if broken else nullcontext():
        LOOKS[name](model, images)
    assert state_of(model) == before
    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    assert torch.is_grad_enabled()
    assert not images.requires_grad and images.grad is None

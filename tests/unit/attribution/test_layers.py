"""Layers that are more than their weight: run as they are, and refused where the weight is read."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import prune, weight_norm
from torch.nn.utils.parametrize import register_parametrization

from relevit.attribution import METHODS
from relevit.evaluate.approximation import approximation_errors

from ..attribution_cases import LRP, close, explain


class Adapted(nn.Linear):
    """LoRA as peft leaves it before merging: `.weight` is that of the layer below."""

    def __init__(self, layer):
        super().__init__(layer.in_features, layer.out_features)
        self.to(layer.weight).load_state_dict(layer.state_dict())
        random = torch.Generator().manual_seed(0)
        change = 0.3 * torch.randn(self.weight.shape, generator=random).to(layer.weight)
        self.register_buffer("change", change)

    def forward(self, inputs):
        return super().forward(inputs) + inputs @ self.change.T


class Behind(nn.Module):
    """`weight` is a method, as in torch.ao's quantised layers."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.in_features = layer, layer.in_features

    def weight(self):
        return self.layer.weight

    def forward(self, inputs):
        return self.layer(inputs)


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def hooked(layer):
    layer.register_forward_hook(lambda layer, args, made: 2 * made)
    return layer


CHANGED = {
    "lora": Adapted,
    "quantised": Behind,
    "hook": hooked,
    "parametrize": lambda layer: register_parametrization(layer, "weight", Doubled()),
    "weight_norm": weight_norm,  # which sets `.weight` when the layer is called
    "pruned": lambda layer: prune.random_unstructured(layer, "weight", 0.5),
}
READ = {
    **dict.fromkeys(LRP, ("blocks.1.attn.proj", "blocks.1.mlp.fc2", "head")),
    "attn_lrp": ("blocks.1.mlp.fc1", "head"),
    "token_wise": ("blocks.1.attn.qkv", "blocks.1.attn.proj"),
}


def change(model, path, kind):
    parent, _, name = path.rpartition(".")
    parent = model.get_submodule(parent)
    setattr(parent, name, CHANGED[kind](getattr(parent, name)))
    return model


@pytest.mark.parametrize("kind", CHANGED)
@pytest.mark.parametrize("name", READ)
def test_a_changed_layer_whose_weight_is_read_is_refused(build_vit, images, name, kind):
    for path in READ[name]:
        model = change(build_vit(), path, kind)
        for given in (model, model.float()):
            told = rf"{name}: {path} of this VisionTransformer is a changed \w+, .*merge_and_unload"
            with pytest.raises(ValueError, match=told):
                explain(name, given, images.to(next(given.parameters())))


def test_a_recurrence_of_a_changed_mlp_is_refused(build_vit, images):
    with pytest.raises(ValueError, match=r"blocks\.1\.mlp\.fc1 is a changed Adapted"):
        approximation_errors(change(build_vit(), "blocks.1.mlp.fc1", "lora"), images)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in READ])
def test_other_methods_explain_what_a_layer_computes(build_vit, images, name):
    adapted, merged = build_vit(), build_vit()
    for path in ("blocks.1.attn.qkv", "blocks.1.attn.proj", "blocks.1.mlp.fc1", "head"):
        change(adapted, path, "lora")
        with torch.no_grad():
            merged.get_submodule(path).weight += adapted.get_submodule(path).change
    torch.testing.assert_close(adapted(images), merged(images))
    maps = [explain(name, model, images, protocol="described") for model in (adapted, merged)]
    close(*maps, 1e-6)

"""Layers that are more than their weight: called where a method can, named where it cannot."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import prune, weight_norm
from torch.nn.utils.parametrize import register_parametrization

from relevit.attribution import METHODS
from relevit.attribution.attn_lrp import attn_lrp_and_logits, linear_layers

from ..attribution_cases import LRP, close, explain


class Adapted(nn.Linear):
    """LoRA as peft leaves it before merging: `.weight` is that of the layer below."""

    def __init__(self, layer):
        super().__init__(layer.in_features, layer.out_features)
        self.to(layer.weight).load_state_dict(layer.state_dict())
        random = torch.Generator().manual_seed(0)
        self.change = 0.3 * torch.randn(self.weight.shape, generator=random).to(layer.weight)

    def forward(self, inputs):
        return super().forward(inputs) + inputs @ self.change.T


def merged(layer):
    with torch.no_grad():
        layer.weight += Adapted(layer).change
    return layer


class Behind(nn.Module):
    """`weight` is a method, as in torch.ao's quantised layers."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

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


def doubled(layer):
    with torch.no_grad():
        layer.weight *= 2
        layer.bias *= 2
    return layer


def stale(layer):
    """The old weight_norm sets `.weight` when the layer is called."""
    weight_norm(layer).weight_g.data *= 3
    return layer


MORE = {
    "lora": Adapted,
    "wrapped": lambda layer: Behind(Adapted(layer)),  # with none of a layer's attributes
    "hook": hooked,
    "quantised": Behind,
}
SAME = {
    "plain": lambda layer: layer,
    "lora merged": merged,
    "parametrize": lambda layer: register_parametrization(layer, "weight", Doubled()),
    "old weight_norm": stale,
    "doubled": doubled,
    "pruned": lambda layer: prune.random_unstructured(layer, "weight", 0.5),
}


def wrap(model, path, kind):
    parent, _, name = path.rpartition(".")
    parent = model.get_submodule(parent)
    setattr(parent, name, (MORE | SAME)[kind](getattr(parent, name)))
    return model


READ = ("blocks.1.attn.qkv", "blocks.1.attn.proj", "blocks.1.mlp.fc1", "blocks.1.mlp.fc2", "head")


@pytest.mark.parametrize("kind", ["parametrize", "old weight_norm", "pruned"])
@pytest.mark.parametrize("name", [*LRP, "token_wise", "attn_lrp"])
def test_a_weight_that_is_computed_is_explained(build_vit, images, name, kind):
    model, single, plain = build_vit(), build_vit(), build_vit()
    for path in READ:
        wrap(model, path, kind)
        wrap(single, path, kind)
    model(images)
    with torch.no_grad():
        for path in READ:
            plain.get_submodule(path).weight.copy_(model.get_submodule(path).weight)
    exact = explain(name, model, images)
    close(exact, explain(name, plain, images), 1e-9)
    if name in LRP:  # which work on a copy in float64
        single.load_state_dict(model.state_dict())
        found = explain(name, single.float(), images.float())
        assert found.dtype == torch.float32
        assert (found - exact).norm() <= 1e-3 * exact.norm()


AS = {"lora": "lora merged", "wrapped": "lora merged", "hook": "doubled", "quantised": "plain"}


@pytest.mark.parametrize("paths", [READ[:2], READ[2:]], ids=["attention", "MLP and head"])
@pytest.mark.parametrize("kind", AS)
@pytest.mark.parametrize("name", METHODS)
def test_a_layer_is_explained_as_it_computes(build_vit, images, name, kind, paths):
    """Or not at all: the rules of LRP would take an adapter for a summand beside the layer."""
    wrapped, other = build_vit(), build_vit()
    for path in paths:
        if kind in ("lora", "hook") or not path.endswith("qkv"):  # timm reads the bias of that one
            wrap(wrapped, path, kind)
            wrap(other, path, AS[kind])
    torch.testing.assert_close(wrapped(images), other(images))
    if name in LRP and AS[kind] == "lora merged":
        text = r"lrp: .* in (blocks\.1\.(attn|mlp)|head) of this Vision.*adapters.*merge_and_unload"
        with pytest.raises(ValueError, match=text):
            explain(name, wrapped, images)
        return
    maps = [explain(name, model, images, protocol="described") for model in (wrapped, other)]
    close(*maps, 1e-6)


@pytest.mark.parametrize("path", READ[2:])
def test_an_adapter_learns_from_attn_lrp_as_if_merged(build_vit, images, path):
    found = []
    for kind in ("lora", "lora merged"):
        layer = wrap(build_vit(), path, kind)
        part = layer.get_submodule(path)
        weight = part.change.requires_grad_() if kind == "lora" else part.weight.requires_grad_()
        relevance, _ = attn_lrp_and_logits(layer, images, [0, 3, 1], in_graph=True)
        found += torch.autograd.grad(relevance.square().sum(), weight)
    close(*found, 1e-6, 1e-9)


class Bent(nn.Linear):
    def forward(self, inputs):
        return super().forward(inputs).tanh()


@pytest.mark.parametrize(
    ("name", "path", "told"),
    [
        ("attn_lrp", "blocks.1.mlp.fc2", "is a Bent that .*give gamma=0"),
        ("token_wise", "blocks.1.attn.proj", "is a Bent, where .*merge_and_unload"),
        ("token_wise", "blocks.0.attn.qkv", "is a Bent, where .*merge_and_unload"),
    ],
)
def test_a_layer_without_a_matrix_is_named(build_vit, images, name, path, told):
    model = build_vit()
    layer = model.get_submodule(path)
    layer.__class__ = Bent
    with pytest.raises(ValueError, match=f"{name}: {path} of this VisionTransformer {told}"):
        explain(name, model, images)
    if name == "attn_lrp":
        assert explain(name, model, images, gamma=0.0).isfinite().all()


def test_layers_in_a_head_have_the_gamma_rule_each(build_vit, images):
    plain, deep = build_vit(), build_vit()
    deep.head = nn.Sequential(nn.Identity(), deep.head)
    close(*(explain("attn_lrp", model, images) for model in (plain, deep)), 1e-9)
    deep.head = nn.Sequential(nn.Linear(16, 8).double(), nn.GELU(), nn.Linear(8, 5).double())
    first, _, last = deep.head
    found = linear_layers(deep)
    assert found["head.0"] is first and found["head.2"] is last and len(found) == 7
    assert explain("attn_lrp", deep, images).isfinite().all()

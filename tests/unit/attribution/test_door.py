"""A model is what it does: maps are of its function, whatever it is wrapped in, or refused."""

from __future__ import annotations

import copy
import warnings
from contextlib import suppress

import pytest
import torch
from torch import nn

from relevit import METHODS, explain
from relevit.attribution.methods import ALIASES
from relevit.maps import logits_of

from ..models.conftest import made

TARGET = [1, 2]


@pytest.fixture
def images():
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(3))


def of_function(model, images):
    """GAE of whatever the model computes, by the recursion and autograd alone."""
    maps, handles = [], []
    for block in model.blocks:
        block.attn.fused_attn = False
        keep = block.attn.attn_drop.register_forward_hook(lambda _m, _i, out: maps.append(out))
        handles.append(keep)
    logits = logits_of(model(images), model.num_classes)
    slopes = torch.autograd.grad(logits.gather(1, torch.tensor(TARGET)[:, None]).sum(), maps)
    for handle in handles:
        handle.remove()
    rows = torch.eye(maps[0].shape[-1]).expand(len(images), -1, -1)
    for matrix, slope in zip(maps, slopes, strict=True):
        rows = rows + (matrix * slope).clamp(min=0).mean(1) @ rows
    return rows[:, 0, 1:]


class Adapter(nn.Module):
    """A LoRA that is not merged."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.more = layer, nn.Linear(layer.in_features, layer.out_features)

    def forward(self, x):
        return self.layer(x) + self.more(x)


class Giving(nn.Module):
    def __init__(self, model, how):
        super().__init__()
        self.__dict__.update(model.__dict__)
        self.how, self.network = how, [model]

    def forward(self, x):
        return self.how(self.network[0](x))


def with_adapter(model):
    model.blocks[1].attn.qkv = Adapter(model.blocks[1].attn.qkv)
    return model


def with_hook(how, part="attn.attn_drop"):
    def change(model):
        layer = model.blocks[1].get_submodule(part)
        layer.register_forward_hook(lambda _m, _i, out: how(out))
        return model

    return change


def compiled_block(model):
    model.blocks[1] = torch.compile(model.blocks[1], backend="eager")
    return model


def traced_block(model):
    model.blocks[1] = torch.jit.trace(model.blocks[1], torch.randn(1, 17, 16), check_trace=False)
    return model


def quantised(*parts):
    def change(model):
        for name in parts:
            owner = model.blocks[1].get_submodule(name.rpartition(".")[0])
            layer = getattr(owner, name.rpartition(".")[2])
            kind = torch.ao.nn.quantized.dynamic.Linear
            layer.qconfig = torch.ao.quantization.default_dynamic_qconfig
            setattr(owner, name.rpartition(".")[2], kind.from_float(layer))
        return model

    return change


RIGHT = {
    "as it is": lambda model: model,
    "DataParallel": nn.DataParallel,
    "Sequential of one": lambda model: nn.Sequential(model),
    "compiled as a whole": lambda model: torch.compile(model, backend="eager"),
    "both": lambda model: nn.DataParallel(nn.Sequential(model)),
    "LoRA, not merged": with_adapter,
    "a hook that changes a map": with_hook(lambda out: out * 0.5),
    "a hook that changes what a block says": with_hook(lambda out: out.tanh(), "mlp"),
}
REFUSED = {
    "a hook that cuts the gradient": (with_hook(lambda out: out.detach(), "mlp"), "gradient of th"),
    "a hook that rounds": (
        with_hook(lambda out: out + (out.round() - 2 * out).detach(), "attn"), "gradient of this"),
    "quantised MLP": (quantised("mlp.fc1", "mlp.fc2"), "gradient of this|quantised"),
    "one in a wrapper of one's own": (
        lambda model: nn.Sequential(nn.Identity(), model), r"give what is in it, model\.1, or us"),
    "tokens": (lambda model: Giving(model, lambda y: y[:, None]), "not logits, .batch, classes."),
    "nothing": (lambda model: Giving(model, lambda y: None), "gives NoneType, and not logits"),
    "two that may be": (lambda model: Giving(model, lambda y: (y, y)), "gives tuple, and not log"),
}  # fmt: skip
OUTPUTS = {
    "a tuple": lambda y: (y, torch.zeros(len(y), 17, 16)),
    "a tuple with features": lambda y: (y, torch.zeros(len(y), 16)),
    "a dictionary": lambda y: {"logits": y, "loss": None},
}


@pytest.mark.parametrize("how", RIGHT)
def test_maps_are_of_the_function(images, how):
    model = made()
    given = RIGHT[how](model)
    torch.testing.assert_close(METHODS["gae"](given, images, TARGET), of_function(model, images))


@pytest.mark.parametrize("how", OUTPUTS)
def test_logits_are_found_among_outputs(images, how):
    model = made()
    want = of_function(model, images)
    torch.testing.assert_close(METHODS["gae"](Giving(model, OUTPUTS[how]), images, TARGET), want)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", REFUSED)
def test_what_a_map_would_be_wrong_of_is_refused(images, how):
    change, said = REFUSED[how]
    with pytest.raises(ValueError, match=said):
        METHODS["gae"](change(made()), images, TARGET)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", [compiled_block, traced_block])
def test_parts_that_hooks_do_not_reach_are_refused_or_right(images, change):
    model = made()
    want = of_function(copy.deepcopy(model), images)
    with suppress(ValueError, RuntimeError):
        torch.testing.assert_close(METHODS["gae"](change(model), images, TARGET), want)


@pytest.mark.parametrize("channels", [1, 4, 13])
def test_any_number_of_channels(channels):
    model = made(in_chans=channels)
    images = torch.randn(2, channels, 32, 32)
    torch.testing.assert_close(
        METHODS["gae"](model, images, TARGET), of_function(model, images), rtol=1e-4, atol=1e-6
    )


def test_a_hook_that_comes_later_is_seen(images):
    model = made()
    METHODS["gae"](model, images)
    with_hook(lambda out: out.detach(), "mlp")(model)
    with pytest.raises(ValueError, match="take out what computes outside of autograd"):
        METHODS["gae"](model, images)


def test_a_layer_that_comes_later_is_seen(images):
    class Cut(nn.Identity):
        def forward(self, x):
            return x.detach()

    model = made()
    METHODS["gae"](model, images)
    model.blocks[0].mlp.act = Cut()
    with pytest.raises(ValueError, match="by its attention is not that of its function"):
        METHODS["gae"](model, images)


def test_an_empty_map_is_said(images):
    model = made()
    nn.init.zeros_(model.head.weight)
    with pytest.warns(UserWarning, match="2 of 2 maps of gae are the same everywhere"):
        assert not explain(model, images).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explain(made(), images)


def test_other_names_and_pictures_are_known(tmp_path):
    from PIL import Image

    from relevit import model_input

    model, path = made(), tmp_path / "cat.png"
    Image.effect_noise((50, 40), 90).convert("RGB").save(path)
    want = explain(model, model_input(model, path), method="rollout")
    for given in (str(path), path, Image.open(path), [path]):
        assert torch.equal(explain(model, given, method="attention_rollout"), want)
    assert set(ALIASES.values()) <= set(METHODS) and not set(ALIASES) & set(METHODS)


def test_rollout_is_abnars_unless_a_protocol_is_named(images):
    model = made(depth=4)
    plain, published = (
        METHODS["rollout"](model, images, **how) for how in ({}, {"protocol": "published"})
    )
    torch.testing.assert_close(plain, METHODS["rollout"](model, images, protocol="described"))
    assert not torch.allclose(plain, published)

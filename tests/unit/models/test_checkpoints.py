"""Weight files are whole or absent, and a bad one never reaches a model."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from relevit.models.checkpoints import load_weights, read_tensors, save_weights

from .conftest import same


def model_of(seed=0, width=3):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width))
    model[1].running_mean.normal_()
    return model


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.safetensors"


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_round_trip(path, kind):
    """Half precision, as of the shipped weights of habitats, fills single exactly."""
    saved, other = model_of(0).to(kind), model_of(1)
    save_weights(path, saved, "tiny", identity="run 1")
    assert load_weights(path, other, "tiny") == {"architecture": "tiny", "identity": "run 1"}
    assert same(other, saved.float().state_dict())


def as_type(module, name, dtype, count=None):
    values = getattr(module, name).detach().to(dtype)
    values = values if count is None else torch.ones(count, dtype=dtype)
    delattr(module, name)
    module.register_buffer(name, values)


REFUSED = [  # what is done to a model before it is saved, and the sentence
    (lambda m: m[1].running_mean.fill_(float("nan")), r"NaN or infinity in '1.running_mean'"),
    (lambda m: m[0].weight[0].fill_(float("inf")), r"NaN or infinity in '0.weight'; the run"),
    (lambda m: setattr(m[1], "bias", None), r"1.bias is in one of them alone \(1 in all\)"),
    (lambda m: m.append(nn.LayerNorm(7, bias=False)), r"2.weight is in one of them alone"),
    (lambda m: m.double(), r"torch.float64 in '0.bias', where the model has torch.float32"),
    (lambda m: as_type(m[0], "weight", torch.bool), r"torch.bool in '0.weight', where the mo"),
    (lambda m: as_type(m[0], "bias", torch.int32, 4), r"size mismatch for 0.bias: \(4,\) in the"),
    (lambda m: as_type(m[1], "num_batches_tracked", torch.float32), r"torch.float32 in '1.nu"),
]


@pytest.mark.parametrize(("change", "text"), REFUSED)
def test_a_file_that_does_not_fit_is_named_and_the_model_unchanged(path, change, text):
    other, model = model_of(1), model_of(0)
    with torch.no_grad():
        change(other)
    save_weights(path, other, "tiny")
    told = f"weights: {re.escape(str(path))} does not fit 'tiny': {text}"
    with pytest.raises(ValueError, match=told):
        load_weights(path, model, "tiny")
    assert same(model, model_of(0).state_dict())


def test_files_of_another_model_damaged_or_missing_are_named(path):
    named, model = f"weights: {re.escape(str(path))} ", model_of(0)
    with pytest.raises(FileNotFoundError, match=named + "is missing; check its name"):
        load_weights(path, model, "tiny")
    save_weights(path, model_of(1), "dinov2-s")
    with pytest.raises(ValueError, match=named + "is for model 'dinov2-s', not 'tiny'; choose"):
        load_weights(path, model, "tiny")
    whole = path.read_bytes()
    for share in (0, 0.001, 0.5, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        text = named + r"is cut short or damaged \(.+\); copy it again"
        with pytest.raises(ValueError, match=text):
            read_tensors(path)

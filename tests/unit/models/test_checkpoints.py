"""Weight files are whole or absent, and a bad one never reaches a model."""

from __future__ import annotations

import json
import re

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from relevit.base.files import write_atomically
from relevit.models.checkpoints import load_weights, read_tensors, save_weights


def model_of(seed=0, width=3):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width))
    model[1].running_mean.normal_()
    return model


def weights_of(model):
    return {key: value.clone() for key, value in model.state_dict().items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.safetensors"


def test_round_trip(path):
    saved, other = model_of(0), model_of(1)
    assert not equal(weights_of(saved), weights_of(other))
    save_weights(path, saved, "tiny", identity="run 1")
    facts = load_weights(path, other, "tiny")
    assert equal(weights_of(saved), weights_of(other))
    assert facts == {"architecture": "tiny", "identity": "run 1"}


def test_tensors_and_facts_can_be_read_without_a_model(path):
    model = model_of()
    save_weights(path, model, "tiny", identity="run 1")
    tensors, facts = read_tensors(path)
    assert equal(tensors, weights_of(model))
    assert facts == {"architecture": "tiny", "identity": "run 1"}


def test_same_weights_same_bytes(path):
    """Ten times, for a random order of the facts in the file would often come out equal."""
    written = set()
    for _ in range(10):
        save_weights(path, model_of(), "tiny", identity="run 1", seed="0")
        written.add(path.read_bytes())
    assert len(written) == 1


def test_weights_that_share_or_stride_memory_are_saved(path):
    """A transposed view and one that needs a gradient: safetensors refuses both as they are."""
    model = nn.Linear(4, 3)
    model.weight = nn.Parameter(torch.arange(12.0).reshape(4, 3).T)
    save_weights(path, model, "tiny")
    assert torch.equal(read_tensors(path)[0]["weight"], model.weight.detach())


def test_half_precision_fills_single_exactly(path):
    """As the shipped weights of habitats have it."""
    for half in (torch.float16, torch.bfloat16):
        saved, other = model_of(0).to(half), model_of(1)
        save_weights(path, saved, "tiny")
        load_weights(path, other, "tiny")
        assert equal(weights_of(saved.float()), weights_of(other))


@pytest.mark.parametrize(
    "text", ["no JSON", '{"architecture": ', "[1]", "3", '{"architecture": null}', "[" * 100_000]
)
def test_facts_that_are_no_json_are_an_error(path, text):
    save_file(weights_of(model_of()), path, metadata={"relevit": text})
    with pytest.raises(ValueError, match="no JSON object") as caught:
        read_tensors(path)
    assert not isinstance(caught.value, json.JSONDecodeError)
    assert str(caught.value).startswith(f"weights: {path} has metadata under 'relevit'")


def as_type(module, name, dtype):
    values = getattr(module, name).detach().to(dtype)
    delattr(module, name)
    module.register_buffer(name, values)


REFUSED = [  # what is done to a model before it is saved, and the sentence
    (lambda m: m[1].running_mean.fill_(float("nan")), r"holds NaN or infinity in '1.running_mean'"),
    (lambda m: m[0].weight[0].fill_(float("inf")), r"holds NaN or infinity in '0.weight'; the run"),
    (lambda m: setattr(m[1], "bias", None), r".*at '1.bias' \(file None, model \(3,\); 1 in all"),
    (lambda m: m.append(nn.LayerNorm(7, bias=False)), r".*at '2.weight' \(file \(7,\), model None"),
    (lambda m: m.double(), r"holds torch.float64 in '0.bias', where the model has torch.float32"),
    (
        lambda m: as_type(m[0], "weight", torch.bool),
        r"holds torch.bool in '0.weight', where the mo",
    ),
    (
        lambda m: as_type(m[1], "num_batches_tracked", torch.float32),
        r"holds torch.float32 in '1.nu",
    ),
]


@pytest.mark.parametrize(("change", "text"), REFUSED)
def test_a_file_that_does_not_fit_is_named_and_the_model_unchanged(path, change, text):
    other, model = model_of(1), model_of(0)
    with torch.no_grad():
        change(other)
    save_weights(path, other, "tiny")
    before = weights_of(model)
    with pytest.raises(ValueError, match=f"weights: {re.escape(str(path))} {text}"):
        load_weights(path, model, "tiny")
    assert equal(weights_of(model), before)


def test_files_of_another_model_damaged_or_missing_are_named(path):
    named, model = f"weights: {re.escape(str(path))} ", model_of(0)
    with pytest.raises(FileNotFoundError, match=named + "is missing; run the"):
        load_weights(path, model, "tiny")
    save_weights(path, model_of(1), "dinov2-s")
    with pytest.raises(ValueError, match=named + "is for model 'dinov2-s', not 'tiny'; choose"):
        load_weights(path, model, "tiny")
    whole = path.read_bytes()
    for share in (0, 0.001, 0.5, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ValueError, match=named + r"is cut short or damaged \(.+\); delete it"):
            read_tensors(path)


# Writing


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("written", [b"", b"half a fi"])
def test_failed_write_leaves_the_old_file_and_nothing_else(path, error, written):
    path.write_bytes(b"old")

    def write(target):
        assert target.parent == path.parent, "a move across disks is not atomic"
        target.write_bytes(written)
        raise error

    with pytest.raises(type(error)):
        write_atomically(path, write)
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]

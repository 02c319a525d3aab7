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


def saved(change=lambda model: None, architecture="tiny", **options):
    """Another file in the place of the good one: of a changed model."""

    def spoil(path):
        model = model_of(1, **options)
        with torch.no_grad():
            change(model)
        save_weights(path, model, architecture)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (
            lambda path: path.write_bytes(path.read_bytes()[:-20]),
            r"PATH is cut short or damaged \(.+\); delete it and run the stage that writes it",
        ),
        (lambda path: path.write_bytes(b""), r"PATH is cut short or damaged"),
        (lambda path: path.write_bytes(b"no weights at all"), r"PATH is cut short or damaged"),
        (
            saved(lambda model: model[1].running_mean.fill_(float("nan"))),
            r"PATH holds NaN or infinity in '1.running_mean'; .*lower its learning",
        ),
        (
            saved(lambda model: model[0].weight[0].fill_(float("inf"))),
            r"PATH holds NaN or infinity in '0.weight'; the run that wrote it diverged",
        ),
        (
            saved(architecture="dinov2-s"),
            r"PATH is for model 'dinov2-s', not 'tiny'; choose that model or",
        ),
        (
            lambda path: save_file(weights_of(model_of(1)), path),
            r"PATH is for model '\(none given\)', not 'tiny'",
        ),
        (
            saved(width=5),
            r"PATH does not fit model 'tiny' at '0.bias' \(file \(5,\), model \(3,\); \d in all",
        ),
        (
            saved(lambda model: setattr(model[1], "bias", None)),
            r"at '1.bias' \(file None, model \(3,\); 1 in all\); use a file written by",
        ),
        (
            saved(lambda model: model.append(nn.LayerNorm(7, bias=False))),
            r"at '2.weight' \(file \(7,\), model None; 1 in all\)",
        ),
        (
            saved(lambda model: model.double()),
            r"PATH holds torch.float64 in '0.bias', where the model has torch.float32; save them",
        ),
        (
            saved(lambda model: as_type(model[0], "weight", torch.int64)),
            r"PATH holds torch.int64 in '0.weight', where the model has torch.float32",
        ),
        (
            saved(lambda model: as_type(model[0], "weight", torch.bool)),
            r"PATH holds torch.bool in '0.weight', where the model has torch.float32",
        ),
        (
            saved(lambda model: as_type(model[1], "num_batches_tracked", torch.float32)),
            r"holds torch.float32 in '1.num_batches_tracked', where the model has torch.int64",
        ),
    ],
)
def test_bad_file_is_an_error_and_the_model_unchanged(path, spoil, text):
    save_weights(path, model_of(1), "tiny")
    spoil(path)
    model = model_of(0)
    before = weights_of(model)
    with pytest.raises(
        ValueError, match="weights: .*" + text.replace("PATH", re.escape(str(path)))
    ):
        load_weights(path, model, "tiny")
    assert equal(weights_of(model), before)


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 0.9, 0.999])
def test_file_cut_anywhere_is_an_error(path, share):
    save_weights(path, model_of(), "tiny")
    whole = path.read_bytes()
    path.write_bytes(whole[: max(1, int(share * len(whole)))])
    with pytest.raises(ValueError, match="cut short or damaged"):
        read_tensors(path)


def test_missing_file_is_an_error(path):
    model = model_of()
    before = weights_of(model)
    with pytest.raises(FileNotFoundError, match=f"{re.escape(str(path))} is missing; run the"):
        load_weights(path, model, "tiny")
    assert equal(weights_of(model), before)


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

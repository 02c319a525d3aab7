"""Files of weights: damaged in any way they fill no model, and are refused by name."""

from __future__ import annotations

import json
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save, save_file
from torch import nn

from relevit.models.checkpoints import FACTS, load_weights, save_weights
from relevit.models.loading import open_model

from .inputs import many, tried

pytestmark = pytest.mark.wrong_types  # what checks types in tests is not there for users
DTYPES = ["F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", "C64", "F4", "X", ""]
KINDS = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8,
         torch.bool, torch.complex64]  # fmt: skip
NUMBERS = st.integers(-2, 70) | st.sampled_from([2**31, 2**63, 2**64 - 1, 10**11, 10**30])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(DTYPES) | JSON,
        "shape": st.lists(NUMBERS, max_size=4) | JSON,
        "data_offsets": st.lists(NUMBERS, min_size=2, max_size=2) | JSON,
    },
)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("weights") / "weights.safetensors"


@pytest.fixture(scope="module")
def whole(path):
    save_weights(path, Small(), "small")
    return path.read_bytes()


def fill(figures, path):
    """Give them to a model, which must be as it was, or as the file has it."""
    model = Small()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    error = tried(figures, lambda: load_weights(path, model, "small"), path)
    if error is not None:
        assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(value.isfinite().all() for value in model.parameters())
    return error


@many(800)
@given(data=st.data())
def test_any_bytes_in_place_of_some(figures, path, whole, data):
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, 2 * len(content)))])
    fill(figures, path)


@many(400)
@given(st.binary(max_size=200), NUMBERS | st.just(None))
def test_any_header(figures, path, text, length):
    size = len(text) if length is None else length % 2**64
    path.write_bytes(struct.pack("<Q", size) + text + bytes(40))
    assert fill(figures, path)


@many(800)
@given(
    st.dictionaries(st.sampled_from(["layer.weight", "layer.bias", "x", ""]), ENTRY, max_size=3),
    st.none() | JSON | st.dictionaries(st.sampled_from([FACTS, "a"]), st.text(max_size=9) | JSON),
    st.sampled_from([0, 32, 1000]),
)
def test_any_entries(figures, path, entries, metadata, count):
    header = entries if metadata is None else entries | {"__metadata__": metadata}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(count))
    assert fill(figures, path)


@many(400)
@given(JSON | st.sampled_from(["[" * 100_000, "{", "1e999", "x" * 9000]))
def test_any_facts(figures, path, facts):
    text = facts if isinstance(facts, str) else json.dumps({"architecture": facts})
    save_file({k: v.clone() for k, v in Small().state_dict().items()}, path, {FACTS: text})
    assert fill(figures, path)
    error = tried(figures, lambda: open_model("tiny", path), path.name)
    assert error is not None


@many(300)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(KINDS),
    st.lists(st.integers(0, 4), max_size=3),
    st.booleans(),
)
def test_any_type_and_shape(figures, path, of_weight, of_bias, shape, own):
    shape = (2, 3) if own else tuple(shape)
    tensors = {"layer.weight": torch.ones(shape, dtype=of_weight)}
    tensors |= {"layer.bias": torch.zeros(2, dtype=of_bias)}
    facts = {FACTS: json.dumps({"architecture": "small"})}
    path.write_bytes(save(tensors, facts))
    right = {torch.float32, torch.float16, torch.bfloat16}
    assert (fill(figures, path) is None) == (shape == (2, 3) and {of_weight, of_bias} <= right)

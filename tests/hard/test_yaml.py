"""Files of parameters: any bytes are read, or refused in one line that names the file."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from relevit.config.yaml_files import yaml_values

from .inputs import many, tried

MARKS = [
    *":-?[]{},#&*!|>'\"%@` \n\t0123456789.eE+~<=_",
    "---", "...", "!!int", "!!timestamp", "!!bool", "!!omap", "!!binary", "!!set", "!!str", "&a",
    "*a", "<<", "null", "yes", "0x", "1:30", "2026-01-01", "%YAML 1.1", "a: ", "b", "Ä", "\x00",
    "\ufeff", "\u2028", "\x85",
]  # fmt: skip
# PyYAML itself reads back some ends of lines as others.
TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=8)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("params") / "common.yaml"


def read(figures, path, content):
    path.write_bytes(content)
    found = []
    if tried(figures, lambda: found.append(yaml_values(path)), path) is None:
        assert isinstance(found[0], dict) and all(isinstance(key, str) for key in found[0])
    return found


@many(600)
@given(st.binary(max_size=300))
def test_any_bytes(figures, path, content):
    read(figures, path, content)


@many(1500)
@given(st.lists(st.sampled_from(MARKS), max_size=40).map("".join))
def test_any_marks(figures, path, text):
    read(figures, path, text.encode("utf-8"))


@many(300)
@given(
    st.text(max_size=200),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp037"]),
)
def test_any_encoding(figures, path, text, encoding):
    read(figures, path, text.encode(encoding, errors="ignore"))


@many(400)
@given(st.dictionaries(TEXT, PLAIN, max_size=6), st.booleans())
def test_what_yaml_writes_is_read(figures, path, values, flow):
    """All but what it writes with a tag or an alias, which are no plain values."""
    text = yaml.safe_dump(values, allow_unicode=True, default_flow_style=flow)
    found = read(figures, path, text.encode("utf-8"))
    assert (found and found[0] == values) or "!" in text


@many(60)
@given(
    st.sampled_from(["[", "{a: ", "- ", "? ", "{", "[[", "a:\n ", "!a ", "&a ", "'", "|\n ", "1:"]),
    st.integers(1, 6000),
    st.sampled_from(["", "]", "}", "*a", "1"]),
    st.booleans(),
)
def test_any_depth(figures, path, opening, depth, ending, closed):
    read(figures, path, f"a: {opening * depth}{ending * (depth if closed else 1)}".encode())


@many(100)
@given(st.sampled_from("abc"), st.lists(st.sampled_from("abc"), min_size=1, max_size=8))
def test_a_name_that_stands_twice_is_refused(figures, path, name, names):
    content = "".join(f"{key}: 1\n" for key in [name, *names, name])
    assert not read(figures, path, content.encode())

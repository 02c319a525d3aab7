"""Parameters of all notebooks: a value is inside the bounds that are declared, or refused."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import astuple
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as bounds
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from relevit.config import NOTEBOOKS, BenchmarkParams, Checked, PipelineParams, SweepGrid
from relevit.config.base import Common, PresetSeeds

from .inputs import many, tried

CLASSES = [*NOTEBOOKS.values(), PipelineParams, PresetSeeds, Common, BenchmarkParams, SweepGrid]

SINGLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([-1, 0, 1, 2, 10**6, 10**12, 2**63, 10**400, -(10**4000)]),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1e-320, 1.0, 1e300, math.inf, -math.inf, math.nan]),
    st.text(max_size=20),
    st.sampled_from(["x" * 5000, "1e-6", "nan", "..", "a/b", "\n", "\x1b[2J", "auto", "cuda:99"]),
    st.binary(max_size=5),
    st.dates(),
    st.just(datetime.datetime(2026, 1, 1)),
)
NESTED = st.recursive(
    SINGLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
DEEP = [0]
for _ in range(60):
    DEEP = [DEEP]
VALUES = st.one_of(SINGLE, NESTED, st.sampled_from([DEEP, [0] * 5000, list(range(5000))]))
LIMITS = {
    bounds.Ge: lambda value, limit: value >= limit.ge,
    bounds.Gt: lambda value, limit: value > limit.gt,
    bounds.Le: lambda value, limit: value <= limit.le,
    bounds.Lt: lambda value, limit: value < limit.lt,
    bounds.MultipleOf: lambda value, limit: value % limit.multiple_of == 0,
    bounds.MinLen: lambda value, limit: len(value) >= limit.min_length,
    bounds.MaxLen: lambda value, limit: len(value) <= limit.max_length,
}


def fits(value: Any, kind: Any, limits: list[Any]) -> bool:
    """Whether a value is of a declared kind and within its limits, by the declaration alone."""
    if get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        inner = [m for one in more for m in (one.metadata if isinstance(one, FieldInfo) else [one])]
        return fits(value, kind, [*inner, *limits])
    if not _is(value, kind):
        return False
    if value is None:
        return True
    for limit in limits:
        if type(limit) in LIMITS and not LIMITS[type(limit)](value, limit):
            return False
        pattern = getattr(limit, "pattern", None)
        if pattern is not None and not re.search(pattern, value):
            return False
    return True


def _is(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is Literal:
        return type(value) in (str, int) and value in inner
    if origin in (Union, UnionType):
        return any(fits(value, one, []) for one in inner)
    if origin is list:
        return type(value) is list and all(fits(one, inner[0], []) for one in value)
    if origin is dict:
        return type(value) is dict and all(
            fits(key, inner[0], []) and fits(one, inner[1], []) for key, one in value.items()
        )
    if issubclass(kind, Checked):
        fields = kind.model_fields
        return type(value) is dict and all(
            key in fields and fits(one, fields[key].annotation, fields[key].metadata)
            for key, one in value.items()
        )
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is kind or (kind is type(None) and value is None)


def cases(cls: type[Checked]) -> st.SearchStrategy[tuple[str, Any]]:
    """A field's name and a value, often near to one that it takes."""

    def of(name: str) -> st.SearchStrategy[tuple[str, Any]]:
        field = cls.model_fields[name]
        ends = [one for one in field.metadata if type(one) in LIMITS]
        near = [end + by for one in ends for end in astuple(one) for by in (-1, 0, 1, 0.5)]
        usual = [] if field.is_required() else [field.default]
        words = [word for word in get_args(field.annotation) if isinstance(word, str)]
        known = st.sampled_from([0, *near, *usual, *words])
        return st.tuples(st.just(name), VALUES | known | st.lists(known, max_size=3))

    return st.sampled_from(list(cls.model_fields)).flatmap(of)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_value_is_within_its_bounds_or_refused(cls, figures):
    @many(150)
    @given(cases(cls))
    def holds(case: tuple[str, Any]) -> None:
        key, value = case
        where = f"params/quick/{cls.__name__}.yaml"
        error = tried(figures, lambda: cls.checked({key: value}, where), where)
        field = cls.model_fields[key]
        if error is None:
            if not isinstance(value, Checked):
                assert fits(value, field.annotation, field.metadata), "accepted beyond its bounds"
        else:
            assert key in str(error) or any(
                f.is_required() and name in str(error) for name, f in cls.model_fields.items()
            )

    holds()


@many(300)
@given(st.sampled_from(CLASSES), st.text(min_size=1, max_size=300), NESTED)
def test_a_name_that_is_none_is_refused(figures, cls, key, value):
    if key in cls.model_fields:
        return
    error = tried(figures, lambda: cls.checked({key: value}, "params/a.yaml"), "params/a.yaml")
    assert "is no parameter; allowed are" in str(error)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("params") / "02_finetune.yaml"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_number_that_python_does_not_print(figures, path, cls):
    for key in cls.model_fields:
        path.write_text(f"{key}: 0x{'f' * 5000}\n")
        assert tried(figures, lambda: cls.from_file(path), path)


@many(400)
@given(data=st.data(), cls=st.sampled_from(CLASSES))
def test_the_same_in_a_file(figures, path, data, cls):
    key, value = data.draw(cases(cls))
    try:
        path.write_text(yaml.safe_dump({key: value}, allow_unicode=True), encoding="utf-8")
    except (yaml.YAMLError, ValueError):  # nothing that YAML can say
        return
    tried(figures, lambda: cls.from_file(path), path)

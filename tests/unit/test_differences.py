"""docs/differences.md row by row: each difference is an option that exists, or a reason why not."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

import relevit
from relevit.protocols import DESCRIBED, PUBLISHED, PUBLISHED_OF
from reproduction.params.cells import params_of
from reproduction.params.order import NOTEBOOKS

TABLE = Path(relevit.__file__).parents[2] / "docs" / "differences.md"
DIFFERENCES = yaml.safe_load(TABLE.with_suffix(".yaml").read_text(encoding="utf-8"))
OPTION = re.compile(r"\w+\.\w+(, \w+\.\w+)*")
# What takes a row, where a function hands it on or it has another name.
HANDED_ON = {
    "finetune": ["FinetuneOptions"],
    "path": ["integral"],
    "View.mask": ["View"],
    "lrp": ["Relevance"],
    "partial_lrp": ["Relevance"],
    "transformer_attribution": ["Relevance"],
    **{name: ["observe"] for name in ("raw_attention", "rollout", "gradcam", "ga")},
    "zero_shot_perturbation": ["auc_weights"],
}
PACKAGES = ("relevit", "habitats", "reproduction.params", "reproduction.language")


@cache
def options_of(name: str) -> set[str]:
    """What the functions, settings and records of this name, wherever they are, can be told."""
    owners = [params_of(name)] if name in NOTEBOOKS else _owners().get(name, ())
    return {option for owner in owners for option in _options(owner)}


@cache
def _owners() -> dict[str, list]:
    found: dict[str, list] = {}
    for each in PACKAGES:
        package = importlib.import_module(each)
        names = [one.name for one in pkgutil.walk_packages(package.__path__, f"{each}.")]
        for module in (package, *map(importlib.import_module, names)):
            for name, value in vars(module).items():
                if callable(value) and getattr(value, "__module__", "") == module.__name__:
                    found.setdefault(name, []).append(value)
    return found


def _options(owner) -> set[str]:
    if inspect.isclass(owner) and issubclass(owner, BaseModel):
        return set(owner.model_fields)
    if is_dataclass(owner):
        return {field.name for field in fields(owner)}
    return set(inspect.signature(owner).parameters)


def test_each_row_is_there_once():
    rows = re.findall(r"^\| ([A-F]\d+) \|", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(DIFFERENCES)


@pytest.mark.parametrize("row", DIFFERENCES)
def test_each_is_an_option_that_exists_or_a_reason(row):
    said = DIFFERENCES[row]
    if not OPTION.fullmatch(said):
        assert " " in said and len(said) < 90, "a reason is one short sentence"
        return
    for place in said.split(", "):
        name, option = place.split(".")
        assert option in options_of(name), f"{place}; {name} has {sorted(options_of(name))}"


ROWS = (("published", PUBLISHED), ("described", DESCRIBED), *PUBLISHED_OF.items())


@pytest.mark.parametrize(
    ("name", "row"),
    [pytest.param(name, row, id=f"{of}-{name}") for of, rows in ROWS for name, row in rows.items()],
)
def test_what_a_protocol_asks_for_exists(name, row):
    if name == "outlining":  # rows of methods in another test
        for method, other in row.items():
            assert set(other) <= options_of(method)
    else:
        taken = [options_of(one) for one in (name, *HANDED_ON.get(name, ()))]
        assert set(row) <= set().union(*taken)

"""Results of a finished run, damaged or edited by hand: the readers of the report name the file."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevit.base.results import read_rows, read_table
from relevit.base.stages import SUMMARY, need_stage, read_summary, stage_folder, write_summary
from relevit.claims import ResultTables, criteria, judge
from relevit.config import FinetuneParams, StartParams
from relevit.finetune.runs import origin_weights
from relevit.training.epochs import LOG
from unit.claims.made import table

from .inputs import many, tried

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
OTHER = {
    "text": "x",
    "number": 7,
    "fraction": 0.5,
    "nan": np.nan,
    "infinity": np.inf,
    "yes": True,
    "nothing": None,
    "bytes": b"x",
    "list": [1, 2],
    "object": {"a": 1},
    "date": pd.Timestamp("2026-01-01"),
}
SMALL = [name for name in criteria().tables() if len(table(name)) < 500]


def damaged(data, whole):
    """A file that is cut, with other bytes in it, or followed by some."""
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 5))):
        # Often at its end, where a parquet file says what it holds.
        place = data.draw(st.integers(0, len(content) - 1) | st.integers(1, 400)) % len(content)
        content[-place] = data.draw(st.sampled_from([0, 1, 127, 255]) | st.integers(0, 255))
    return bytes(content[: data.draw(st.integers(0, 2 * len(content)))]) + data.draw(
        st.sampled_from([b"", b"PAR1", b"}", b"\0" * 8])
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder of a preset with the tables of all claims."""
    folder = tmp_path_factory.mktemp("outputs")
    for name in SMALL:
        path = folder / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        table(name).to_parquet(path)
    return folder


def read(folder, name):
    """As the report does."""
    tables = ResultTables({name.split("/")[0]: folder / name.split("/")[0]})
    ids = [id for id in criteria().claims if name in criteria().tables(id)]
    return judge({name: tables[name]}, only=ids)


@many(1200)
@given(data=st.data(), name=st.sampled_from(SMALL))
def test_any_bytes_in_place_of_some(figures, results, data, name):
    path = results / f"{name}.parquet"
    whole = path.read_bytes()
    try:
        path.write_bytes(damaged(data, whole))
        tried(figures, lambda: read_table(path), path.name)
    finally:
        path.write_bytes(whole)


@many(30)
@given(data=st.data(), name=st.sampled_from(SMALL), other=st.sampled_from(list(OTHER)))
def test_a_column_of_another_kind_is_refused(figures, results, data, name, other):
    """Or nothing reads it, or what needs it is not testable."""
    path, whole = results / f"{name}.parquet", table(name)
    column = data.draw(st.sampled_from(list(whole.columns)))
    changed = whole.assign(**{column: [OTHER[other]] * len(whole)})
    if data.draw(st.booleans()):
        changed = whole.drop(columns=column)
    changed.to_parquet(path)
    try:
        tried(figures, lambda: read(results, name), "criteria.yaml")
    finally:
        whole.to_parquet(path)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    for name, text in (("common", "model: tiny\n"), ("00_original", ""), ("02_finetune", "")):
        path = folder / "params" / "quick" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "notebooks").mkdir()
    return folder


OWN = FinetuneParams(model="tiny")


def use_summary(figures, project, monkeypatch, content):
    """As stages do that stand on the one that wrote it."""
    monkeypatch.chdir(project)
    folder = stage_folder(OWN, "seed0")
    (folder / SUMMARY).write_bytes(content)
    tried(figures, lambda: need_stage(StartParams(), "02_finetune", "seed0", seed=0), SUMMARY)
    tried(figures, lambda: read_summary(folder)["iou_pct"], folder / SUMMARY)
    first = stage_folder(StartParams(), "").parent / "00_original"
    first.mkdir(exist_ok=True)
    (first / SUMMARY).write_bytes(content)
    tried(figures, lambda: origin_weights(OWN), SUMMARY)


@many(500)
@given(data=st.data())
def test_any_bytes_of_a_summary(figures, project, monkeypatch, data):
    monkeypatch.chdir(project)
    folder = stage_folder(OWN, "seed0")
    write_summary(folder, OWN, iou_pct=50.0, epochs=[1, 2])
    use_summary(figures, project, monkeypatch, damaged(data, (folder / SUMMARY).read_bytes()))


@many(500)
@given(JSON, st.sampled_from(["", "parameters", "benchmark", "model"]))
def test_any_values_of_a_summary(figures, project, monkeypatch, value, place):
    parameters = OWN.model_dump()
    if place == "benchmark":
        parameters["benchmark"] = value
    elif place == "model":
        parameters["model"] = value
    made = value if place == "" else {"parameters": value if place == "parameters" else parameters}
    use_summary(figures, project, monkeypatch, json.dumps(made).encode())


@many(30)
@given(st.sampled_from(["[", '{"a":', '[{"a":']), st.integers(1, 100_000))
def test_any_depth_of_a_summary(figures, project, monkeypatch, opening, depth):
    use_summary(figures, project, monkeypatch, (opening * depth).encode())


@many(500)
@given(data=st.data(), rows=st.lists(JSON, max_size=4))
def test_any_log(figures, results, data, rows):
    path = results / LOG
    path.write_bytes(damaged(data, "".join(json.dumps(row) + "\n" for row in rows).encode() + b"1"))
    found = []
    tried(figures, lambda: found.append(read_rows(path)), path)
    assert not found or all(isinstance(row, dict) for row in found[0])

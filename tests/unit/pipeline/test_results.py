"""The numbers in `docs/results/`: how they are made, and what explains them."""

import re
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from nbformat.v4 import new_notebook

from relevit.evaluate.intervals import interval
from reproduction.claims import judge, verdict_table
from reproduction.params.preset import read_preset
from reproduction.pipeline.plan import kind
from reproduction.pipeline.progress import LOG
from reproduction.pipeline.results import judged, times
from reproduction.runs import grids
from reproduction.stages import preset_file

ROOT = Path(__file__).parents[3]
PAGE, FILES = ROOT / "docs" / "results.md", sorted(ROOT.glob("docs/results/*.csv"))


def test_times_of_a_run_replace_those_that_are_stored(tmp_path):
    path = tmp_path / "a" / "executed.ipynb"
    path.parent.mkdir()
    nbformat.write(new_notebook(metadata={"papermill": {"duration": 41.6}}), path)
    stored = pd.DataFrame(
        [("quick", "a", 1), ("workshop", "a", 2), ("workshop", "tiny epochs 2", 9),
         ("workshop", "tiny epochs 5", 9)], columns=["preset", "notebook", "seconds"]
    )  # fmt: skip
    known = grids.of_preset(read_preset(preset_file("workshop")))
    names = [name for name, row in known.items() if kind(row) == "tiny epochs 2"]
    said = [f"/x/outputs/workshop/runs/{name}: {s} s" for s, name in enumerate([names[0], *names])]
    (tmp_path / LOG).write_text("\n".join(["Job 3: runs", *said, "/x/runs/unknown: 99 s", ""]))
    found = times(stored, {"workshop": {"a": path, "b": path}})
    assert found.to_numpy().tolist() == [
        ["quick", "a", 1], ["workshop", "a", 42], ["workshop", "b", 42],
        ["workshop", "tiny epochs 2", 2], ["workshop", "tiny epochs 5", 9],
    ]  # fmt: skip


def test_the_numbers_of_claims_are_those_that_the_report_has_judged_by():
    told = verdict_table(judge({}))
    made = judged({"99_report/claims": told})
    assert made["claims_numbers"].empty and list(made["claims"]["id"]) == list(told["id"])
    for column in ("verdict", "number"):
        other = told.copy()
        other.loc[3, column] = "holds"
        with pytest.raises(ValueError, match="99_report has judged RV-04 otherwise"):
            judged({"99_report/claims": other})


def rows_of(path: Path) -> list[list[str]]:
    lines = [line for line in path.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


COLUMNS = {path.stem: set(pd.read_csv(path, nrows=0)) for path in FILES}
# Of an interval, and what it follows from: explained once, for all.
ENDS = re.compile(r"(^|_)(low|high|by_seed|image_error)(_|$)")


def explained() -> list[tuple[str, set[str]]]:
    """Each name that the page explains, with the files in which it says that the column is."""
    rows = [(row[0], {*row[1].split(", ")}) for row in rows_of(PAGE)]
    rows = [(names, files) for names, files in rows if files <= {*COLUMNS}]
    return [(name, files) for names, files in rows for name in re.findall(r"`(\w+)`", names)]


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_is_explained(name):
    """And each file is listed."""
    known = {column for column, files in explained() if name in files}
    assert {column for column in COLUMNS[name] if not ENDS.search(column)} <= known
    assert f"](results/{name}.csv)" in PAGE.read_text()


def test_no_column_is_explained_that_no_file_has():
    nowhere = [c for c, files in explained() if not any(c in COLUMNS[name] for name in files)]
    assert nowhere == []


BY_SEED = [(name, column) for name in COLUMNS for column in COLUMNS[name] if "by_seed_" in column]


@pytest.mark.parametrize(("name", "column"), sorted(BY_SEED))
def test_anybody_can_make_an_interval_again(name, column):
    """From the changes by seed and the error that images add, to a hundredth of a point."""
    start = column.removesuffix("by_seed_pts")
    rows = pd.read_csv(ROOT / "docs" / "results" / f"{name}.csv", dtype={column: str})
    rows = rows.dropna(subset=[column])
    assert len(rows)
    for row in rows.to_dict("records"):
        changes = np.array(row[column].split(), float)
        seeds = len(changes)
        ends = interval(
            changes.mean(),
            seeds=changes.var(ddof=1) / seeds if seeds > 1 else 0.0,
            freedom=seeds - 1 if seeds > 1 else np.inf,
            images=row[f"{start}image_error_pts"] ** 2,
            images_freedom=row.get("images", np.inf),
        )
        told = [row[f"{start}{end}_pts"] for end in ("low", "high")]
        assert ends.tolist() == pytest.approx(told, rel=1e-3, abs=0.01)

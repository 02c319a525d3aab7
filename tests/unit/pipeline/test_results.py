"""The numbers in `docs/results/`: how they are made, and what explains them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_notebook

from reproduction.config.preset import read_preset
from reproduction.pipeline.plan import kind
from reproduction.pipeline.progress import LOG
from reproduction.pipeline.results import times
from reproduction.runs import table
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
    known = table.of_preset(read_preset(preset_file("workshop")))
    names = [name for name, row in known.items() if kind(row) == "tiny epochs 2"]
    said = [f"/x/outputs/workshop/runs/{name}: {s} s" for s, name in enumerate([names[0], *names])]
    (tmp_path / LOG).write_text("\n".join(["Job 3: runs", *said, "/x/runs/unknown: 99 s", ""]))
    found = times(stored, {"workshop": {"a": path, "b": path}})
    assert found.to_numpy().tolist() == [
        ["quick", "a", 1], ["workshop", "a", 42], ["workshop", "b", 42],
        ["workshop", "tiny epochs 2", 2], ["workshop", "tiny epochs 5", 9],
    ]  # fmt: skip


def rows_of(path: Path) -> list[list[str]]:
    lines = [line for line in path.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_column_is_explained(path):
    """And each file is listed; names that several files have are explained once."""
    explained = {
        name for row in rows_of(PAGE) if len(row) == 4 and re.search(rf"\b{path.stem}\b", row[1])
        for name in re.findall(r"`(\w+)`", row[0])
    }  # fmt: skip
    assert set(pd.read_csv(path, nrows=0)) == explained
    assert f"](results/{path.name})" in PAGE.read_text()

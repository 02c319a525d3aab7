"""The numbers in `docs/results/`: how they are made, and what explains them."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from relevit.pipeline.results import sets

ROOT = Path(__file__).parents[3]
PAGE, FILES = ROOT / "docs" / "results.md", sorted(ROOT.glob("docs/results/*.csv"))


def test_sets_have_the_original_beside_both():
    runs = [("original", False, (1, 0)), ("ours", False, (0, 0)), ("ours", True, (1, 1))]
    answers = pd.DataFrame([
        {"world": "own", "seed": 0, "arm": arm, "relevance": relevance, "dataset": "a", "right": r}
        for arm, relevance, right in runs for r in right
    ])  # fmt: skip
    (row,) = sets(answers).to_dict("records")
    assert row["arm"] == "ours"
    assert [row[f"{name}_pct"] for name in ("original", "without", "with")] == [50, 0, 100]


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

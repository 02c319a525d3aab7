"""The numbers in `docs/results/`: how they are made, what explains them, and README's of them."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from relevit.pipeline.results import sets

ROOT = Path(__file__).parents[3]
PAGE, FILES = ROOT / "docs" / "results.md", sorted(ROOT.glob("docs/results/*.csv"))
HALF = 0.0551  # of README's last digit, and of that of the files


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


@pytest.mark.parametrize(("page", "rows"), [(ROOT / "README.md", 2), (PAGE, 10)])
def test_the_tables_in_words_are_those_of_the_files(page, rows):
    told = pd.read_csv(ROOT / "docs/results/added.csv").query(
        "world == 'own' and arm == 'ours' and classes == 'all'"
    )
    told = told.set_index("dataset")
    one = pd.read_csv(ROOT / "docs/results/sets.csv").query("world == 'own' and arm == 'ours'")
    before = one.groupby("dataset")["original_pct"].first()
    before["shifted_average"] = before.drop(["val", "v2"]).mean()
    names = {"seven shifted sets": "shifted_average"}
    shown = [row for row in rows_of(page) if len(row) == 6 and re.search(r"\d", row[2])]
    assert len(shown) == rows and len(told) == 10
    for name, _, original, *changes in shown:
        name = names.get(name, name.strip("`"))
        found = [original, *changes]
        numbers = [[float(n) for n in re.findall(r"[-+]?\d+\.\d", cell)] for cell in found]
        wanted = [[before[name]]] + [
            told.loc[name, [f"{kind}_pts", f"{kind}_low_pts", f"{kind}_high_pts"]].tolist()
            for kind in ("with", "without", "adds")
        ]
        for got, true in zip(numbers, wanted, strict=True):
            assert got == pytest.approx(true[: len(got)], abs=HALF), name

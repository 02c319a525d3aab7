"""The numbers in `docs/results/`: how they are made, and what explains them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_notebook

from relevit.base.stages import preset_file
from relevit.config.preset import read_preset
from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.finetune import table
from relevit.pipeline.plan import kind
from relevit.pipeline.progress import LOG
from relevit.pipeline.results import ablations, added, looking, sets, times

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


ANSWERS = pd.DataFrame([
    {"world": "own", "seed": 0, "arm": arm, "relevance": on, "dataset": name, "right": right}
    for name in TEST_SETS for arm, on in (("original", False), ("ours", False), ("ours", True))
    for right in (1, name in ("val", "v2"))
])  # fmt: skip


def test_what_is_added_stands_beside_the_original_on_the_same_images():
    rows = [("A", "shifted_average"), ("all", "shifted_average"), ("all", "val")]
    columns = pd.DataFrame(rows, columns=["classes", "dataset"])
    columns = columns.assign(world="own", arm="ours", adds_pts=1 / 3)
    made = {"03_robustness/answers": ANSWERS, "03_robustness/columns": columns,
            "03_robustness/added": columns}  # fmt: skip
    found = added(made).set_index(["classes", "dataset"])["original_pct"]
    assert found.loc[rows].tolist() == pytest.approx([float("nan"), 50, 100], nan_ok=True)


def test_where_the_twins_look():
    rows = [("original", False, 50, 30), ("ours", False, 48, 40), ("ours", True, 60, 20),
            ("ours", True, 64, 22)]  # fmt: skip
    figures = pd.DataFrame(
        rows, columns=["arm", "relevance", "on_object_pct", "background_gap_pts"]
    )
    figures = figures.assign(world="own")
    maps = pd.DataFrame({"model_run": ["original", "seed0", "seed1"], "value_pct": [70, 74, 78]})
    worths = pd.DataFrame({
        "animal": [6.0, 3, 9], "thing 1": [1.0, 1, 0], "thing 2": [1.0, float("nan"), 0],
        "texture": [2.0, 4, 1], "model_run": ["original", "without", "with"], "dataset": "a",
    })  # fmt: skip
    made = {"03_robustness/figures": figures, "07_segmentation/part_worths": worths,
            "07_segmentation/finetuned_segmentation": maps.assign(metric="miou_pct")}  # fmt: skip
    found = looking(made).set_index("model_run")
    assert found.loc["with", ["on_object_pct", "background_gap_pts"]].tolist() == [62, 21]
    assert found.loc[["original", "with"], "miou_pct"].tolist() == [70, 76]
    assert found.loc["original", "worth_things"] == 2
    assert found["worth_context_pct"].to_dict() == pytest.approx(
        {"original": 40, "with": 10, "without": 62.5}
    )


def test_ablations_are_changes_of_val_and_of_the_shifted_sets():
    scores = pd.DataFrame([
        {"variant": "full", "seed": seed, "dataset": name, "original_top1_pct": 50.0,
         "top1_pct": 50.0 + seed + (name in SHIFTED_SETS)}
        for seed in (0, 1) for name in TEST_SETS
    ])  # fmt: skip
    (row,) = ablations(scores).to_dict("records")
    assert row == {"variant": "full", "seeds": 2, "val_pts": 0.5, "change_pts": 1.5}


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

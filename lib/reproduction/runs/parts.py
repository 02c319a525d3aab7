"""A study of many hours is made in parts: what was made elsewhere is joined to what is made here.

Of each run the project keeps its answers, image by image, and its figures, by the name that tells
its settings: `docs/results/answers/<preset>.parquet` and `docs/results/<preset>_rows.csv`. So a
study goes on where another machine stopped, and anybody can make its intervals again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from relevit.base.files import project_root
from relevit.base.results import read_rows
from relevit.finetune.epochs import LOG
from reproduction.runs import effects
from reproduction.runs.run import Row

RESULTS = project_root() / "docs" / "results"
NAMED = ["arm", "masks", "world", "seed"]
ANSWERED = ["run", "dataset", "index", "right", "in_a"]


def joined(
    preset: str, rows: pd.DataFrame, folder: Path = RESULTS
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Answers and figures of all that a preset plans, as `effects.study` has them, and loss_pct.

    `rows` are those of `grids.of`. A run that is made here goes before one that is kept, and what
    is kept of other settings is left out; what is neither made nor kept is told. Both files are
    written anew. Raises: FileNotFoundError where nothing is made or kept.
    """
    names = [run.name for run in rows["run"]]
    made, missing = effects.split(rows, missing=True)
    found = [_of_runs(made)] if len(made) else []
    paths = folder / "answers" / f"{preset}.parquet", folder / f"{preset}_rows.csv"
    if paths[1].is_file():
        answers, figures = pd.read_parquet(paths[0]), pd.read_csv(paths[1])
        others = set(names) & set(missing)
        found.append(tuple(each[each["run"].isin(others)] for each in (answers, figures)))
    if not found:
        raise FileNotFoundError(f"params/{preset}.yaml: {next(iter(missing.values()))}")
    answers, figures = (pd.concat(each, ignore_index=True) for each in zip(*found, strict=True))
    lost = {name: missing[name] for name in names if name not in set(figures["run"])}
    sys.stderr.writelines(f"{reason}\n" for reason in lost.values())
    place = {name: number for number, name in enumerate(names)}
    answers, figures = (
        each.sort_values("run", key=lambda run: run.map(place), kind="stable", ignore_index=True)
        for each in (answers.astype({"run": str, "dataset": str}), figures)
    )
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    small = {"run": "category", "dataset": "category", "index": np.int16}
    answers.astype(small).to_parquet(paths[0], index=False, compression="zstd")
    figures.to_csv(paths[1], index=False, float_format="%.6g", lineterminator="\n")
    return answers.merge(figures[["run", *NAMED, "lr"]], on="run"), figures


def _of_runs(made: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    named = made.assign(run_name=[run.name for run in made["run"]])
    answers, figures = effects.study(named, ["run_name", *NAMED, "lr"])
    losses = [loss_pct(run) for run in made["run"]]
    answers, figures = (each.rename(columns={"run_name": "run"}) for each in (answers, figures))
    return answers[ANSWERED], figures.assign(loss_pct=losses).astype({"lr": float})


def loss_pct(run: Row) -> float:
    """The relevance loss of training in the last epoch, in percent of that in the first."""
    path = run.folder / LOG
    seen = [row.get("train_loss_relevance") for row in read_rows(path)] if path.is_file() else []
    seen = [value for value in seen if value]
    return 100 * seen[-1] / seen[0] if seen else np.nan

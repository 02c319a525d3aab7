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

from relevit.base.files import project_root, write_atomically
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
    """Answers and figures of the runs that a preset plans: made here, or else kept.

    `rows` are those of `grids.of`. `answers` has a row a run and image (ANSWERED, NAMED, lr),
    `figures` a row a run, as `effects.study` has them, with `loss_pct`. What is made here goes into
    the files, in the place of a run of the same name. What is neither made nor kept is told,
    and how many are kept. Raises: FileNotFoundError where there is none of either.
    """
    names = [run.name for run in rows["run"]]
    made, missing = effects.split(rows, missing=True)
    found = [_of_runs(made)] if len(made) else []
    table, images = folder / f"{preset}_rows.csv", folder / "answers" / f"{preset}.parquet"
    if table.is_file():
        others = pd.read_parquet(images).astype({"run": str, "dataset": str}), pd.read_csv(table)
        found.append(tuple(each[~each["run"].isin(set(names) - set(missing))] for each in others))
    both = [pd.concat(each, ignore_index=True) for each in zip(*found, strict=True)]
    have = set(both[1]["run"]) if both else set()
    lost = [missing[name] for name in names if name not in have]
    if len(lost) == len(names):
        raise FileNotFoundError(f"params/{preset}.yaml: {lost[0]}")
    sys.stderr.writelines(f"{reason}\n" for reason in lost)
    if elsewhere := len(have & set(names) & set(missing)):
        sys.stderr.write(f"{preset}: {elsewhere} of {len(names)} runs are kept, made elsewhere\n")
    place = {name: number for number, name in enumerate(names)}
    answers, figures = (
        each.sort_values("run", key=lambda run: run.map(place), kind="stable", ignore_index=True)
        for each in both
    )
    if len(made):
        images.parent.mkdir(parents=True, exist_ok=True)
        small = answers.astype({"run": "category", "dataset": "category", "index": np.int32})
        write_atomically(images, lambda path: small.to_parquet(path, compression="zstd"))
        written = figures.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        write_atomically(table, written)
    answers, figures = (each[each["run"].isin(names)] for each in (answers, figures))
    keyed = figures[["run", *NAMED, "lr"]]
    return answers.merge(keyed, on="run", validate="many_to_one"), figures


def kept(preset: str, folder: Path = RESULTS) -> set[str]:
    """The names of the runs of a preset whose answers are kept."""
    table = folder / f"{preset}_rows.csv"
    return set(pd.read_csv(table)["run"]) if table.is_file() else set()


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

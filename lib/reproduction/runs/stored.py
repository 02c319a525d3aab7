"""The stored run's answers, which come with the project, beside those of the run made here and now.

A run as small as `quick` seldom tells what adds to what. So the answers of the run that the pages
quote lie in a file of the package: a row an image and model, right or wrong. A lesson computes its
number from both in the same three lines: pair, mean, interval. `make notebooks` writes the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

from habitats.cutouts import SHIFTED_SETS
from relevit.base.files import project_root
from relevit.evaluate.intervals import estimate
from reproduction.params.cells import Params
from reproduction.runs.effects import points
from reproduction.runs.grids import MODELS, OWN
from reproduction.stages import changed_from_preset

PRESET = "workshop"  # whose run it is
LESSONS = "03_robustness", "04_cures", "05_ablations"
FILE = Path("lib", "reproduction", "assets", "data", "stored_answers.parquet")  # of the project
IMAGE = ["dataset", "index"]


def named(answers: pd.DataFrame) -> pd.DataFrame:
    """Answers of `effects.study` by one name a model, as the file has them.

    With TWINS these are MODELS, those of the preset's own setting and world; else the arm is the
    name, with exact masks in the own world.
    """
    if "relevance" in answers:
        own = answers[answers["world"] == OWN]
        names = {key: name for name, key in MODELS.items()}
        pairs = zip(own["arm"], own["relevance"], strict=True)
        answers = own.assign(model=[names.get((arm, bool(on)), "") for arm, on in pairs])
    else:
        if "world" in answers:
            answers = answers[(answers["world"] == OWN) & (answers["masks"] == "annotated")]
        answers = answers.assign(model=answers["arm"])
    found = answers.loc[answers["model"] != "", ["model", "seed", *IMAGE, "right"]]
    return found.drop_duplicates(["model", "seed", *IMAGE])


def collected(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The file's table, of `<lesson>/answers` of a finished run."""
    parts = [named(tables[f"{name}/answers"]).assign(lesson=name) for name in LESSONS]
    found = pd.concat(parts, ignore_index=True)
    small = {"lesson": "category", "model": "category", "dataset": "category"}
    return found.astype({**small, "seed": np.int8, "index": np.int16})


def answers(lesson: str) -> pd.DataFrame:
    """The stored answers that a lesson needs: model, seed, dataset, index, right."""
    with (files("reproduction") / "assets" / "data" / FILE.name).open("rb") as table:
        found = pd.read_parquet(table)
    found = found[found["lesson"] == lesson].drop(columns="lesson")
    return found.astype({"model": str, "dataset": str})


def beside(cfg: Params, here: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Answers of `effects.study` and the stored ones, each by what it is: *yours*, *stored*.

    Where the stored preset itself runs, as it is in its file, there is one of them alone.
    """
    mine, changed = named(here), changed_from_preset(cfg)
    if cfg.preset == PRESET and not changed:
        return {f"{PRESET}, {_amount(mine)}": mine}
    what = f", other than its file: {', '.join(changed)}" if changed else ""
    kept = answers(cfg.notebook)
    return {
        f"yours ({cfg.preset}{what}, {_amount(mine)})": mine,
        f"stored ({PRESET}, {_amount(kept)})": kept,
    }


def _amount(seen: pd.DataFrame) -> str:
    seeds = seen["seed"].nunique()
    images = seen.groupby("dataset")["index"].nunique().max()
    return f"{seeds} seed{'s' * (seeds > 1)}, {images} images a set"


def by_image(seen: pd.DataFrame) -> pd.DataFrame:
    """A row an image of the shifted sets, a column a model and seed: 100 is right, 0 is wrong."""
    shifted = seen[seen["dataset"].isin(SHIFTED_SETS)]
    return 100.0 * shifted.pivot(index=IMAGE, columns=["model", "seed"], values="right")


def interval(pairs: pd.DataFrame) -> tuple[float, float]:
    """The 95 % interval of the mean of pairs, by the rule of `relevit.evaluate.intervals`.

    A row an image, with `dataset` in its index, and a column a seed; each set weighs the same.
    """
    sets = [one.to_numpy(dtype=float).T for _, one in pairs.groupby("dataset")]
    _, _, low, high = estimate(sets)
    return float(low), float(high)


def changes(images: pd.DataFrame, other: str = "original") -> pd.DataFrame:
    """What each model of `by_image` changes against another, in points, on its seeds."""
    found = {}
    for model in images.columns.unique("model").drop(other):
        pairs = (images[model] - images[other]).dropna(axis="columns", how="all")
        found[model] = [pairs.groupby("dataset").mean().mean().mean(), *interval(pairs)]
    names = ["change_pts", "low_pts", "high_pts"]
    return pd.DataFrame.from_dict(found, orient="index", columns=names)


def says(subject: str, mean: float, low: float, high: float, *, verbs: tuple[str, str]) -> str:
    """A difference with its interval, and the sentence that follows: up, down, or not to be told.

    `says("relevance", 10.2, 4.8, 15.6, verbs=("adds", "loses"))` is
    `+10.2 (+4.8 to +15.6) points: relevance adds`. The printed numbers decide: +0.0 is 0.
    """
    up, down = verbs
    low, high = round(low, 1), round(high, 1)
    said = f"whether {subject} {up} or {down} cannot be told"
    if low > 0 or high < 0:
        said = f"{subject} {up if low > 0 else down}"
    number = points({"mean": mean, "low": low, "high": high}, "mean", "low", "high")
    return f"{number} points: {said}"


def result(name: str) -> pd.DataFrame:
    """A table of `docs/results`: what was run once, or quoted from the stored run."""
    return pd.read_csv(project_root() / "docs" / "results" / f"{name}.csv")

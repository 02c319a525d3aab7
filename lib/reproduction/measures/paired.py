"""What one way of finetuning adds to another, paired by seed and image, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from habitats.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.evaluate.intervals import answered, estimate, shared_variance
from reproduction.paper.published import SHIFTED_AVERAGE as AVERAGE
from reproduction.paper.published import published_changes

GROUPS = ("all", "A", "B")  # of classes: all, those finetuned first, and the others
IMAGE = ["seed", "dataset", "index"]
ROW = ["world", "arm", "classes"]  # of a table of what relevance adds
ORIGINAL = "original"  # the arm of the models that all others start from
COUNTS = ["seeds", "images"]
BASIS = ["by_seed_pts", "image_error_pts"]  # with these what an interval follows from
ENDS = {"pts": "change_pts", **{name: name for name in ("low_pts", "high_pts", *BASIS)}}
SETTINGS = {"ours": "our setting", "published": "the paper's terms"}  # arms of 03_robustness
WORDS = {"without_pts": "without", "with_pts": "with", "adds_pts": "relevance adds"}


def paired_change(
    ours: pd.DataFrame, other: pd.DataFrame, sets: Sequence[str] = SHIFTED_SETS
) -> pd.DataFrame:
    """Difference of top-1, in points, mean over `sets`, by group of classes.

    Both tables have one row a seed and image: `seed`, `dataset`, `index`, `right`, `in_a`. Columns
    of the result: `change_pts` (mean over the seeds), `low_pts` and `high_pts`
    (`relevit.evaluate.intervals`), `seeds`; and what the interval follows from: `by_seed_pts` (the
    change of each seed, in text), `image_error_pts` (the standard error that images add) and
    `images` (that a seed has answered: the most, where seeds have other groups).
    A group without any image has no row. Raises: ValueError when the two did not see the same
    images.
    """
    both = ours.merge(other[[*IMAGE, "right"]], on=IMAGE, suffixes=("", "_other"))
    both = both[both["dataset"].isin(sets)]
    wanted = int(ours["dataset"].isin(sets).sum())
    if len(both) != wanted or wanted == 0 or len(other) != len(ours):
        raise ValueError(
            f"paired_change: {len(both)} of {wanted} images are in both tables; give answers of "
            "both to the same seeds, sets and images"
        )
    both["change"] = 100.0 * (both["right"].astype(float) - both["right_other"].astype(float))
    rows = {}
    for group in GROUPS:
        part = both if group == "all" else both[both["in_a"] == (group == "A")]
        if len(part):
            seeds = sorted(part["seed"].unique())
            wide = [
                images.pivot(index="seed", columns="index", values="change")
                .reindex(seeds)
                .to_numpy()
                for _, images in part.groupby("dataset", sort=True)
            ]
            found, error = estimate(wide), shared_variance(wide) ** 0.5
            of_seeds = part.groupby(["seed", "dataset"])["change"].mean().groupby("seed").mean()
            told = " ".join(f"{change:.6g}" for change in of_seeds)
            images = sum(map(answered, wide))  # not all, where seeds have other groups
            rows[group] = [found.mean, found.low, found.high, told, error, len(seeds), images]
    names = ["change_pts", "low_pts", "high_pts", *BASIS, *COUNTS]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=names)
    return table.rename_axis("classes")


def difference(
    ours: pd.DataFrame, other: pd.DataFrame, sets: Sequence[str] = SHIFTED_SETS
) -> pd.Series:
    """Top-1 of one arm less that of another, in points, mean over `sets`, by the seeds of both.

    Both have rows as `paired_change` takes them, without `in_a`. Returns the columns of
    `paired_change`, and `seeds_better`: in how many the first is the better one.
    Raises: ValueError as `paired_change`, and where no seed is in both.
    """
    seeds = np.intersect1d(ours["seed"], other["seed"])
    pair = [seen[seen["seed"].isin(seeds)].assign(in_a=True) for seen in (ours, other)]
    found = paired_change(*pair, sets).loc["all"]
    means = [
        seen[seen["dataset"].isin(sets)]
        .groupby(["seed", "dataset"])["right"]
        .mean()
        .groupby("seed")
        .mean()
        for seen in pair
    ]
    found["seeds_better"] = (means[0] > means[1]).sum()
    return found


def ends(found: pd.Series, name: str) -> dict[str, Any]:
    """A `difference` as columns: `name_pts`, with its interval and what that follows from."""
    return {f"{name}_{end}": found[key] for end, key in ENDS.items()}


def added_table(answers: pd.DataFrame, sets: Sequence[str] = SHIFTED_SETS) -> pd.DataFrame:
    """What each arm changes with the relevance terms and without, and what these add, in points.

    `answers` as from `runs.effects.study`. One row a world, arm and group of classes:
    `with_pts` and `without_pts` are changes of top-1 against the original, `adds_pts` their
    difference, each with its interval and BASIS as in `paired_change` (`with_low_pts` and so on).
    Raises: ValueError as `paired_change`.
    """
    rows = []
    for world, part in answers.groupby("world", sort=False):
        original = part[part["arm"] == ORIGINAL]
        for arm, runs in part[part["arm"] != ORIGINAL].groupby("arm", sort=False):
            ours, control = (runs[runs["relevance"] == on] for on in (True, False))
            before = original[original["seed"].isin(runs["seed"])]
            pairs = {"with": (ours, before), "without": (control, before)}
            pairs["adds"] = (ours, control)
            found = {name: paired_change(*pair, sets) for name, pair in pairs.items()}
            named = [
                table.drop(columns=COUNTS)
                .add_prefix(f"{name}_")
                .rename(columns=lambda column: column.replace("_change", ""))
                for name, table in found.items()
            ]
            joined = pd.concat([*named, found["adds"][COUNTS]], axis=1).reset_index()
            rows.append(joined.assign(world=world, arm=arm))
    table = pd.concat(rows, ignore_index=True)
    return table[[*ROW, *table.columns.drop(ROW)]]


def added_by_set(answers: pd.DataFrame) -> pd.DataFrame:
    """`added_table` of each of the nine sets, and of AVERAGE, named in the column `dataset`."""
    sets = {name: [name] for name in TEST_SETS} | {AVERAGE: SHIFTED_SETS}
    parts = [added_table(answers, of).assign(dataset=name) for name, of in sets.items()]
    return pd.concat(parts, ignore_index=True)


def nine_columns(added: pd.DataFrame, original_pct: pd.Series) -> pd.DataFrame:
    """A column a set, and one for their average: changes of top-1 in points, for people.

    `added` is `added_by_set` of one arm and all classes, `original_pct` the top-1 of the original
    by set. Beside them what the paper's seven models gain, in the mean.
    """
    theirs = published_changes().set_index("dataset")["change_top1_pts"]
    found = added.set_index("dataset")[list(WORDS)].rename(columns=WORDS)
    found.insert(0, "original, %", original_pct)
    found["with, in the paper"] = theirs
    for name in ("original, %", "with, in the paper"):
        found.loc[AVERAGE, name] = found.loc[list(SHIFTED_SETS), name].mean()
    return found.rename(index={AVERAGE: "shifted, mean"}).T.rename_axis(columns=None)


def added_in_words(added: pd.DataFrame) -> pd.DataFrame:
    """`added_table` of one world for people: changes of top-1 in points, on the shifted sets.

    Each with its 95 % interval.
    """
    table = added.replace({"arm": SETTINGS}).rename(columns={"arm": "setting"})
    table = table.set_index(["setting", "classes"])
    told = {}
    for name, word in WORDS.items():
        ends = (name.replace("pts", end) for end in ("pts", "low_pts", "high_pts"))
        numbers = table[[*ends]].itertuples(index=False)
        told[word] = [f"{mean:+z.1f} ({low:+z.1f} to {high:+z.1f})" for mean, low, high in numbers]
    return pd.DataFrame(told, table.index)


def runs_of(answers: pd.DataFrame, arm: str) -> pd.DataFrame:
    """The original and the runs of an arm with relevance, in the preset's own world.

    As `robustness` takes them: `model_run` is `original` or `seed<N>`.
    """
    own = answers[answers["world"] == "own"]
    original = own[(own["arm"] == ORIGINAL) & (own["seed"] == own["seed"].min())]
    ours = own[(own["arm"] == arm) & own["relevance"]]
    names = "seed" + ours["seed"].astype(str)
    return pd.concat([original.assign(model_run=ORIGINAL), ours.assign(model_run=names)])


def figure_means(figures: pd.DataFrame) -> pd.DataFrame:
    """Mean over the seeds of every figure: one row a world, arm and `relevance`."""
    named = figures.columns.str.endswith(("_pct", "_pts"))
    groups = figures.groupby(["world", "arm", "relevance"], sort=False)
    return groups[list(figures.columns[named])].mean()


def original_gaps_pts(figures: pd.DataFrame) -> pd.Series:
    """The background gap of each world's original, mean over its seeds."""
    means = figure_means(figures).xs(ORIGINAL, level="arm")
    return means["background_gap_pts"].droplevel("relevance")

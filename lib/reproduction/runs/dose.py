"""Does relevance add what an original leans by, on photographs (docs/dose.md)?

Tables of `params/dose.yaml`: objects of PACS on each other's backgrounds, with a class at home in a
known share of training. `python -m reproduction.runs.studies dose` writes them.
"""

from __future__ import annotations

import pandas as pd

from relevit.base.files import project_root
from reproduction.measures.paired import ORIGINAL, difference, ends
from reproduction.runs.grids import OWN
from reproduction.runs.mechanism import (
    ARM,
    EXACT,
    MASKS,
    MEDIATORS,
    RULE,
    Contrast,
    asked,
    beside,
    told,
    whole_seeds,
)

HOMES = ("home 0.5", "home 0.8", OWN, "home 1")  # worlds, by how often a class is at home
SHIFTED, PHOTO, GAP = "away and never", "photo", "gap"  # sets; two are made `by_object`
BOUND = 2.0  # points that matter
PREDICTED = project_root() / "docs" / "results" / "notes" / "dose_predictions.csv"
PAIRS = (
    ("relevance", "label"),
    ("relevance", f"relevance{EXACT}"),
    ("l1", "label"),
    ("swap", "label"),
    ("swap", "relevance"),
)


def contrasts() -> list[Contrast]:
    """In each world each of PAIRS; whether the object counts; rates; and dose and response."""

    def of(arm: str, world: str = OWN, masks: str = MASKS[0]) -> tuple[str, str]:
        return f"{arm}, {world}", masks

    found = [
        Contrast(f"{world}: {more} over {less}", (of(more, world),), (of(less, world),))
        for world in HOMES
        for more, less in PAIRS
    ]
    for arm in ("relevance", f"relevance{EXACT}", "l1", "swap"):
        for masks in MASKS[1:]:
            sides = (of(arm),), (of(arm, masks=masks),)
            found.append(Contrast(f"{arm}: object over {masks}", *sides))
    for more, less in (("relevance", "label"), ("swap", "label"), ("swap", "relevance")):
        sides = (of(more + RULE),), (of(less + RULE),)
        found.append(Contrast(f"{more} over {less}, rates by the rule", *sides))
    most, least = HOMES[-1], HOMES[0]
    for arm in ("relevance", "l1", "swap"):
        sides = (of(arm, most), of("label", least)), (of("label", most), of(arm, least))
        found.append(Contrast(f"{arm} over label: {most} less {least}", *sides))
    sides = (of(ORIGINAL, most),), (of(ORIGINAL, least),)
    return [*found, Contrast(f"originals: {most} less {least}", *sides)]


def tables(answers: pd.DataFrame, figures: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By file: a row an arm, world and kind of masks; what follows; and what was predicted.

    `answers` and `figures` are those of `parts.joined`. Raises: as `whole_seeds`.
    """
    answers, figures = (
        each.assign(arm=each["arm"] + ", " + each["world"]) for each in (answers, figures)
    )
    asks = contrasts()
    arms = {arm for each in asks for arm in (*each.more, *each.less)}
    arms |= {(f"{ORIGINAL}, {world}", MASKS[0]) for world in HOMES}
    whole = whole_seeds(figures, arms, "dose")
    answers, figures = (each[each["seed"].isin(whole)] for each in (answers, figures))
    right = answers.astype({"right": float})
    top1 = 100 * right.groupby([*ARM, "seed", "dataset"])["right"].mean().unstack()
    gaps = (top1["home"] - top1["away"]).rename("background_gap_pts").reset_index()
    figures = figures.merge(gaps, on=[*ARM, "seed"])
    right = pd.concat([right, by_object(right)], ignore_index=True)
    seen, made = dict(list(right.groupby(ARM, sort=False))), []
    for (arm, masks), mine in seen.items():
        name, world = arm.split(", ")
        looks = figures[(figures["arm"] == arm) & (figures["masks"] == masks)]
        row = {"world": world, "arm": name, "masks": masks, "seeds": mine["seed"].nunique()}
        row |= {f"{place}_pct": top1.loc[(arm, masks), place].mean() for place in top1}
        label = f"label{RULE if name.endswith(RULE) else ''}"
        if name != ORIGINAL:
            before = seen[f"{ORIGINAL}, {world}", MASKS[0]]
            row |= ends(difference(mine, before, (SHIFTED,)), "change")
        if name not in (ORIGINAL, label):
            for what, place in {"adds": SHIFTED, "adds_photo": PHOTO, "adds_val": "val"}.items():
                other = seen[f"{label}, {world}", MASKS[0]]
                row |= ends(difference(mine, other, (place,)), what)
        made.append(row | looks[["lr", *MEDIATORS]].mean().to_dict())
    follows = [
        asked(each, seen, figures, (place,)) | {"on": place}
        for place in (SHIFTED, PHOTO, GAP)
        for each in asks
    ]
    follows = pd.DataFrame(follows)
    follows = follows.drop(columns=[name for name in follows if name.startswith("background_gap")])
    return {
        "dose": pd.DataFrame(made),
        "dose_contrasts": follows,
        "dose_predicted": predicted(follows),
    }


def by_object(right: pd.DataFrame) -> pd.DataFrame:
    """Answers of two sets more, SHIFTED and GAP: of an object the mean, and at home less away.

    All sets show the same objects in the same order. So these are paired by object, and an interval
    takes no object of `away` for another one of `never`.
    """
    wide = right.pivot(index=[*ARM, "seed", "index"], columns="dataset", values="right")
    made = {SHIFTED: wide[["away", "never"]].mean(axis=1), GAP: wide["home"] - wide["away"]}
    return (
        pd.DataFrame(made)
        .rename_axis(columns="dataset")
        .stack()
        .dropna()
        .rename("right")
        .reset_index()
    )


def predicted(follows: pd.DataFrame) -> pd.DataFrame:
    """What was predicted before the runs (docs/results/notes/dose_predictions.csv), and came out.

    A question is one of `contrasts` on `away and never`, or `photo: ` and one on photographs as
    they are, or `gap: ` and one, of which the gap is asked. *No difference* goes first.
    """
    found = {}
    for row in follows.to_dict("records"):
        start = {SHIFTED: "", PHOTO: "photo: ", GAP: "gap: "}[row["on"]]
        found[start + row["question"]] = told(row, "effect", "_pts", BOUND)
    return beside(PREDICTED, found)

"""Why does the method work: the map on the object, or what its stopped gradient does beside?

Tables of `params/why.yaml` (docs/why.md, which has what was asked and predicted before the runs):
three losses of maps, each by the published gradient and by the exact one, with three kinds of
masks, from an original a seed. `python -m reproduction.runs.studies why` writes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from relevit.base.files import project_root
from relevit.evaluate.intervals import student
from reproduction.measures.paired import ORIGINAL, difference, ends

EXACT, RULE = "_exact", "_rule"  # how an arm's name ends
PUBLISHED = "published"
ABOVE, BELOW, UNTOLD = "above 0", "below 0", "not told"  # what an interval says
LOSSES = ("relevance", "readout", "l1")  # arms: GAE, the read-out, L1 on GAE
MASKS = ("annotated", "ellipse", "others")
MEDIATORS = ("on_object_pct", "background_gap_pts", "loss_pct")
ARM = ["arm", "masks"]
PREDICTED = project_root() / "docs" / "results" / "notes" / "why_predictions.csv"


class Contrast(NamedTuple):
    """The sum of some arms with their masks less the sum of as many others."""

    question: str
    more: tuple[tuple[str, str], ...]
    less: tuple[tuple[str, str], ...]


def contrasts() -> list[Contrast]:
    """What is asked: of each loss the gradient, the object, and whether one hangs on the other."""
    found = []
    for arm in LOSSES:
        exact = arm + EXACT
        for masks in MASKS:
            pair = ((arm, masks),), ((exact, masks),)
            found.append(Contrast(f"{arm}: published less exact, {masks}", *pair))
        for name in (arm, exact):
            gradient = "exact" if name == exact else PUBLISHED
            for masks in MASKS[1:]:
                pair = ((name, "annotated"),), ((name, masks),)
                found.append(Contrast(f"{arm}: object over {masks}, {gradient}", *pair))
        crossed = ((arm, "annotated"), (exact, "others")), ((exact, "annotated"), (arm, "others"))
        found.append(Contrast(f"{arm}: the gradient's part that needs the object", *crossed))
    at_rates = ((f"relevance{RULE}", "annotated"),), ((f"relevance{EXACT}{RULE}", "annotated"),)
    return [*found, Contrast("relevance: published less exact, rates by the rule", *at_rates)]


def tables(
    answers: pd.DataFrame, figures: pd.DataFrame, shifted: Sequence[str]
) -> dict[str, pd.DataFrame]:
    """By file: `why`, a row an arm and kind of masks; what follows; and what was predicted.

    `answers` and `figures` are those of `parts.joined`. Of the seeds that have all arms, so that
    each number is of the same originals. Raises: ValueError for fewer than two of these.
    """
    arms = {arm for each in contrasts() for arm in (*each.more, *each.less)}
    arms |= {(name, "annotated") for name in (ORIGINAL, "label", f"label{RULE}")}
    whole = whole_seeds(figures, arms, "why")
    answers, figures = (each[each["seed"].isin(whole)] for each in (answers, figures))
    right = answers.astype({"right": float})
    seen = dict(list(right.groupby(ARM, sort=False)))
    original = seen[ORIGINAL, "annotated"]
    made = []
    for (arm, masks), mine in seen.items():
        looks = figures[(figures["arm"] == arm) & (figures["masks"] == masks)]
        row = {"arm": arm, "masks": masks, "seeds": mine["seed"].nunique()}
        if arm != ORIGINAL:
            label = seen[f"label{RULE}" if arm.endswith(RULE) else "label", "annotated"]
            row |= ends(difference(mine, original, shifted), "change")
            row["val_pts"] = difference(mine, original, ["val"])["change_pts"]
            row |= ends(difference(mine, label, shifted), "adds") if mine is not label else {}
        made.append(row | looks[["lr", *MEDIATORS, "only_background_pct"]].mean().to_dict())
    rows = by_seed(right, figures, shifted)
    held, losses = held_fixed(rows), rows["arm"].str.removesuffix(EXACT)
    apart = {arm: held_fixed(rows[losses == arm]) for arm in LOSSES}
    answered = pd.DataFrame([asked(each, seen, figures, shifted) for each in contrasts()])
    found = {"why": pd.DataFrame(made), "why_contrasts": answered, "why_held": held}
    found["why_explained"] = explained(answered, held)
    found["why_held_by_loss"] = pd.concat(apart, names=["loss"]).reset_index("loss")
    return found | {"why_predicted": predicted(answered, held)}


def whole_seeds(figures: pd.DataFrame, arms: Collection[tuple[str, str]], preset: str) -> list[int]:
    """The seeds that have all these arms. Raises: ValueError for fewer than two of them."""
    by_seed = figures.groupby("seed")[ARM]
    each = by_seed.apply(lambda part: {*part.itertuples(index=False, name=None)})
    whole = [seed for seed, made in each.items() if made.issuperset(arms)]
    if len(whole) < 2:
        raise ValueError(
            f"{preset}: seeds that have all {len(arms)} arms: {whole or 'none'}; two are needed, "
            f"make the rest by make {preset}"
        )
    return whole


def explained(contrasts: pd.DataFrame, held: pd.DataFrame) -> pd.DataFrame:
    """What each explanation of docs/why.md predicts, and of which loss it came out: yes or no.

    A row a part: explanation, part, and LOSSES. A mediator is held over all losses at once, so that
    its rows say the same of each. *By about as much* asks of others' masks, *gained* of exact ones.
    """
    rows = contrasts.set_index("question")
    without = {row["held"]: told(row, "gradient_pts") for row in held.to_dict("records")}
    share_held, gap_held = without["on_object_pct"], without["background_gap_pts"]

    def says(question: str, name: str = "effect", unit: str = "_pts") -> str:
        return told(rows.loc[question], name, unit)

    found = {}
    for arm in LOSSES:
        leads = [says(f"{arm}: published less exact, {masks}") for masks in MASKS]
        over = [
            says(f"{arm}: object over {masks}, {gradient}")
            for gradient in (PUBLISHED, "exact")
            for masks in MASKS[1:]
        ]
        needs = says(f"{arm}: the gradient's part that needs the object")
        first = f"{arm}: published less exact, annotated"
        loss, share = (says(first, name, "") for name in ("loss", "on_object"))
        further = {BELOW: ABOVE, ABOVE: BELOW}.get(loss)  # the side of who lowers it further
        found[arm] = {
            ("the map", "exact masks lead, by both gradients"): {*over} == {ABOVE},
            ("the map", "a lower loss, a map further on the object"): share == further,
            ("the map", "and at least as much gained"): leads[0] in (further, UNTOLD),
            ("the map", "nothing left, share held (all losses)"): share_held == UNTOLD,
            ("beside", "published leads with all masks"): {*leads} == {ABOVE},
            ("beside", "by about as much"): needs == UNTOLD,
            ("beside", "still leads, share held (all losses)"): share_held == ABOVE,
            ("both", "published leads"): leads[0] == ABOVE,
            ("both", "more so with the object's masks"): needs == ABOVE,
            ("both", "nothing left, gap held (all losses)"): gap_held == UNTOLD,
        }
    table = pd.DataFrame(found).rename_axis(["explanation", "part"]).reset_index()
    return table.replace({True: "yes", False: "no"})


def predicted(contrasts: pd.DataFrame, held: pd.DataFrame) -> pd.DataFrame:
    """What was predicted before the runs (docs/results/notes/why_predictions.csv), and came out."""
    found = {row["question"]: told(row, "effect", "_pts") for row in contrasts.to_dict("records")}
    found |= {f"held: {row['held']}": told(row, "gradient_pts") for row in held.to_dict("records")}
    first = contrasts.iloc[0].to_dict()  # GAE, exact masks: published less exact
    looks = {"on the object": "on_object", "loss": "loss", "gap": "background_gap"}
    of = "relevance, published less exact"
    found |= {f"{words}: {of}": told(first, name) for words, name in looks.items()}
    return beside(PREDICTED, found)


def beside(predictions: Path, found: Mapping[str, str]) -> pd.DataFrame:
    """A file of question, predicted and reason, with what came out, and whether it is that."""
    table = pd.read_csv(predictions)
    table["found"] = table["question"].map(found)
    return table.assign(held=(table["found"] == table["predicted"]).map({True: "yes", False: "no"}))


def told(row: Mapping[str, float], name: str, unit: str = "", bound: float = 0.0) -> str:
    """What an interval says; *no difference* where it lies within a bound of 0."""
    low, high = row[f"{name}_low{unit}"], row[f"{name}_high{unit}"]
    if -bound < low <= high < bound:
        return "no difference"
    return ABOVE if low > 0 else BELOW if high < 0 else UNTOLD


def asked(
    each: Contrast,
    seen: dict[tuple[str, str], pd.DataFrame],
    figures: pd.DataFrame,
    shifted: Sequence[str],
) -> dict[str, object]:
    """A contrast in points on these sets, by images and seeds, and of MEDIATORS by seeds."""
    key = ["seed", "dataset", "index"]
    looks = figures.set_index([*ARM, "seed"])[list(MEDIATORS)].sort_index()
    sides, places = [], []
    for side in (each.more, each.less):
        right = sum(seen[arm].set_index(key)["right"] for arm in side)
        sides.append(right.reset_index().assign(in_a=True))
        places.append(sum(looks.loc[arm] for arm in side))
    seeds = seen[each.more[0]]["seed"].nunique()
    row = {"question": each.question, "seeds": seeds} | ends(difference(*sides, shifted), "effect")
    for name in MEDIATORS:
        row |= by_t((places[0] - places[1])[name], name.rsplit("_", 1)[0])
    return row


def by_t(values: pd.Series | np.ndarray, name: str) -> dict[str, float]:
    """The mean over seeds, which are originals, and its interval by Student's t."""
    mean, half = float(np.mean(values)), student(len(values) - 1) * stats.sem(values)
    return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}


def by_seed(right: pd.DataFrame, figures: pd.DataFrame, shifted: Sequence[str]) -> pd.DataFrame:
    """What each of the eighteen adds to labels, and MEDIATORS: a row an arm and seed."""
    asked = right[right["dataset"].isin(shifted)]
    sets = asked.groupby([*ARM, "seed", "dataset"])["right"].mean()
    top1 = 100 * sets.groupby([*ARM, "seed"]).mean()
    label = top1.loc["label", "annotated"]
    rows = figures[figures["arm"].str.removesuffix(EXACT).isin(LOSSES)].copy()
    places = [tuple(row) for row in rows[[*ARM, "seed"]].to_numpy()]
    rows["adds_pts"] = [top1[place] - label[place[-1]] for place in places]
    return rows.assign(published=~rows["arm"].str.endswith(EXACT))


def held_fixed(rows: pd.DataFrame) -> pd.DataFrame:
    """What the published gradient gains by least squares over the arms of an original.

    By itself, then with some of MEDIATORS held, as straight lines; which of the LOSSES it is is
    always held. A coefficient a seed, then `by_t`; `slope` is that of one that is held.
    """
    found = []
    for held in ((), *((name,) for name in MEDIATORS), MEDIATORS[:2]):
        gains, slopes = [], []
        for _, part in rows.groupby("seed"):
            kinds = pd.get_dummies(part["arm"].str.removesuffix(EXACT), dtype=float)
            known = part[["published", *held]].astype(float)
            x = np.column_stack([known, kinds])
            solved = np.linalg.lstsq(x, part["adds_pts"].to_numpy(), rcond=None)[0]
            gains.append(solved[0])
            slopes.append(solved[1] if held else np.nan)
        row = {"held": " and ".join(held) or "nothing", "seeds": len(gains)}
        row |= by_t(np.array(gains), "gradient_pts")
        found.append(row | (by_t(np.array(slopes), "slope") if len(held) == 1 else {}))
    return pd.DataFrame(found)

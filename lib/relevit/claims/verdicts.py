"""Verdicts on the papers' claims, by criteria that were written down before the runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import pandas as pd

from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.evaluate.robustness import need_sets
from relevit.finetune.learning_rate import choose_learning_rate
from relevit.paper import published as paper

# Runs below which there is no spread, so nothing is decided. RV-21, one seed a rate, is excepted.
MIN_SEEDS = 2
SLIGHT_PTS = 1.0  # largest fall that RV-04 calls slight (the paper's averages: 0.8 and 0.3)
SIMILAR_PTS = 1.0  # difference of gains that RV-09 calls similar whatever the spread
LR_LIMIT_PTS = 1.0  # below the paper's "2-3%": its ImageNet accuracy fell by 0.8 on average
EPS = 1e-9  # points; below any real change, above rounding
SI_SETS = ("si_location", "si_rotation", "si_size")

# Fixed in advance. A mean or a standard deviation (std) is over seeds; changes are finetuned
# minus original, in percentage points. All need at least MIN_SEEDS seeds.
CRITERIA: dict[str, str] = {
    "RV-01": "On a and on objectnet the mean top-1 change is above its std.",
    "RV-02": "On r and on sketch the mean top-1 change is above its std, and their average is "
    "below that of a and objectnet.",
    "RV-03": "On a and on objectnet every seed rises, in top-1 and in top-5.",
    "RV-04": f"On val and on v2 the mean top-1 change lies between -{SLIGHT_PTS:g} and 0 points, "
    "both included.",
    "RV-06": "On si_location, si_rotation and si_size every seed rises, in top-1 and in top-5. "
    "Where GradMask and RRR were run, each falls behind there, as in RV-05.",
    "RV-09": "Top-1. Averaged over the seven shifted sets, classes A and B both gain, and their "
    f"mean gains differ by at most {SIMILAR_PTS:g} point or the pooled std, whichever is larger. "
    "On val and on v2 the mean change of A is above that of B.",
    "RV-19": "On each of the seven shifted sets the original top-1 lies outside mean +- std of "
    "the finetuned runs, on either side.",
    "RV-20": "The rule (highest rate with a fall of validation top-1 of at most "
    f"{LR_LIMIT_PTS:g} points and no rising classification loss) finds a rate; the next lower "
    "rate tried passes too; and the finetuned runs, made at the rate found, gain on average "
    "over the seven shifted sets (mean top-1 change above 0). What other rates do there is shown "
    "in 08_ablations, on the model of the ablations, and not judged.",
}


@dataclass(frozen=True)
class Verdict:
    """What our runs say about one claim.

    `number` is in percentage points unless it names another unit: mean ± std over seeds, or
    ± standard error over images where there are none.
    """

    id: str
    verdict: Literal["holds", "fails", "not testable here"]
    number: str
    reason: str


def robustness_verdicts(
    changes: pd.DataFrame,
    shifted: pd.DataFrame,
    split: pd.DataFrame,
    lr_search: pd.DataFrame | None = None,
    behind: Mapping[str, bool] = MappingProxyType({}),
) -> list[Verdict]:
    """Judge RV-01 to RV-04, RV-06, RV-09, RV-19 and RV-20 by CRITERIA.

    Arguments: the results of `robustness.change_table`, `.shifted_average` and
    `.split_table`; `lr_search` has a row for each learning rate tried, with the columns `lr`,
    `drop_pts` (fall of validation top-1) and `rising` (classification loss rose), see
    `learning_rate.choose_learning_rate`; `behind` says of each baseline and SI-Score set
    whether it falls behind, see `claims_robustvit.baselines_behind`. With fewer than MIN_SEEDS
    runs all verdicts are 'not testable here', with the numbers shown.
    Raises: ValueError when a set or column is missing.
    """
    need_sets(changes["dataset"], TEST_SETS, "robustness_verdicts: changes")
    need_sets(split["dataset"], (*TEST_SETS, paper.SHIFTED_AVERAGE), "robustness_verdicts: split")
    rows = changes.set_index("dataset")
    seeds = int(rows["seeds"].min())
    return [
        _rises("RV-01", rows, ("a", "objectnet"), seeds),
        _less_steep(rows, seeds),
        _every_seed("RV-03", rows, ("a", "objectnet"), seeds),
        _slight_fall(rows, seeds),
        _steep(rows, behind, seeds),
        _similar_gain(split, seeds),
        _outside(rows, seeds),
        _learning_rate(shifted, lr_search, seeds),
    ]


def verdict_table(verdicts: list[Verdict], criteria: Mapping[str, str] = CRITERIA) -> pd.DataFrame:
    """The verdicts for a report: id, claim, criterion, verdict, number, reason.

    `criteria` are those of this module; for verdicts of several modules join them:
    `claims.CRITERIA | claims_attribution.CRITERIA`.
    Raises: ValueError for an id without a claim or a criterion.
    """
    texts = paper.claims().set_index("id")["claim"]
    unknown = [v.id for v in verdicts if v.id not in texts.index or v.id not in criteria]
    if unknown:
        raise ValueError(
            f"verdict_table: no claim or criterion for {unknown}; ids with both are "
            f"{list(criteria)}: add them to claims.csv and CRITERIA, or pass their criteria"
        )
    return pd.DataFrame(
        [[v.id, texts[v.id], criteria[v.id], v.verdict, v.number, v.reason] for v in verdicts],
        columns=["id", "claim", "criterion", "verdict", "number", "reason"],
    )


def signed(mean: float, std: float = math.nan) -> str:
    """`+1.2 ± 0.3`, or `+1.2` without a std; a change that rounds to nothing is `+0.0`."""
    text = f"{round(mean, 1) + 0.0:+.1f}"
    return text if math.isnan(std) else f"{text} ± {std:.1f}"


def judge(claim: str, parts: dict[str, bool], number: str, seeds: int | None = None) -> Verdict:
    """Holds when every part does; the reason names the parts that do not.

    `seeds` is the number of finetuned runs behind the parts, None where there are none.
    """
    if seeds is not None and seeds < MIN_SEEDS:
        reason = f"{seeds} finetuned run; at least {MIN_SEEDS} seeds are needed for a spread"
        return Verdict(claim, "not testable here", number, reason)
    missed = [name for name, met in parts.items() if not met]
    if missed:
        return Verdict(claim, "fails", number, "not met: " + "; ".join(missed))
    return Verdict(claim, "holds", number, "every part is met")


def _numbers(rows: pd.DataFrame, sets: tuple[str, ...]) -> str:
    """Top-1 change of each set."""
    return ", ".join(
        f"{name} {signed(*rows.loc[name, ['change_top1_pts', 'change_top1_std_pts']])}"
        for name in sets
    )


def _above_std(rows: pd.DataFrame, sets: tuple[str, ...]) -> dict[str, bool]:
    above = rows["change_top1_pts"] > rows["change_top1_std_pts"] + EPS
    return {f"{name} above its std": bool(above[name]) for name in sets}


def _rises(claim: str, rows: pd.DataFrame, sets: tuple[str, ...], seeds: int) -> Verdict:
    return judge(claim, _above_std(rows, sets), _numbers(rows, sets), seeds)


def _less_steep(rows: pd.DataFrame, seeds: int) -> Verdict:
    mild, steep = ("r", "sketch"), ("a", "objectnet")
    averages = [rows.loc[list(sets), "change_top1_pts"].mean() for sets in (mild, steep)]
    parts = _above_std(rows, mild) | {"less than a and objectnet": averages[0] < averages[1] - EPS}
    number = f"{_numbers(rows, mild)}; average {signed(averages[0])} against {signed(averages[1])}"
    return judge("RV-02", parts, number, seeds)


def _every_seed(
    claim: str,
    rows: pd.DataFrame,
    sets: tuple[str, ...],
    seeds: int,
    more: Mapping[str, bool] = MappingProxyType({}),
) -> Verdict:
    least = {m: rows[f"change_{m}_min_pts"] for m in paper.METRICS}
    parts = {
        f"{name} {metric} rises in every seed": bool(values[name] > EPS)
        for name in sets
        for metric, values in least.items()
    }
    lowest = (f"{n} {signed(least['top1'][n])} / {signed(least['top5'][n])}" for n in sets)
    number = f"lowest seed, top-1 / top-5: {', '.join(lowest)}"
    return judge(claim, {**parts, **more}, number, seeds)


def _steep(rows: pd.DataFrame, behind: Mapping[str, bool], seeds: int) -> Verdict:
    verdict = _every_seed("RV-06", rows, SI_SETS, seeds, behind)
    if behind or seeds < MIN_SEEDS:
        return verdict
    return replace(verdict, reason=f"{verdict.reason}; the baselines were not run")


def _slight_fall(rows: pd.DataFrame, seeds: int) -> Verdict:
    change = rows["change_top1_pts"]
    parts = {
        f"{name} between -{SLIGHT_PTS:g} and 0": bool(-SLIGHT_PTS - EPS <= change[name] <= EPS)
        for name in ("val", "v2")
    }
    return judge("RV-04", parts, _numbers(rows, ("val", "v2")), seeds)


def _similar_gain(split: pd.DataFrame, seeds: int) -> Verdict:
    a, b = (split[split["classes"] == kind].set_index("dataset") for kind in "AB")
    average = paper.SHIFTED_AVERAGE
    empty = split[split["change_top1_pts"].isna() & split["dataset"].isin((average, "val", "v2"))]
    if len(empty):
        which = ", ".join(f"{row.classes} on {row.dataset}" for row in empty.itertuples())
        reason = f"no image of {which.replace('_', ' ')}: evaluate sets of more classes"
        return Verdict("RV-09", "not testable here", "", reason)
    gains = [part.loc[average, "change_top1_pts"] for part in (a, b)]
    pooled = math.hypot(*(p.loc[average, "change_top1_std_pts"] for p in (a, b))) / math.sqrt(2)
    limit = max(SIMILAR_PTS, pooled) + EPS
    parts = {
        "A gains on shifted sets": gains[0] > EPS,
        "B gains on shifted sets": gains[1] > EPS,
        "gains of A and B are similar": abs(gains[0] - gains[1]) <= limit,
    } | {
        f"A above B on {name}": bool(
            a.loc[name, "change_top1_pts"] > b.loc[name, "change_top1_pts"] + EPS
        )
        for name in ("val", "v2")
    }
    sets = (average, "val", "v2")
    number = f"A: {_numbers(a, sets)}; B: {_numbers(b, sets)}".replace("_", " ")
    return judge("RV-09", parts, number, seeds)


def _outside(rows: pd.DataFrame, seeds: int) -> Verdict:
    outside = rows["change_top1_pts"].abs() > rows["change_top1_std_pts"] + EPS
    parts = {f"original outside on {name}": bool(outside[name]) for name in SHIFTED_SETS}
    return judge("RV-19", parts, _numbers(rows, SHIFTED_SETS), seeds)


def _learning_rate(shifted: pd.DataFrame, search: pd.DataFrame | None, seeds: int) -> Verdict:
    top1 = shifted.set_index("metric").loc["top1"]
    number = f"shifted average {signed(top1['mean_pts'], top1['std_pts'])}"
    if search is None:
        reason = "no learning-rate search was given; run one"
        return Verdict("RV-20", "not testable here", number, reason)
    rate = _chosen(search)
    if rate is None:
        return Verdict("RV-20", "fails", number, "not met: the rule finds a rate")
    lower = search[search["lr"] < rate]
    if lower.empty:
        reason = f"{rate:g} is the lowest rate tried; a lower one is needed"
        return Verdict("RV-20", "not testable here", f"rate {rate:g}; {number}", reason)
    below = float(lower["lr"].max())
    parts = {
        f"the next lower rate, {below:g}, passes": _chosen(search[search["lr"] == below]) == below,
        "the shifted average rises": bool(top1["mean_pts"] > EPS),
    }
    return judge("RV-20", parts, f"rate {rate:g}, next lower {below:g}; {number}", seeds)


def _chosen(search: pd.DataFrame) -> float | None:
    """The rate that the rule takes, or None. Raises: ValueError for a wrong table."""
    absent = {"lr", "drop_pts", "rising"} - set(search.columns)
    if absent or search["lr"].duplicated().any():
        raise ValueError(
            f"robustness_verdicts: lr_search has columns {list(search.columns)} and "
            f"{len(search)} rows; it needs lr, drop_pts and rising, one row a rate: "
            "average over seeds first"
        )
    rates = search.set_index("lr")
    try:
        return choose_learning_rate(
            rates["drop_pts"].to_dict(), rates["rising"].astype(bool).to_dict(), LR_LIMIT_PTS
        )
    except ValueError:  # no rate passes
        return None

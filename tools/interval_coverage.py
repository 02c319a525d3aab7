"""How often the interval of `relevit.evaluate.intervals` holds the truth, and how often others do.

Writes docs/results/coverage.csv, coverage_earlier.csv and docs/coverage.png, in three minutes:
python tools/interval_coverage.py

A replication draws images, whose answers by the original, by finetuned models and by their controls
are correlated, and seeds, each of which is better or worse on all images alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtri
from scipy.stats import t

from relevit.evaluate.intervals import covariances, estimate, shared_variance

DOCS = Path(__file__).parents[1] / "docs"
BAND = 93, 98  # percent, in which a 95 % interval passes
SPREADS_PTS = 0, 0.5, 1, 2, 3, 4  # standard deviation over seeds
SEEDS = 2, 3, 5
REPLICATIONS, ROUNDS = 1500, 5  # a round fits into 2 GB
IMAGES = 240  # a set
# Top-1 in percent on the seven shifted sets, about as in docs/results/sets.csv.
TOP1 = {
    "original": [53, 50, 55, 19, 47, 58, 10],
    "without": [45, 48, 47, 16, 41, 53, 12],
    "with": [62, 57, 66, 22, 52, 63, 12],
}
PER_IMAGE, PER_KIND, PER_SEED = 0.7, 0.15, 0.15  # of what makes an answer right
COLUMNS = ["rule", "compared", "sets", "seeds", "spread_pts", "coverage_pct", "width_pts"]
Z = ndtri(0.975)

Values = list[np.ndarray]  # of each set the paired changes in points, [replications, seeds, images]
Rule = Callable[[Values], tuple[np.ndarray, np.ndarray]]


def changes(replications: int, sets: int, random: np.random.Generator) -> Iterator[tuple]:
    """(compared, spread of the seeds, true change, values) of every cell, on the same images."""
    shape, most = (replications, 1, sets, IMAGES), max(SEEDS)
    common = PER_IMAGE**0.5 * _normal(random, shape)
    need = {"original": common + (PER_KIND + PER_SEED) ** 0.5 * _normal(random, shape)}
    for kind in ("without", "with"):
        seeds = _normal(random, (replications, most, sets, IMAGES))
        need[kind] = common + PER_KIND**0.5 * _normal(random, shape) + PER_SEED**0.5 * seeds
    better = random.standard_normal((replications, most, 1))
    for spread in SPREADS_PTS:
        share = {kind: np.array(TOP1[kind][:sets]) / 100 + 0 * better for kind in TOP1}
        share["with"] = np.clip(share["with"] + spread / 100 * better, 1e-6, 1 - 1e-6)
        right = {kind: need[kind] < ndtri(share[kind])[..., None] for kind in TOP1}
        for other in ("original", "without"):
            values = 100.0 * (right["with"].astype(np.float32) - right[other])
            truth = np.mean(TOP1["with"][:sets]) - np.mean(TOP1[other][:sets])
            yield f"with - {other}", spread, truth, list(np.moveaxis(values, 2, 0))


def coverage(
    rules: Mapping[str, Rule], replications: int, sets: Sequence[int] = (7, 1), seed: int = 0
) -> pd.DataFrame:
    """How often each rule holds the truth, in percent, and its median width; columns COLUMNS."""
    rows = []
    for count in sets:
        random = np.random.default_rng(seed)
        for compared, spread, truth, values in changes(replications, count, random):
            for seeds in SEEDS:
                some = [one[:, :seeds] for one in values]
                for name, rule in rules.items():
                    low, high = rule(some)
                    held = 100 * np.mean((low <= truth) & (truth <= high))
                    width = np.median(high - low)
                    rows.append((name, compared, count, seeds, spread, held, width))
    return pd.DataFrame(rows, columns=COLUMNS)


def ours(values: Values) -> tuple[np.ndarray, np.ndarray]:
    """The wider of two."""
    return estimate(values)[2:]


def resampled(values: Values, draws: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """The middle 95 % of the means over images and seeds drawn with replacement."""
    random = np.random.default_rng(0)
    means = []
    for one in values:
        times = random.multinomial(IMAGES, np.full(IMAGES, 1 / IMAGES), draws).astype(np.float32)
        means.append(one @ (times.T / IMAGES))
    of_seeds = np.mean(means, axis=0)  # [replications, seeds, draws]
    chosen = random.integers(of_seeds.shape[1], size=(of_seeds.shape[1], draws))
    return tuple(np.percentile(of_seeds[:, chosen, np.arange(draws)].mean(1), [2.5, 97.5], axis=1))


def root_of_squares(values: Values) -> tuple[np.ndarray, np.ndarray]:
    """Student's t over seeds, and 1.96 errors of one run over images."""
    mean, seeds, freedom = _over_seeds(values)
    one = sum(covariances(v).diagonal(axis1=1, axis2=2).mean(1) for v in values) / len(values) ** 2
    half = np.hypot(t.ppf(0.975, freedom) * seeds**0.5, Z * one**0.5)
    return mean - half, mean + half


def hillis(values: Values) -> tuple[np.ndarray, np.ndarray]:
    """Student's t with the degrees of freedom of Hillis 2007."""
    mean, seeds, freedom = _over_seeds(values)
    whole = seeds + shared_variance(values)
    with np.errstate(divide="ignore"):
        half = t.ppf(0.975, freedom * (whole / seeds) ** 2) * whole**0.5
    return mean - half, mean + half


RULES = {
    "the wider of two": ours,
    "resampling": resampled,
    "root of squares": root_of_squares,
    "Hillis 2007": hillis,
}


def earlier(table: pd.DataFrame) -> pd.DataFrame:
    """Resampling, the earlier rule, by number of seeds: its coverage, and today's width over its.

    On the shifted sets, the lowest and the highest of all spreads; columns as docs/results.md has.
    """
    wide = table[table["sets"] == max(table["sets"])].pivot(
        index=["seeds", "compared", "spread_pts"],
        columns="rule",
        values=["coverage_pct", "width_pts"],
    )
    widening = wide["width_pts", "the wider of two"] / wide["width_pts", "resampling"]
    rows = {"coverage_{}_pct": wide["coverage_pct", "resampling"], "widening_{}": widening}
    ends = {"low": "min", "high": "max"}
    return pd.DataFrame({
        name.format(end): column.groupby("seeds").agg(least)
        for name, column in rows.items()
        for end, least in ends.items()
    }).reset_index()  # fmt: skip


def picture(table: pd.DataFrame):
    """Coverage over the spread of the seeds, a panel a rule, a line a number of seeds."""
    from reproduction.plots.style import INK, PALE_OBJECT, panels

    figure, axes = panels(len(RULES), 10, 3, sharey=True)
    shades = dict(zip(SEEDS, ("#26367d", "#a1811a", "#d1495b"), strict=True))
    for axis, rule in zip(axes, RULES, strict=True):
        rows = table[table["rule"] == rule]
        axis.axhspan(*BAND, color=PALE_OBJECT, alpha=0.35, linewidth=0)
        axis.axhline(95, color=INK, linewidth=0.6)
        for seeds, own in rows.groupby("seeds"):
            held = own.groupby("spread_pts")["coverage_pct"]
            axis.fill_between(held.min().index, held.min(), held.max(), color=shades[seeds],
                              alpha=0.2, linewidth=0)  # fmt: skip
            label = f"{seeds} seeds"
            axis.plot(held.mean(), color=shades[seeds], marker="o", markersize=3, label=label)
        axis.set(title=rule, xlabel="spread of the seeds (points)", ylim=(70, 101))
    axes[0].set_ylabel("holds the truth (%)")
    axes[0].legend(frameon=False, loc="lower left")
    return figure


def _normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.standard_normal(shape, dtype=np.float32)


def _over_seeds(values: Values) -> tuple[np.ndarray, np.ndarray, int]:
    """The mean, its variance over seeds, and the degrees of freedom."""
    of_seeds = np.mean([one.mean(axis=2) for one in values], axis=0)
    count = of_seeds.shape[1]
    return of_seeds.mean(axis=1), of_seeds.var(axis=1, ddof=1) / count, count - 1


if __name__ == "__main__":
    rounds = [coverage(RULES, REPLICATIONS, seed=seed) for seed in range(ROUNDS)]
    found = pd.concat(rounds).groupby(COLUMNS[:-2], sort=False).mean().reset_index()
    for name, rows in {"coverage": found, "coverage_earlier": earlier(found)}.items():
        text = rows.to_csv(index=False, float_format="%.4g", lineterminator="\n")
        (DOCS / "results" / f"{name}.csv").write_text(text, encoding="utf-8")
    picture(found).savefig(DOCS / "coverage.png", dpi=110)
    spans = found.groupby(["rule", "seeds"])["coverage_pct"].agg(["min", "max"])
    print(spans.round(1).to_string())

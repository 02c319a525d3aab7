"""Numbers of the heads of each run, which claims of IAV are judged by.

Source: IAV Sec. V.D to V.G, figures without a table. What a mean over rows can express is not
here. A head's median is over images; scores are with SmoothGrad, entropies in nats. A layer of the
paper is the same share of the depth: the first, the middle and the last stand for L1, L6 and L12.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from reproduction.measures.class_changes import rank_correlation

HIGH_IA = 0.5  # a head's median over images, as the paper says
LOW_STDS = 3.0  # two are reached by the lowest of twelve equal heads one time in four
ONE_OR_TWO = 2 / 12  # of the heads in a layer
MIN_HEADS = 4  # fewer have no spread from which one could stand apart
RUN = ["model", "seed"]
COLUMNS = ["model", "other", "seed", "number", "value", "error", "count"]
Number = tuple[str, float, float, int]  # with its value, error and count


def head_numbers(
    scores: pd.DataFrame, entropy: pd.DataFrame, space: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Numbers of heads by run, one a row; tables as in `reproduction.heads.measure`.

    Columns: model, other (a second model, for two numbers), seed (-1: over all seeds), number,
    value, error (over images, NaN where there is none), count (of images).
    """
    found = []
    own = scores[scores["map"] == "smoothgrad"]
    for (model, seed), rows in own.groupby(RUN, sort=False, observed=True):
        found += [(model, "", seed, *number) for number in _of_scores(rows)]
    for model in own["model"].unique():
        numbers = _correlations(*(t[t["model"] == model] for t in (own, entropy)))
        found += [(model, "", -1, *number) for number in numbers]
    found += _of_entropy(entropy)
    if space is not None:
        wide = space.pivot_table(index=RUN, columns="layer", values="knn_pct", observed=True)
        best = wide.iloc[:, -2:].max(axis=1) - wide.iloc[:, :-2].max(axis=1)
        found += [(m, "", s, "last layers best", v, np.nan, 0) for (m, s), v in best.items()]
    return pd.DataFrame(found, columns=COLUMNS)


def _of_scores(rows: pd.DataFrame) -> Iterator[Number]:
    medians = rows.groupby(["layer", "head"])["score"].median().unstack("head").sort_index()
    between = rows.groupby(["layer", "head"])["score"].mean().groupby("layer").var(ddof=0)
    share = (between / rows.groupby("layer")["score"].var(ddof=0)).mean()
    numbers = {"identity": share}
    depth = medians.index / medians.index.max()
    ranges = medians.max(axis=1) - medians.min(axis=1)
    for start, name in enumerate(("first", "middle", "last")):
        third = (depth > start / 3) & (depth <= (start + 1) / 3)
        numbers[f"range {name}"] = ranges[third].mean()
    if medians.shape[1] >= MIN_HEADS:
        most = max(1, round(ONE_OR_TWO * medians.shape[1]))
        apart = [_stands_apart(heads.to_numpy(), most) for _, heads in medians.iterrows()]
        numbers["layers with few low"] = float(np.mean(apart))
    three = medians.iloc[[0, len(medians) // 2 - 1, -1]]
    for name, heads in zip(("first", "middle", "last"), three.to_numpy(), strict=True):
        numbers |= {f"lowest {name}": heads.min(), f"highest {name}": heads.max()}
        numbers[f"low {name}"] = (heads <= HIGH_IA).mean()
    numbers["high"] = (three > HIGH_IA).to_numpy().mean()
    stds = rows.groupby(["layer", "head"])["score"].std().unstack("head").loc[three.index]
    low = stds.where(three <= HIGH_IA).stack().mean()
    numbers["std of low"] = 0.0 if np.isnan(low) else low  # no Low-IA head, no variance
    for name, value in numbers.items():
        yield name, float(value), np.nan, 0


def _stands_apart(medians: np.ndarray, most: int) -> bool:
    """Whether a layer's lowest heads, at most so many, are far below all others."""
    ranked = np.sort(medians)
    splits = ((ranked[n - 1], ranked[n:]) for n in range(1, most + 1))
    return any(low < rest.mean() - LOW_STDS * rest.std(ddof=1) for low, rest in splits)


def _correlations(own: pd.DataFrame, entropy: pd.DataFrame) -> Iterator[Number]:
    """Rank correlations over images with the object's size."""
    images = entropy.groupby("image")[["entropy", "object_share_pct"]].mean().dropna()
    images = images.join(own.groupby("image")["score"].mean(), how="inner")
    if len(images) >= 4:
        for name in ("entropy", "score"):
            found = rank_correlation(images["object_share_pct"], images[name])
            error = (found["high"] - found["low"]) / (2 * 1.96)
            yield f"{name} with size", found["spearman"], error, found["count"]


def _of_entropy(entropy: pd.DataFrame) -> list[tuple]:
    """The last layer's medians and ranges, and how far two models are apart in the others."""
    found: list[tuple] = []
    runs, last = {}, entropy["layer"].max()
    for (model, seed), rows in entropy.groupby(RUN, sort=False, observed=True):
        heads = rows[rows["layer"] == last].groupby("head")["entropy"]
        spread = heads.quantile(0.75) - heads.quantile(0.25)
        found.append((model, "", seed, "last median", heads.median().mean(), np.nan, 0))
        found.append((model, "", seed, "last range", spread.mean(), np.nan, 0))
        means = rows[rows["layer"] < last].groupby(["layer", "head"])["entropy"].mean()
        runs[model, seed] = means.unstack("head")
    by_model = entropy[entropy["layer"] == last].groupby(["model", "seed", "head"], observed=True)
    medians = by_model["entropy"].median().groupby(["model", "head"], observed=True).mean()
    for model, seed in runs:
        for other in (m for m, s in runs if s == seed and m != model):
            a, b = runs[model, seed], runs[other, seed]
            gap = (a.mean(axis=1) - b.mean(axis=1)).abs().mean()
            spread = np.mean([one.std(axis=1).mean() for one in (a, b)])
            found.append((model, other, seed, "apart", gap - spread, np.nan, 0))
    for model in entropy["model"].unique():
        for other in (m for m in entropy["model"].unique() if m != model):
            among = medians[model].between(medians[other].min(), medians[other].max()).sum()
            found.append((model, other, -1, "last among", float(among), np.nan, 0))
    return found

"""Claims on finetuning, the ablation, the approximation error and two objects in one image."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pandas as pd

from relevit.attribution import VARIANTS
from relevit.claims.attribution import criteria as fixed
from relevit.claims.attribution.scores import (
    PREDICTED,
    SEGMENTATION,
    SIGNS,
    THREE,
    Gain,
    Lacking,
    Scores,
    gain_over,
    listed,
    perturbation_scores,
    unless_noisy,
)
from relevit.claims.verdicts import EPS, MIN_SEEDS, Verdict, judge, signed
from relevit.evaluate.robustness import ORIGINAL


def factors(claim: str, approximation: pd.DataFrame) -> Verdict:
    """BI-01 (on average) and BI-02 (in every block)."""
    rollout, token = (_errors(approximation, name) for name in ("rollout", "token_wise"))
    if claim == "BI-01":
        factor, error = _ratio(_block_mean(rollout), _block_mean(token))
        met = {f"at least {fixed.MEAN_FACTOR:g} times": factor - error >= fixed.MEAN_FACTOR - EPS}
        return judge(claim, met, f"rollout's error over token_wise's {factor:.3g} ± {error:.2g}")
    ratios = {b: _ratio(rollout.loc[b, _PAIR], token.loc[b, _PAIR]) for b in token.index}
    parts = {
        f"block {block} at least {fixed.BLOCK_FACTOR:g} times": factor - error
        >= fixed.BLOCK_FACTOR - EPS
        for block, (factor, error) in ratios.items()
    }
    text = ", ".join(f"{b}: {factor:.3g} ± {error:.2g}" for b, (factor, error) in ratios.items())
    return judge(claim, parts, f"rollout's error over token_wise's, by block: {text}")


def steadier(claim: str, approximation: pd.DataFrame) -> Verdict:
    """BI-03."""
    rollout, token = (_errors(approximation, name) for name in ("rollout", "token_wise"))
    deep = [block for block in token.index if block > token.index.max() / 2]
    parts = {}
    for block in deep:
        (a, n), (b, m) = (rows.loc[block, ["std", "images"]] for rows in (rollout, token))
        spread = math.hypot(a / math.sqrt(2 * (n - 1)), b / math.sqrt(2 * (m - 1)))
        parts[f"block {block} varies less"] = bool(a - b > spread)
    text = ", ".join(
        f"{b}: {token.loc[b, 'std']:.2g} against {rollout.loc[b, 'std']:.2g}" for b in deep
    )
    return judge(claim, parts, f"std of token_wise's error against rollout's, by block: {text}")


def below_rollout(claim: str, approximation: pd.DataFrame) -> Verdict:
    """BI-04."""
    names = ("rollout", *VARIANTS)
    means = {name: _block_mean(_errors(approximation, name)) for name in names}
    worst, error = means["rollout"]
    parts = {
        f"{name} below rollout": bool(worst - means[name][0] > math.hypot(error, means[name][1]))
        for name in VARIANTS
    }
    text = ", ".join(f"{name} {value:.3g} ± {error:.2g}" for name, (value, error) in means.items())
    return judge(claim, parts, f"squared error: {text}")


_PAIR = ["mean", "error"]


def _errors(table: pd.DataFrame, method: str) -> pd.DataFrame:
    """Mean, its standard error, std and images of one method by block."""
    rows = table[table["method"] == method].set_index("block").sort_index()
    blocks = sorted(table["block"].unique())
    if list(rows.index) != blocks:
        raise Lacking(f"{method} has blocks {list(rows.index)}, of {blocks}: run them too")
    images, std = rows["images"].astype(float), rows["std_squared_error"]
    error = std / np.sqrt(images)
    return pd.DataFrame(
        {"mean": rows["mean_squared_error"], "error": error, "std": std, "images": images}
    )


def _block_mean(rows: pd.DataFrame) -> tuple[float, float]:
    """Average over blocks. The blocks see the same images, so their errors may add up."""
    return float(rows["mean"].mean()), float(rows["error"].mean())


def _ratio(over: tuple[float, float], under: tuple[float, float]) -> tuple[float, float]:
    (a, error_a), (b, error_b) = over, under
    if a <= 0 or b <= 0:
        raise Lacking("an error of 0 in rollout or token_wise has no ratio: check the table")
    return float(a / b), float(a / b * math.hypot(error_a / a, error_b / b))


def parts_help(claim: str, ablation: pd.DataFrame) -> Verdict:
    """BI-16."""
    integrated = "integrated_gradient"
    pairs = {
        "head_wise, integrated against plain gradient": (
            ("head_wise", integrated),
            ("head_wise", "gradient"),
        )
    } | {
        f"{ours} against {other}": ((ours, integrated), (other, integrated))
        for ours in VARIANTS
        for other in ("avg_attention", "last_attention")
    }
    scores = _ablation_scores(ablation)
    parts, texts = {}, []
    for pair, (ours, other) in pairs.items():
        names = (*SEGMENTATION.values(), *PREDICTED)
        gains = {name: gain_over(scores, (*ours, name), (*other, name)) for name in names}
        missed = [name for name, gain in gains.items() if not gain.clear]
        parts[f"{pair} in {', '.join(missed)}"] = not missed
        shown = (f"{name} {_two_digits(gain)}" for name, gain in gains.items())
        texts.append(f"{pair}: {', '.join(shown)}")
    return judge(claim, parts, "; ".join(texts))


def _two_digits(gain: Gain) -> str:
    """The paper's smallest such gain is 0.04."""
    text = f"{round(gain.pts, 2) + 0.0:+.2f}"
    return f"{text} ± {gain.error:.2f}" if gain.error else text


def _ablation_scores(table: pd.DataFrame) -> Scores:
    """By perception, feedback and score; segmentation numbers come without an error."""
    scores: Scores = {}
    for row in table.to_dict("records"):
        key = (str(row["perception"]), str(row["feedback"]))
        scores |= {(*key, name): (row[column], 0.0) for column, name in SEGMENTATION.items()}
        for (direction, sign), name in zip(SIGNS.items(), PREDICTED, strict=True):
            error = row[f"{direction}_standard_error_pts"]
            scores[(*key, name)] = (sign * row[f"{direction}_auc_pct"], error)
    return scores


def point_apart(claim: str, two_objects: pd.DataFrame) -> Verdict:
    """BI-20."""
    rows = two_objects.set_index("method")
    names = (*VARIANTS, "raw_attention")
    absent = [name for name in names if name not in rows.index]
    if absent:
        raise Lacking(f"no row for {', '.join(absent)}: run it too")
    columns = ["own_object_pct", "standard_error_pts"]
    gains = {name: Gain(*(rows.loc[name, columns] - [fixed.AGNOSTIC_PCT, 0.0])) for name in names}
    parts = {f"{name} above {fixed.AGNOSTIC_PCT:g} %": gains[name].clear for name in VARIANTS}
    parts[f"raw_attention not above {fixed.AGNOSTIC_PCT:g} %"] = not gains["raw_attention"].clear
    shares = (f"{n} {rows.loc[n, columns[0]]:.1f} ± {rows.loc[n, columns[1]]:.1f}" for n in names)
    return judge(claim, parts, f"points at its own object, %: {', '.join(shares)}")


def maps_improve(claim: str, segmentation: pd.DataFrame) -> Verdict:
    """RV-08."""
    wide = segmentation.astype({"metric": str, "model_run": str})
    wide = wide.pivot(index="model_run", columns="metric", values="value_pct")
    wide = wide.rename(columns=SEGMENTATION).reindex(columns=THREE)
    seeds = _seeds(wide.index.tolist())
    if wide.isna().any(axis=None):
        raise Lacking(f"not every run has {', '.join(THREE)}: evaluate them all")
    changes = wide.drop(index=ORIGINAL) - wide.loc[ORIGINAL]
    mean, std = changes.mean(), changes.std()
    parts = {f"{m} rises in every seed": bool(changes[m].min() > EPS) for m in THREE}
    parts |= {f"{m} above its std": bool(mean[m] > std[m] + EPS) for m in THREE}
    number = ", ".join(f"{m} {signed(mean[m], std[m])}" for m in THREE)
    return judge(claim, parts, number, seeds)


def stays_faithful(claim: str, perturbation: pd.DataFrame) -> Verdict:
    """RV-39."""
    scores = perturbation_scores(
        perturbation.drop(columns="target", errors="ignore"), ["model_run"]
    )
    runs = perturbation["model_run"].astype(str).unique().tolist()
    seeds = _seeds(runs)
    parts, mean, better = {}, {}, False
    for score in PREDICTED:
        gains = [gain_over(scores, (r, score), (ORIGINAL, score)) for r in runs if r != ORIGINAL]
        better = better or any(gain.clear for gain in gains)
        # Seeds see the same images, as the original does: their errors do not average out.
        mean[score] = Gain(*np.mean(gains, axis=0).tolist())
        loss = -mean[score].pts
        limit = max(fixed.LOSS_PTS, mean[score].error)
        parts[f"{score} worse by at most {limit:.1f} points"] = loss <= limit + EPS
    number = f"gain over the original, mean over {seeds} seeds: {listed(mean)}"
    if seeds < MIN_SEEDS:
        return judge(claim, parts, number, seeds)
    more = {"better in some seed and direction": better}
    return unless_noisy(claim, parts, mean.values(), number, more)


def _seeds(runs: Collection[str]) -> int:
    if ORIGINAL not in runs or len(runs) < 2:
        raise Lacking(f"runs are {list(runs)}: needs 'original' and finetuned ones")
    return len(runs) - 1

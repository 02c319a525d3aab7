"""The trend of IA-scores over depth, and whether it tells the kinds of pretraining apart.

Source: IAV Sec. V.E, Fig. 7: global-IAV falls with depth in supervised models and stays in
self-supervised ones. The paper shows curves and gives no statistic. Ours was fixed before any
result was seen: the least-squares slope of the layers' mean scores against depth, which runs
from 0 (first layer) to 1 (last). It is the change over the whole depth, in units of the score.

The paper's conclusion (Sec. V.E, VI) is that this trend tells the kinds of pretraining apart, while
accuracy, robustness and entropy do not. A run is one finetuning of one model.

Tensors first, tables after. Tables are those of notebook 08_iav: `scores` (model, kind, seed,
map, image, layer, head, score) and `slopes` (model, kind, seed, map, slope, low, high).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from relevit.evaluate.intervals import covariances, estimate, interval, mean_interval

RUN = ["model", "kind", "seed", "map"]
SUPERVISED, SELF_SUPERVISED = "supervised", "self-supervised"
KINDS = (SUPERVISED, SELF_SUPERVISED)
DIFFERENCE = "difference"  # self-supervised minus supervised
ORIGINAL = "original"
PLACE = ["image", "layer", "head"]
MODEL = ["kind", "model", "seed"]


# Tensors


def slopes(scores: Float[Tensor, "batch layers heads"]) -> Float[Tensor, " batch"]:
    """Slope over depth of each image's mean score of a layer (see the module).

    Their mean over images is the slope of global-IAV, because both are linear in the scores.
    """
    depth = torch.linspace(-0.5, 0.5, scores.shape[1], dtype=scores.dtype, device=scores.device)
    return scores.mean(dim=2) @ depth / depth.square().sum()


# Tables


def score_rows(
    scores: Float[Tensor, "images layers heads"], labels: Int[Tensor, " images"]
) -> pd.DataFrame:
    """One row an image, layer and head, in this order: image, label, layer, head, score.

    Images are counted from 0, layers and heads from 1; `score_tensor` is the way back.
    """
    image, layer, head = np.indices(scores.shape).reshape(3, -1)
    return pd.DataFrame(
        {
            "image": image,
            "label": labels.cpu().numpy()[image],
            "layer": layer + 1,
            "head": head + 1,
            "score": scores.detach().cpu().numpy().ravel(),
        }
    )


def score_tensor(rows: pd.DataFrame) -> Float[Tensor, "images layers heads"]:
    """The scores of one run and map as a float64 tensor; images, layers, heads in rising order."""
    shape = [rows[name].nunique() for name in PLACE]
    values = rows.sort_values(PLACE)["score"].to_numpy(np.float64)
    return torch.from_numpy(values.reshape(shape).copy())


def image_slopes(scores: pd.DataFrame) -> pd.DataFrame:
    """`slopes` of every image of every run: model, kind, seed, map, image, slope."""
    parts = []
    for run, rows in scores.groupby(RUN, sort=False, observed=True):
        found = slopes(score_tensor(rows)).numpy()
        named = dict(zip(RUN, run, strict=True))
        parts.append(
            pd.DataFrame({**named, "image": np.sort(rows["image"].unique()), "slope": found})
        )
    return pd.concat(parts, ignore_index=True)


def trend_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Slope of global-IAV of every run and map, with its interval over images.

    Columns: model, kind, seed, map, slope, low, high, in the order of the table `scores`.
    """
    rows = []
    for run, part in image_slopes(scores).groupby(RUN, sort=False, observed=True):
        values = torch.tensor(part["slope"].to_numpy())
        rows.append((*run, float(values.mean()), *mean_interval(values)))
    return pd.DataFrame(rows, columns=[*RUN, "slope", "low", "high"])


# Kinds of pretraining


def kind_intervals(per_image: pd.DataFrame) -> pd.DataFrame:
    """Slopes of both kinds and their difference, with intervals over images and seeds.

    `per_image` is the table of `image_slopes`. A kind is the mean over its models, which see the
    same images and have seeds of their own; degrees of freedom over seeds by Satterthwaite. The
    interval covers other images and other finetunings of these very models (a model of one seed
    adds none of the latter). It does not cover other pretrained models: with a few of each kind
    nothing can.
    Columns: map, kind (supervised, self-supervised, difference: the latter minus the former),
    models, slope, low, high.
    """
    parts = []
    for name, rows in per_image.groupby("map", sort=False, observed=True):
        runs = rows.pivot(index=MODEL, columns="image", values="slope")
        models = runs.mean(axis=1).groupby(level=MODEL[:2])
        means, several = models.mean(), models.size() > 1
        of_seeds = (models.var() / models.size()).fillna(0.0)
        shared = _between_models(runs)
        weights = pd.DataFrame({kind: means.index.get_level_values(0) == kind for kind in KINDS})
        weights = (weights / weights.sum()).set_index(means.index)
        weights[DIFFERENCE] = weights[SELF_SUPERVISED] - weights[SUPERVISED]
        for kind, weight in weights.items():
            each = (weight**2 * of_seeds)[several]
            freedom = each.sum() ** 2 / (each**2 / (models.size() - 1)).sum() if each.any() else 1
            ends = interval(
                weight @ means,
                seeds=each.sum(),
                freedom=freedom,
                images=max(weight @ shared @ weight, 0.0),
                images_freedom=runs.shape[1] - 1,
            )
            parts.append((name, kind, int((weight != 0).sum()), weight @ means, *ends))
    return pd.DataFrame(parts, columns=["map", "kind", "models", "slope", "low", "high"])


def _between_models(runs: pd.DataFrame) -> pd.DataFrame:
    """Covariance over images of two models' means, of one model of two of its seeds."""
    found = covariances(runs.to_numpy())
    seeds = runs.groupby(level=MODEL[:2]).transform("size").to_numpy()
    found[np.diag(seeds > 1)] = np.nan
    by_run = pd.DataFrame(found, runs.index, runs.index)
    by_model = by_run.groupby(level=MODEL[:2]).mean()
    return by_model.T.groupby(level=MODEL[:2]).mean()


def separations(properties: pd.DataFrame, kinds: pd.Series) -> pd.DataFrame:
    """Which properties of the runs tell the kinds apart, one row a property.

    `properties` has one column a property (slope, accuracy, entropy ...) and one row a run, `kinds`
    the same index. Columns: property; `above`, the smallest self-supervised value minus the
    largest supervised one; `below`, the same of the negative values; `auc`, the area under the ROC
    curve: the share of pairs of a self-supervised and a supervised run in which the former is
    higher, ties as half. So a property separates the kinds when `above` or `below` is positive,
    and an auc of 0.5 is no order at all. Runs of one model are no independent evidence.
    """
    from sklearn.metrics import roc_auc_score

    chosen, rows = kinds == SELF_SUPERVISED, []
    for name, values in properties.items():
        high, low = values[chosen], values[~chosen]
        auc = roc_auc_score(chosen, values)
        rows.append((name, high.min() - low.max(), low.min() - high.max(), auc))
    return pd.DataFrame(rows, columns=["property", "above", "below", "auc"])


def run_properties(
    models: pd.DataFrame, shift: pd.DataFrame, entropy: pd.DataFrame, slopes: pd.DataFrame
) -> tuple[pd.DataFrame, pd.Series]:
    """What could tell the kinds apart, one row a run, and each run's kind.

    Source: IAV Sec. VI, which names these four. Columns: `accuracy_pct` (validation top-1 after
    the last epoch), `robustness_pct` (mean top-1 over all corruptions and levels),
    `entropy_nats` (mean over images, layers and heads), `iav_slope` (change of the mean IA-score
    with SmoothGrad over the depth). Runs that lack one of them are left out.
    """
    run = ["model", "seed"]
    last = models[models["epoch"] == models["epoch"].max()].set_index(run)
    harder = shift[shift["corruption"] != "none"]
    smooth = slopes[slopes["map"] == "smoothgrad"].set_index(run)
    table = pd.DataFrame(
        {
            "accuracy_pct": last["validation_top1_pct"],
            "robustness_pct": harder.groupby(run)["top1_pct"].mean(),
            "entropy_nats": entropy.groupby(run)["entropy"].mean(),
            "iav_slope": smooth["slope"],
        }
    ).dropna()
    return table, last["kind"].reindex(table.index)


def change_after(robustvit: pd.DataFrame) -> pd.DataFrame:
    """What RobustViT's finetuning does to the heads' scores, one row a map.

    `robustvit` has the columns run, map, image, layer, head, score; the run `original` is the
    model before. Columns: map, before (mean score over images and heads), change (mean over
    finetuned runs), low, high (95 % over images and runs).
    """
    means = robustvit.groupby(["map", "run", "image"], sort=False)["score"].mean()
    rows = []
    for name, part in means.groupby("map", sort=False):
        wide = part.droplevel("map").unstack("image")
        found = estimate([(wide.drop(ORIGINAL) - wide.loc[ORIGINAL]).to_numpy()])
        rows.append((name, wide.loc[ORIGINAL].mean(), found.mean, found.low, found.high))
    return pd.DataFrame(rows, columns=["map", "before", "change", "low", "high"])

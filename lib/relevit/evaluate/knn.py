"""k nearest neighbours in the model's features: does finetuning help on classes it never saw?

Source: RobustViT supp. M, k = 1 and 10 on the [CLS] representation with the head removed. The
paper names neither distance nor rule for ties. Here neighbours are those with the largest
cosine, the usual choice for features of transformers (DINO's k-NN among them): only the
direction of a vector counts. Each neighbour has one vote, and the nearest decides a tie.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, normalize

from relevit.base.device import Precision
from relevit.base.files import from_project
from relevit.config import KnnParams
from relevit.data.cutouts import Cutouts
from relevit.data.drawings import UNSEEN
from relevit.data.image_set import ImageSet
from relevit.data.real.catalogue import CATALOGUE
from relevit.evaluate import robustness
from relevit.evaluate.frozen_features import class_features
from relevit.evaluate.intervals import estimate
from relevit.evaluate.robustness import ORIGINAL
from relevit.models.spec import ModelSpec, View

Metric = Literal["cosine", "euclidean"]
KNOWN = "train"  # recipe of the drawings with known classes
# Those to classify: of the same kind, as in the paper's data sets, and shifted.
ASKED = ("val", "objectnet")
BATCH = 50  # images; the vectors do not depend on it beyond rounding
CELL = 7  # pixels
FLOOR = 20_000  # images whose colours are compared at most: 3,072 numbers each
SPECIES = re.compile(r"\d{5}(_[^_]+){7}")  # 00000_Animalia_..._Lumbricus_terrestris
AT_ONCE = 2**25  # similarities held in memory
# RobustViT supp. M: mean over seven models on iNat2021 mini; k -> change in points.
PAPER_CHANGES_PTS = {1: 5.37, 10: 5.28}


def open_data(cfg: KnnParams, size: int) -> tuple[ImageSet, dict[str, ImageSet]]:
    """Images with known classes, and by name the sets to classify, `size` pixels a side.

    `cutouts` draws things (`relevit.data.drawings`); real data sets are read and sampled, each
    picture cut to its middle as for ImageNet at 224 px (the papers are silent on this).
    """
    if cfg.data == "cutouts":
        drawn = partial(Cutouts(drawings=UNSEEN).pictures, seed=cfg.seed, size=size)
        known = drawn(KNOWN, cfg.train_images).kept()
        return known, {name: drawn(name, cfg.test_images).kept() for name in ASKED}
    if not cfg.data_root:
        raise ValueError(
            f"10_knn: data {cfg.data!r} without data_root; give the folder that holds the data "
            "set, or data: cutouts, which needs none"
        )
    view = View(resize=round(size * 256 / 224), crop=size, interpolation="bicubic")
    key = cfg.data.removesuffix("_coarse")
    labels = {"labels": "coarse"} if key != cfg.data else {}
    root = from_project(cfg.data_root)
    known, asked = (CATALOGUE[key].read(root, view, call=call, **labels) for call in (0, 1))
    if known.classes != asked.classes:
        raise ValueError(
            f"10_knn: the two parts of {cfg.data} in {root} have folders of other classes; "
            f"{CATALOGUE[key].remedy} whole"
        )
    known, asked = known.sample(cfg.train_images, cfg.seed), asked.sample(cfg.test_images, cfg.seed)
    return known, {cfg.data: asked}


def pixels_of(images: ImageSet) -> Iterator[UInt8[Tensor, "batch 3 side side"]]:
    """The pictures alone, in batches that fit a model."""
    return (batch.images for batch in images.batches(BATCH))


def short_names(classes: Iterable[str]) -> list[str]:
    """Names for captions: iNaturalist's species without number and taxa, others as they are."""
    return [" ".join(name.split("_")[-2:]) if SPECIES.fullmatch(name) else name for name in classes]


def nearest(
    asked: Float[Tensor, "asked width"],
    known: Float[Tensor, "known width"],
    k: int,
    metric: Metric = "cosine",
) -> Int[Tensor, "asked k"]:
    """Places in `known` of the k nearest vectors to each asked one, the nearest first.

    Raises: ValueError for k outside 1..known.
    """
    if not 1 <= k <= len(known):
        raise ValueError(f"nearest: k = {k} with {len(known)} known vectors; use 1..{len(known)}")
    lengths = 0.0
    if metric == "cosine":
        asked, known = normalize(asked, dim=1), normalize(known, dim=1)
    else:  # half the squared distance is |asked|^2 / 2, the same for all, less what follows
        lengths = known.square().sum(dim=1) / 2
    rows = max(1, AT_ONCE // len(known))
    parts = [(part @ known.T - lengths).topk(k, dim=1).indices for part in asked.split(rows)]
    return torch.cat(parts)


def vote(labels: Int[Tensor, "asked k"]) -> Int[Tensor, " asked"]:
    """The commonest label among the neighbours, given nearest first; the nearest decides a tie.

    scikit-learn's k-NN gives a tie to the smallest label instead, which means nothing here.
    """
    k = labels.shape[1]
    same = (labels[:, :, None] == labels[:, None, :]).sum(dim=2)  # votes of each one's label
    places = torch.arange(k, device=labels.device)
    winner = (same * k - places).argmax(dim=1)  # whole numbers: a vote outweighs any place
    return labels.gather(1, winner[:, None])[:, 0]


def knn_answers(
    known: Float[Tensor, "known width"],
    known_labels: Int[Tensor, " known"],
    asked: Float[Tensor, "asked width"],
    asked_labels: Int[Tensor, " asked"],
    neighbours: Sequence[int],
    metric: Metric = "cosine",
) -> pd.DataFrame:
    """Classify `asked` for each number of neighbours; one row an image and k.

    Columns: k, index, label, prediction. One search serves every k. Errors as `nearest`.
    """
    places = nearest(asked, known, max(neighbours), metric)
    labels = known_labels.to(places.device)[places]
    rows = pd.DataFrame({"index": np.arange(len(asked)), "label": asked_labels.cpu().numpy()})
    parts = [rows.assign(prediction=vote(labels[:, :k]).cpu().numpy(), k=k) for k in neighbours]
    return pd.concat(parts, ignore_index=True)[["k", "index", "label", "prediction"]]


def pixel_features(images: ImageSet) -> Float[Tensor, "images width"]:
    """Mean colours of small squares, CELL pixels a side: what k-NN can do without a model."""
    parts = [avg_pool2d(pixels.float(), CELL).flatten(1) for pixels in pixels_of(images)]
    colours = torch.cat(parts)
    return colours - colours.mean(dim=1, keepdim=True)


def colour_answers(
    known: ImageSet, asked: dict[str, ImageSet], neighbours: Sequence[int], seed: int
) -> pd.DataFrame:
    """`knn_answers` by `pixel_features`, with `model_run` and `data`; a sample of large sets."""
    some = known if len(known) <= FLOOR else known.sample(FLOOR, seed)
    colours, parts = pixel_features(some), []
    for name, images in asked.items():
        images = images if len(images) <= FLOOR else images.sample(FLOOR, seed)
        features = pixel_features(images)
        rows = knn_answers(colours, some.labels, features, images.labels, neighbours)
        parts.append(rows.assign(model_run="colours", data=name))
    return pd.concat(parts)


def changed_examples(
    answers: pd.DataFrame, model_run: str, data: str, k: int, count: int
) -> tuple[list[int], list[int]]:
    """Images that a finetuned run corrects and that it ruins: the first `count` of each."""
    rows = _as_predictions(answers[answers["k"] == k])
    corrected, ruined = robustness.changed_examples(rows, model_run, data)
    return corrected[:count], ruined[:count]


def same_answers_pct(
    model: nn.Module,
    spec: ModelSpec,
    known: ImageSet,
    asked: ImageSet,
    precision: Precision,
    k: int = 1,
) -> float:
    """Share of `asked` that get the same answer in `precision` as in float32, in percent.

    Rounding moves every vector a little, and with it the order of near neighbours.
    """
    answers = []
    for number_format in ("float32", precision):
        vectors = [
            class_features(model, spec, pixels_of(images), number_format)
            for images in (known, asked)
        ]
        rows = knn_answers(vectors[0], known.labels, vectors[1], asked.labels, [k])
        answers.append(rows["prediction"])
    return 100.0 * float((answers[0] == answers[1]).mean())


def knn_table(answers: pd.DataFrame) -> pd.DataFrame:
    """Accuracy in percent: model_run, data, k, images, accuracy_pct.

    `answers` are those of `knn_answers` with `model_run` and `data` added.
    """
    right = answers.assign(accuracy_pct=100.0 * (answers["label"] == answers["prediction"]))
    groups = right.groupby(["model_run", "data", "k"], sort=False)["accuracy_pct"]
    return groups.agg(images="size", accuracy_pct="mean").reset_index()


def knn_changes(answers: pd.DataFrame) -> pd.DataFrame:
    """What finetuning changed, image by image, with its interval; one row a data set and k.

    Columns: data, k, images, seeds, original_pct, ours_pct (mean over the finetuned runs),
    change_pts, change_std_pts (sample deviation over the runs, NaN for one), low_pts, high_pts and
    standard_error_pts (of the change of one run over images, mean over the runs).
    Raises: ValueError without 'original', without another run, or when runs hold other images.
    """
    rows = []
    for (data, k), part in answers.groupby(["data", "k"], sort=False):
        pairs = robustness.paired_changes(_as_predictions(part))
        wide = pairs.pivot(index="index", columns="model_run", values="change_top1_pts")
        found = estimate([wide.T.to_numpy()])
        original = part[part["model_run"] == ORIGINAL]
        before = 100.0 * (original["label"] == original["prediction"]).mean()
        change = (before, before + found.mean, found.mean, found.std, found.low, found.high)
        rows.append((data, k, *wide.shape, *change, wide.sem().mean()))
    columns = ["data", "k", "images", "seeds", "original_pct", "ours_pct", "change_pts"]
    columns += ["change_std_pts", "low_pts", "high_pts", "standard_error_pts"]
    return pd.DataFrame(rows, columns=columns)


def _as_predictions(answers: pd.DataFrame) -> pd.DataFrame:
    """As `robustness` has them; the rank of a label that is not the answer is unknown: 1."""
    wrong = answers["label"] != answers["prediction"]
    return answers.assign(dataset=answers["data"], label_rank=wrong.astype(int))

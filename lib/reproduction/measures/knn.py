"""k nearest neighbours in the model's features: does finetuning help on classes it never saw?

Source: RobustViT supp. M. `knn_answers` is in `relevit.evaluate.frozen_features`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8
from torch import Tensor

from habitats.cutouts import Cutouts
from habitats.drawings import UNSEEN
from habitats.real.catalogue import CATALOGUE
from relevit.base.files import from_project
from relevit.data.image_set import ImageSet
from relevit.evaluate.frozen_features import knn_answers
from relevit.evaluate.intervals import estimate, shared_variance
from relevit.models.spec import View
from reproduction.params.cells import Params

KNOWN_VECTORS = "known"  # their name among the vectors
KNOWN = "train"  # recipe of the drawings with known classes
# Those to classify: of the same kind, as in the paper's data sets, and shifted.
ASKED = ("val", "objectnet")
BATCH = 50  # images; the vectors do not depend on it beyond rounding
PROBE = 0  # stands for k where no neighbour votes: a linear probe
SEED = 0  # draws the images
SPECIES = re.compile(r"\d{5}(_[^_]+){7}")  # 00000_Animalia_..._Lumbricus_terrestris
# RobustViT supp. M: mean over seven models on iNat2021 mini; k -> change in points.
PAPER_CHANGES_PTS = {1: 5.37, 10: 5.28}
KINDS = {"original": "original", "seed": "with", "without": "without"}  # of `seed0`, `without0`
WORDS = {"change_pts": "change, points", "low_pts": "from", "high_pts": "to"}

Model = TypeVar("Model")
Vectors = Mapping[str, Mapping[str, Float[Tensor, "images features"]]]  # by run and images


def open_data(cfg: Params, size: int) -> tuple[ImageSet, dict[str, ImageSet]]:
    """Images with known classes, and by name the sets to classify, `size` pixels a side.

    `cutouts` draws things (`habitats.drawings`); real data sets are read and sampled, each
    picture cut to its middle as for ImageNet at 224 px (the papers are silent on this).
    """
    if cfg.knn_data == "cutouts":
        drawn = partial(Cutouts(drawings=UNSEEN).pictures, seed=SEED, size=size)
        known = drawn(KNOWN, cfg.known_images).kept()
        return known, {name: drawn(name, cfg.asked_images).kept() for name in ASKED}
    if not cfg.knn_root:
        raise ValueError(
            f"03a_robustness: knn_data {cfg.knn_data!r} without knn_root; give the folder that "
            "holds the data set, or knn_data: cutouts, which needs none"
        )
    view = View(resize=round(size * 256 / 224), crop=size, interpolation="bicubic")
    key = cfg.knn_data.removesuffix("_coarse")
    labels = {"labels": "coarse"} if key != cfg.knn_data else {}
    root = from_project(cfg.knn_root)
    known, asked = (CATALOGUE[key].read(root, view, call=call, **labels) for call in (0, 1))
    if known.classes != asked.classes:
        raise ValueError(
            f"03a_robustness: the two parts of {cfg.knn_data} in {root} have folders of other "
            "classes; "
            f"{CATALOGUE[key].remedy} whole"
        )
    known, asked = known.sample(cfg.known_images, SEED), asked.sample(cfg.asked_images, SEED)
    return known, {cfg.knn_data: asked}


def pixels_of(images: ImageSet) -> Iterator[UInt8[Tensor, "batch 3 side side"]]:
    """The pictures alone, in batches that fit a model."""
    return (batch.images for batch in images.batches(BATCH))


def short_names(classes: Iterable[str]) -> list[str]:
    """Names for captions: iNaturalist's species without number and taxa, others as they are."""
    return [" ".join(name.split("_")[-2:]) if SPECIES.fullmatch(name) else name for name in classes]


def tested(rows: Mapping[int, Mapping[str, Model]]) -> dict[str, Model]:
    """The models whose vectors are tested, by the name of their run, from those of each seed.

    `original`, which all seeds share, and of every seed `seed<N>` and its twin `without<N>`.
    """
    found: dict[str, Model] = {}
    for seed, of in rows.items():
        found.setdefault("original", of["original"])
        found |= {f"seed{seed}": of["with"], f"without{seed}": of["without"]}
    return found


def answers(
    vectors: Vectors, known: ImageSet, asked: Mapping[str, ImageSet], neighbours: Sequence[int]
) -> pd.DataFrame:
    """`knn_answers` of every run to every set, with `model_run` and `data`.

    `vectors` are those of `known` and of each of `asked`, by the run's name.
    """
    return pd.concat(
        knn_answers(of[KNOWN_VECTORS], known.labels, of[name], part.labels, neighbours).assign(
            model_run=run, data=name
        )
        for run, of in vectors.items()
        for name, part in asked.items()
    )


def probed(vectors: Vectors, known: ImageSet, asked: Mapping[str, ImageSet]) -> pd.DataFrame:
    """What a linear probe on the same vectors answers, as `answers`; its k is PROBE.

    A new head for the known classes, and nothing else, is trained on them. Ten thousand classes
    would take days.
    """
    from sklearn.linear_model import LogisticRegression

    parts = []
    for run, of in vectors.items():
        head = LogisticRegression(max_iter=2000).fit(of[KNOWN_VECTORS].cpu(), known.labels)
        for name, part in asked.items():
            told = {"label": part.labels, "prediction": head.predict(of[name].cpu())}
            told |= {"index": range(len(part)), "k": PROBE, "model_run": run, "data": name}
            parts.append(pd.DataFrame(told))
    return pd.concat(parts)


def told_test(k: int) -> str:
    """What a test of the vectors is called: by how many neighbours vote, or a linear probe."""
    return "linear probe" if k == PROBE else f"k = {k}"


def by_model(table: pd.DataFrame) -> pd.DataFrame:
    """`knn_table` as the mean of each kind of model: data, test, model, accuracy_pct, images."""
    tests = table.assign(test=table["k"].map(told_test))
    tests["model"] = tests["model_run"].str.rstrip("0123456789").map(KINDS)
    groups = tests.groupby(["model", "data", "test"], sort=False)
    return groups[["accuracy_pct", "images"]].mean().reset_index()


def knn_table(answers: pd.DataFrame) -> pd.DataFrame:
    """Accuracy in percent: model_run, data, k, images, accuracy_pct.

    `answers` are those of `knn_answers` with `model_run` and `data` added.
    """
    right = answers.assign(accuracy_pct=100.0 * (answers["label"] == answers["prediction"]))
    groups = right.groupby(["model_run", "data", "k"], sort=False)["accuracy_pct"]
    return groups.agg(images="size", accuracy_pct="mean").reset_index()


def knn_changes(answers: pd.DataFrame, less: str = "original") -> pd.DataFrame:
    """What finetuning changed, image by image, with its interval; one row a data set and k.

    Each `seed<N>` less the `original`, or less its own twin `without<N>`.
    Columns: data, k, images, seeds, change_pts (mean over the seeds), change_std_pts
    (sample deviation over the seeds, NaN for one), low_pts, high_pts and standard_error_pts
    (what images add to the error of the mean over seeds).
    Raises: KeyError without the other, ValueError without a seed or when runs hold other images.
    """
    rows = []
    for (data, k), part in answers.groupby(["data", "k"], sort=False):
        right = part.assign(right=100.0 * (part["label"] == part["prediction"]))
        wide = right.pivot(index="index", columns="model_run", values="right")
        seeds = [name for name in wide if name.startswith("seed")]
        others = [less if less in wide else name.replace("seed", less) for name in seeds]
        runs = [(wide[seeds].to_numpy() - wide[others].to_numpy()).T]
        if not seeds or np.isnan(runs[0]).any():
            raise ValueError(
                f"knn_changes: {len(seeds)} seeds, {int(wide.isna().sum().sum())} answers missing; "
                "give answers of each run to the same images"
            )
        rows.append((data, k, *runs[0].T.shape, *estimate(runs), shared_variance(runs) ** 0.5))
    columns = ["data", "k", "images", "seeds", "change_pts", "change_std_pts", "low_pts"]
    return pd.DataFrame(rows, columns=[*columns, "high_pts", "standard_error_pts"])


def changes_in_words(sides: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """`knn_changes` for people, by what each is less, beside the paper's mean change."""
    told = {
        name: table.set_index(["data", "k", "images", "seeds"])[list(WORDS)].rename(columns=WORDS)
        for name, table in sides.items()
    }
    found = pd.concat(told, axis=1)
    found["paper, less original", ""] = found.index.get_level_values("k").map(PAPER_CHANGES_PTS)
    return found.rename(told_test, level="k").rename_axis(index={"k": "test"})

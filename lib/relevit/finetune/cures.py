"""Cures: what else the same masks can train, each as an arm of one table, and what each found.

All arms start from one original, with the same images, steps, crops and flips; an arm changes what
it is named for, and has a learning rate of its own. Along an axis some of them are followed: kinds
of masks by their price, images of a class, and how much the original leans on its context.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from relevit.base.stages import preset_file, read_stage
from relevit.config import BenchmarkParams, CuresParams, FinetuneParams
from relevit.config.words import MaskSource
from relevit.data.benchmark import Benchmark
from relevit.data.composing import home_family
from relevit.data.cutouts import SHIFTED_SETS
from relevit.finetune.runs import FailedError, Row, answers, read

ORIGINAL = "original"
OWN = "own"  # the world of the preset's own original
SET_AND_INDEX = ["dataset", "index"]


class Cure(NamedTuple):
    """What tells one run from another: the columns that its answers have."""

    arm: str
    masks: MaskSource
    images_per_class: int
    world: str
    seed: int


KEYS = list(Cure._fields)


def needs_masks(params: FinetuneParams) -> bool:
    """Whether a run would be another one with other masks."""
    looks = params.weight_relevance != 0
    return looks or params.augmentation != "none"


def cures(cfg: CuresParams) -> dict[Cure, Row]:
    """The runs of a preset's arms and axes, and the original of each world (`arm` is `original`).

    Raises: ValueError for parameters of an arm that 02_finetune does not have.
    """
    found: dict[Cure, Row] = {}
    if not cfg.arms:
        return found
    for seed in cfg.arm_seeds or cfg.seeds:
        found |= _runs(cfg, OWN, cfg.benchmark, seed, cfg.arms)
    followed = {name: cfg.arms[name] for name in cfg.followed}
    for seed in cfg.axis_seeds or cfg.arm_seeds or cfg.seeds:
        for masks in cfg.prices:
            found |= _runs(cfg, OWN, cfg.benchmark, seed, followed, masks=masks)
        for count in cfg.counts:
            found |= _runs(cfg, OWN, cfg.benchmark, seed, followed, images_per_class=count)
        for share in cfg.home_shares:
            world = cfg.benchmark.model_copy(update={"home_share": share})
            found |= _runs(cfg, f"home {share:g}", world, seed, followed)
    return found


def _runs(
    cfg: CuresParams,
    world: str,
    images: BenchmarkParams,
    seed: int,
    arms: Mapping[str, dict[str, Any]],
    **axis: Any,
) -> dict[Cure, Row]:
    asked = {key: getattr(cfg, key) for key in ("images_per_set", "looked_at")}
    asked["challenge"] = cfg.challenge_images
    base = read_stage(cfg, FinetuneParams, benchmark=images, seed=seed, **cfg.arm_settings)
    found = {}
    if not axis:
        first = Row(base, original=True, **asked)
        found[Cure(ORIGINAL, "annotated", 0, world, seed)] = first
    for arm, changes in arms.items():
        where = f"{preset_file(cfg.preset)}: 04_cures: arm {arm!r}"
        params = FinetuneParams.checked(base.model_dump() | changes | axis, where)
        if "masks" not in axis or needs_masks(params):
            key = Cure(arm, params.masks, params.images_per_class, world, seed)
            found[key] = Row(params, **asked)
    return found


def study(found: Mapping[Cure, Row]) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, str]]:
    """What the runs answered, their figures, and why others have none.

    Returns `answers`, one row a run and test image (KEYS, dataset, index, label, right), `figures`,
    one row a run (KEYS, lr, and the means of `runs.Row`), and the reasons of runs that failed.
    """
    parts, figures, lost = [], [], {}
    for key, row in found.items():
        try:
            made = read(row)
        except FailedError as error:
            lost[row.name] = str(error)
            continue
        figures.append(key._asdict() | dict(made["figures"]) | {"lr": made["lr"]})
        seen = answers(row)
        seen = seen.assign(**key._asdict(), right=seen["label_rank"] == 0)
        parts.append(seen[[*KEYS, *SET_AND_INDEX, "label", "right"]])
    return pd.concat(parts, ignore_index=True), pd.DataFrame(figures), lost


def worst(seen: pd.DataFrame, bench: Benchmark) -> pd.Series:
    """Top-1 in percent of the class, and of the home whose five classes, that a model knows least.

    Mean over seeds of each run's worst, on the shifted sets: a mean over classes hides whom a cure
    leaves behind.
    """
    shown = seen[seen["dataset"].isin(SHIFTED_SETS)]
    groups = {"worst_class_pct": shown["label"]}
    if bench.homes() is not None:
        groups["worst_home_pct"] = shown["label"].map(home_family)
    found = {
        name: 100 * shown.groupby(["seed", by])["right"].mean().groupby("seed").min()
        for name, by in groups.items()
    }
    return pd.DataFrame(found).mean()

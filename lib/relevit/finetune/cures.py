"""Cures: what else the same masks can train, each as an arm of one table, and what each found.

All arms start from one original, with the same images, steps, crops and flips; an arm changes what
it is named for, and has a learning rate of its own. Along an axis some of them are followed: kinds
of masks by their price, images of a class, and how much the original leans on its context.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from copy import deepcopy
from importlib.resources import files
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from relevit.base.stages import preset_file, read_stage
from relevit.config import BenchmarkParams, CuresParams, FinetuneParams
from relevit.config.words import MaskSource
from relevit.data.batch import Batch
from relevit.data.benchmark import Benchmark
from relevit.data.composing import home_family
from relevit.data.cutouts import SHIFTED_SETS
from relevit.evaluate.paired import ORIGINAL, difference
from relevit.finetune.augmenting import augmented, backgrounds
from relevit.finetune.controls import OWN
from relevit.finetune.loop import only, train_step
from relevit.finetune.runs import FailedError, Row, answers, original_of_world, read
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import make_optimizer
from relevit.models.spec import ModelSpec

SET_AND_INDEX = ["dataset", "index"]


class Cure(NamedTuple):
    """What tells one run from another: the columns that its answers have."""

    arm: str
    masks: MaskSource
    images_per_class: int
    world: str
    seed: int


KEYS = list(Cure._fields)
ENDS = {"pts": "change_pts", "low_pts": "low_pts", "high_pts": "high_pts"}


def needs_masks(params: FinetuneParams) -> bool:
    """Whether a run would be another one with other masks."""
    return params.weight_relevance != 0 or params.augmentation != "none"


def cures(cfg: CuresParams) -> dict[Cure, Row]:
    """The runs of a preset's arms and axes, and the original of each world (`arm` is `original`).

    Raises: ValueError for parameters of an arm that 02_finetune does not have.
    """
    found: dict[Cure, Row] = {}
    if not cfg.arms:
        return found
    where = f"{preset_file(cfg.preset)}: 04_cures: worlds"
    followed = {name: cfg.arms[name] for name in cfg.followed}
    for seed in cfg.arm_seeds or cfg.seeds:
        found |= _runs(cfg, OWN, cfg.benchmark, seed, cfg.arms)
        for masks in cfg.prices:
            found |= _runs(cfg, OWN, cfg.benchmark, seed, followed, masks=masks)
        for count in cfg.counts:
            found |= _runs(cfg, OWN, cfg.benchmark, seed, followed, images_per_class=count)
        for changes in cfg.worlds:
            images = BenchmarkParams.checked(cfg.benchmark.model_dump() | changes, where)
            found |= _runs(cfg, _named(changes), images, seed, followed)
    return found


def _named(world: Mapping[str, float]) -> str:
    return ", ".join(f"{key.partition('_')[0]} {value:g}" for key, value in world.items())


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
        first = original_of_world(base, **asked)
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


def compared(answers: pd.DataFrame, figures: pd.DataFrame, bench: Benchmark) -> pd.DataFrame:
    """One row an arm, kind of masks, images a class and world, of what `study` returned.

    `change_pts` against the original and `lead_pts` against `relevance` with the same masks and
    images are of the shifted sets, with their intervals, and `val_pts` of `val`; all as
    `paired.difference`. Further `seeds`, `seeds_better` than `relevance`, `worst_class_pct` and
    `worst_home_pct`, and means of the figures.
    """
    found = []
    for group, seen in answers[answers["arm"] != ORIGINAL].groupby(KEYS[:-1], sort=False):
        row = dict(zip(KEYS, group, strict=False))
        here = answers[answers["world"] == row["world"]]
        same = (here["masks"] == row["masks"]) & (
            here["images_per_class"] == row["images_per_class"]
        )
        before, rival = here[here["arm"] == ORIGINAL], here[same & (here["arm"] == "relevance")]
        row |= difference(seen, before).drop("seeds_better")
        row["val_pts"] = difference(seen, before, ["val"])["change_pts"]
        if row["arm"] != "relevance" and len(rival):
            lead = difference(seen, rival)
            row |= {f"lead_{end}": lead[key] for end, key in ENDS.items()}
            row["seeds_better"] = lead["seeds_better"]
        mine = figures[(figures[KEYS[:-1]] == list(group)).all(axis=1)]
        means = mine[mine["seed"].isin(seen["seed"])].mean(numeric_only=True)
        found.append(row | worst(seen, bench) | means.drop(["seed", "images_per_class"]).to_dict())
    return pd.DataFrame(found)


def worst(seen: pd.DataFrame, bench: Benchmark) -> dict[str, float]:
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
    return pd.DataFrame(found).mean().to_dict()


def step_price(
    network: nn.Module, spec: ModelSpec, train: Batch, settings: FinetuneSettings, steps: int = 3
) -> dict[str, float]:
    """What a step of training costs: `seconds`, the median of some, and `memory_mib`.

    The memory is what autograd keeps for the backward pass, each storage once: nearly all that a
    step needs beside weights and optimiser. `network` is left as it is.
    """
    network, others = deepcopy(network).train(), backgrounds(train, settings.augmentation)
    optimizer, kept, taken = make_optimizer(network, settings), {}, []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()  # held, as a place that is free is used again
        kept[storage.data_ptr()] = storage
        return tensor

    weights = {weight.untyped_storage().data_ptr() for weight in network.parameters()}
    batch = train.select(range(len(train))[: settings.batch_size])
    with only(network, optimizer.param_groups[0]["params"]):
        for step in range(steps + 1):
            begun, rng = perf_counter(), np.random.default_rng(step)
            changed = augmented(batch, settings.augmentation, others, rng)
            with saved_tensors_hooks(keep, lambda kept: kept) if step == 0 else nullcontext():
                train_step(network, spec, optimizer, changed, rng, settings)
            taken.append(perf_counter() - begun)
    used = sum(part.nbytes() for place, part in kept.items() if place not in weights)
    return {"seconds": float(np.median(taken[1:])), "memory_mib": used / 2**20}


def of_study(question: str = "cures") -> pd.DataFrame:
    """What `make study` came to: `cures` by `compared`, `maps` by `variants.compared`.

    Five seeds, 40 classes of things, the preset's own original; made once. Source: docs/cures.md
    (on a GPU in float32) and docs/maps.md (on a CPU in mixed precision).
    """
    path = files("relevit") / "assets" / "data" / f"{question}_study.csv"
    with path.open(encoding="utf-8") as table:
        return pd.read_csv(table)

"""With and without: the same finetuning, images and steps, once with the relevance terms.

The control of a setting is that setting with the weight of the relevance terms at 0. What the
method adds is the difference of the two, and not what changed since the original: the class term
and the images alone change a model too. RobustViT's Table 4 leaves out one loss at a time, and has
no row without both relevance losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from relevit.base.stages import preset_file, read_stage
from relevit.config import BenchmarkParams, FinetuneParams, RobustnessParams, SegmentationParams
from relevit.data.benchmark import open_benchmark
from relevit.evaluate.paired import ORIGINAL
from relevit.finetune.runs import Row, answers, original, original_of_world, own_runs, read

CONTROL = {"weight_relevance": 0.0}
OURS = "ours"  # the arm of the preset's own settings
OWN = "own"  # the world of the preset's own original


class Model(NamedTuple):
    """What tells one model that is compared from another: columns of the tables."""

    world: str
    seed: int
    arm: str
    relevance: bool


RUN = list(Model._fields)
ANSWER = ["dataset", "index", "label", "prediction", "label_rank"]


def compared(cfg: RobustnessParams) -> dict[Model, Row]:
    """The original of each world and seed, and what is finetuned from it: every arm twice.

    The preset's own world has all arms; those of `home_shares` have one, and an original a seed.
    Raises: ValueError for home shares where the preset's images have no homes, and for parameters
    of an arm that 02_finetune does not have.
    """
    data = cfg.benchmark.data
    if cfg.home_shares and data != "habitats":
        raise ValueError(
            f"{cfg.notebook}: home_shares {cfg.home_shares} with data {data!r}, whose classes have "
            "no homes; give data: habitats in common, or home_shares: []"
        )
    arms: dict[str, dict[str, Any]] = {OURS: {}} | cfg.arms
    found = {}
    for seed in cfg.seeds:
        chosen = arms if seed in (cfg.arm_seeds or cfg.seeds) else {OURS: {}}
        found |= _world(cfg, OWN, cfg.benchmark, seed, chosen)
    for share in cfg.home_shares:
        images, one = cfg.benchmark.model_copy(update={"home_share": share}), cfg.home_arm
        for seed in cfg.home_seeds or cfg.seeds:
            found |= _world(cfg, f"home {share:g}", images, seed, {one: arms[one]})
    return found


def with_and_without(cfg: SegmentationParams) -> dict[str, Row]:
    """The original, and the preset's own run of the first seed `with` relevance and `without`."""
    (own,) = own_runs(cfg, cfg.seeds[:1])
    control = Row(own.params.model_copy(update=CONTROL))
    return {ORIGINAL: original(cfg), "with": own, "without": control}


def _world(
    cfg: RobustnessParams,
    world: str,
    images: BenchmarkParams,
    seed: int,
    arms: Mapping[str, dict[str, Any]],
) -> dict[Model, Row]:
    asked = {key: getattr(cfg, key) for key in ("images_per_set", "looked_at")}
    asked["challenge"] = cfg.challenge_images
    base = read_stage(cfg, FinetuneParams, benchmark=images, seed=seed)
    found = {Model(world, seed, ORIGINAL, False): original_of_world(base, **asked)}
    for arm, changes in arms.items():
        where = f"{preset_file(cfg.preset)}: {cfg.notebook}: arm {arm!r}"
        for relevance in (True, False):
            values = base.model_dump() | changes | ({} if relevance else CONTROL)
            params = FinetuneParams.checked(values, where)
            found[Model(world, seed, arm, relevance)] = Row(params, **asked)
    return found


def study(models: Mapping[Model, Row]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the models answered, and their figures.

    Returns `answers`, one row a model and test image (RUN, ANSWER, right, in_a: whether the class
    is in A), and `figures`, one row a model (RUN, means of `relevance_shares`, and of Habitats what
    `backgrounds_challenge` finds). Raises: as `runs.read`.
    """
    parts, figures = [], []
    for model, row in models.items():
        figures.append(model._asdict() | dict(read(row)["figures"]))
        first = open_benchmark(row.params).split(model.seed)[0]
        found = answers(row)
        found = found.assign(
            **model._asdict(), right=found["label_rank"] == 0, in_a=found["label"].isin(first)
        )
        parts.append(found[[*RUN, *ANSWER, "right", "in_a"]])
    return pd.concat(parts, ignore_index=True), pd.DataFrame(figures)

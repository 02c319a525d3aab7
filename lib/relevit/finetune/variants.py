"""Variants of the method, each another choice in its parameters: rows, and what they answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from relevit.base.stages import preset_file, read_stage
from relevit.config import AblationsParams, FinetuneParams
from relevit.config.words import Variant
from relevit.data.benchmark import Benchmark
from relevit.evaluate.accuracies import COLUMNS, beside_original
from relevit.evaluate.paired import ORIGINAL, difference
from relevit.finetune import cures
from relevit.finetune.controls import OWN
from relevit.finetune.cures import ENDS, KEYS, Cure
from relevit.finetune.runs import FailedError, Row, answers, read

ANSWER = ["dataset", "index"]  # an image

# What each variant of the method changes in the preset's own settings, whose class term is that of
# ground_truth or of confidence, so that one of the two is full (RobustViT Table 4, supplement
# Tables 8 and 9; A2, A8, A11, B23; RV-42 for predicted_target). The temperature is the published
# one for DeiT-B.
VARIANTS: dict[Variant, dict[str, Any]] = {
    "full": {},
    "no_background": {"weight_background": 0.0},
    "no_foreground": {"weight_foreground": 0.0},
    "no_classification": {"weight_classification": 0.0},
    "only_background": {"weight_foreground": 0.0, "weight_classification": 0.0},
    "only_foreground": {"weight_background": 0.0, "weight_classification": 0.0},
    "only_classification": {"weight_relevance": 0.0},
    "ground_truth": {"class_term": "label"},
    "confidence": {"class_term": "confidence"},
    "predicted_target": {"target": "predicted", "class_term": "confidence"},
    "attention": {"explanation": "attention"},
    "rollout": {"explanation": "rollout"},
    "exact_gradient": {"options": {"exact_gradient": True}},
    "temperature": {"temperature": 0.65},
    "constant_rate": {"options": {"decay": 1.0}},
}


def variant(base: FinetuneParams, name: str, **others: Any) -> FinetuneParams:
    """The parameters of a variant of `base`, with `others` changed too.

    Raises: ValueError for an unknown variant or parameter.
    """
    if name not in VARIANTS:
        raise ValueError(f"variant: {name!r} is unknown; use some of {list(VARIANTS)}")
    values = base.model_dump() | VARIANTS[name] | others
    values["options"] = base.options.model_dump() | VARIANTS[name].get("options", {})
    return FinetuneParams.checked(values, f"variant {name}")


def ablations(cfg: AblationsParams) -> dict[str, dict[tuple, Row]]:
    """The runs of 05_ablations: `variants` by name and seed, `counts` by images a class, classes
    and seed, `rates` by factor and seed, `maps` as those of 04_cures. A row that two of them ask
    for is one run.

    The learning rate of all is the one that the rule chose for `full`, but where the preset gives
    another. Raises: ValueError for parameters of a row that 02_finetune lacks.
    """
    own = {"model": cfg.compared_model, "images_per_class": cfg.base_images}
    base = read_stage(cfg, FinetuneParams, **own)
    full = read_stage(cfg, FinetuneParams, **own | cfg.base_settings)
    full, seeds = variant(full, "full"), cfg.variant_seeds
    counts = {(n, full.classes) for n in (cfg.base_images, *cfg.images_per_class)}
    counts |= {(cfg.base_images, c) for c in cfg.classes}

    def row(name: str, **others: Any) -> Row:
        return Row(variant(full, name, **others), images_per_set=cfg.images_per_set)

    return {
        "variants": {(name, s): row(name, seed=s) for name in cfg.variants for s in seeds},
        "counts": {
            (n, c, s): row("full", images_per_class=n, classes=c, seed=s)
            for n, c in sorted(counts)
            for s in seeds
        },
        "rates": {
            (f, s): row("full", lr_factor=f, seed=s)
            for f in (1.0, *cfg.rate_factors)
            for s in seeds
        },
        "maps": dict(_maps(cfg, base)),
    }


def _maps(cfg: AblationsParams, own: FinetuneParams) -> Iterator[tuple[Cure, Row]]:
    """The runs on each of `maps`, and the original, with the figures of 04_cures."""
    asked = {key: getattr(cfg, key) for key in ("images_per_set", "looked_at")}
    asked |= {"challenge": cfg.challenge_images, "held_out": cfg.looked_at}
    for seed in cfg.variant_seeds:
        base = own.model_copy(update={"seed": seed})
        place = ("annotated", cfg.base_images, OWN, seed)
        yield Cure(ORIGINAL, *place), Row(base, original=True, **asked)
        for arm, changes in cfg.maps.items():
            where = f"{preset_file(cfg.preset)}: 05_ablations: map {arm!r}"
            values = base.model_dump() | cfg.map_settings | changes
            yield Cure(arm, *place), Row(FinetuneParams.checked(values, where), **asked)


def twin(cfg: AblationsParams, arm: str, **changes: Any) -> str | None:
    """The arm of `maps` that trains the same blocks on labels alone, with these changes."""
    plain = {"trained_blocks": None, "weight_relevance": None, "augmentation": "none"}
    wanted = {"trained_blocks": cfg.maps[arm].get("trained_blocks"), "weight_relevance": 0}
    twins = (
        name
        for name, own in cfg.maps.items()
        if {key: own.get(key, value) for key, value in plain.items()} == plain | wanted | changes
    )
    return next(twins, None)


def compared(
    cfg: AblationsParams, answers: pd.DataFrame, figures: pd.DataFrame, bench: Benchmark
) -> pd.DataFrame:
    """One row an arm of `maps`, as `cures.compared` has it, beside three rivals.

    `answers` and `figures` as from `cures.study`. `over_label_pts` and `over_swap_pts` are the lead
    over the arm that trains the same blocks without a map, `over_gae_pts` that over GAE on all
    blocks; each with `_low_pts` and `_high_pts`. An arm without such a rival has NaN.
    """
    table = cures.compared(answers, figures, bench).set_index("arm").drop(columns=KEYS[1:-1])
    of_arm = dict(iter(answers.groupby("arm")))
    for arm in table.index:
        rivals = {"label": twin(cfg, arm), "swap": twin(cfg, arm, augmentation="swap")}
        for name, rival in (rivals | {"gae": "gae"}).items():
            if rival in of_arm and rival != arm:
                lead = difference(of_arm[arm], of_arm[rival])
                for end, column in ENDS.items():
                    table.loc[arm, f"over_{name}_{end}"] = lead[column]
    return table


def score(
    found: Mapping[tuple, Row], keys: Sequence[str], original: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, dict[tuple, str]]:
    """What runs answered beside the original, and why others have no answer.

    `found` maps values of `keys` (the first columns of the tables; the last is the seed) to rows,
    `original` are the original's predictions. Returns the rows of `beside_original` with the keys
    and the rate; the change on the shifted sets, a row for each group of runs that differ in the
    seed alone, with its interval as `difference` has it; and the reasons of runs that failed.
    """
    parts, marks, lost = [], [], {}
    before = original.assign(right=original["label_rank"] == 0)
    for values, row in found.items():
        try:
            lr = read(row)["lr"]
        except FailedError as error:
            lost[values] = str(error)
            continue
        named, answered = dict(zip(keys, values, strict=True)), answers(row)
        parts.append(beside_original(answered, original).assign(**named, lr=lr))
        both = answered.assign(right=answered["label_rank"] == 0, **named)
        marks.append(both.merge(before[[*ANSWER, "right"]], on=ANSWER, suffixes=("", "_before")))
    columns = [*keys, *COLUMNS, "lr"]
    if not parts:
        return pd.DataFrame(columns=columns), pd.DataFrame(), lost
    shifted = {
        group: difference(runs, runs.assign(right=runs["right_before"]))
        for group, runs in pd.concat(marks).groupby([*keys[:-1]], sort=False)
    }
    changes = pd.DataFrame.from_dict(shifted, orient="index")
    changes.index = pd.MultiIndex.from_tuples(changes.index, names=keys[:-1])
    return pd.concat(parts, ignore_index=True)[columns], changes.reset_index(), lost

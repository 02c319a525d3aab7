"""Variants of the method, each another choice in its parameters, made and scored side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from relevit.config import FinetuneParams
from relevit.config.words import Variant
from relevit.data.benchmark import Benchmark
from relevit.evaluate.accuracies import COLUMNS, beside_original
from relevit.evaluate.sets import answer_sets, load_classifier
from relevit.finetune.runs import finetune_at
from relevit.training.epochs import WEIGHTS

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


def score_variants(
    variants: Mapping[tuple, FinetuneParams],
    keys: tuple[str, ...],
    origin: Path,
    folder: Path,
    original: pd.DataFrame,
    bench: Benchmark,
    *,
    images_per_set: int,
    on_run: Callable[[], object] = lambda: None,
) -> tuple[pd.DataFrame, dict[tuple, str]]:
    """Finetune and evaluate every variant; one that diverges leaves its reason instead of rows.

    `variants` maps values of `keys` (the first columns of the table) to the run's parameters, which
    have a rate.
    `original` are the original's predictions. Runs and sets that are in `folder` are not made
    again. Returns the rows of `beside_original` with the keys and the rate, none where nothing
    ended, and the reasons.
    """
    parts, lost = [], {}
    for values, params in variants.items():
        place = folder / ".".join(str(value) for value in values)
        try:
            finetune_at(params, bench, params.lr, origin, place, validated=())
        except FloatingPointError as error:
            lost[values] = str(error)
            on_run()
            continue
        weights = place / WEIGHTS
        classifier = load_classifier(bench, params.model, weights, device=params.device)
        answers = answer_sets(classifier, weights, place / "sets", bench, images_per_set)
        named = dict(zip(keys, values, strict=True))
        parts.append(beside_original(answers, original).assign(**named, lr=params.lr))
        on_run()
    columns = [*keys, *COLUMNS, "lr"]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
    return table[columns], lost

"""Made tables with which every claim on attribution methods holds, and ways to change them."""

from __future__ import annotations

import pandas as pd

from .text_tables import made_text

METRICS = ("pixel_accuracy_pct", "miou_pct", "map_pct", "mf1_pct")
# How good each method is on every score, in points; the positive AUC counts downwards.
QUALITY = {
    "raw_attention": 40.0,
    "rollout": 42.0,
    "gradcam": 45.0,
    "partial_lrp": 48.0,
    "ga": 50.0,
    "transformer_attribution": 52.0,
    "gae": 55.0,
    "head_wise": 58.0,
    "token_wise": 58.5,
}
MAE = QUALITY | {"head_wise": 63.0, "token_wise": 64.0}
DINO = QUALITY | {"raw_attention": 57.0}
FEEDBACK = "integrated_gradient"
CLASS_AGNOSTIC = ("raw_attention", "rollout", "partial_lrp")
BY_LABEL = 0.5  # what the other methods gain when they explain the label


def segmentation(half=0.98, **quality):
    """An interval of ± 0.98 points, so a standard error of 0.5."""
    models = {"tiny": QUALITY, "tiny-mae": MAE, "dinov2-s": DINO} | quality
    rows = [
        [model, method, metric, value, value - half, value + half]
        for model, values in models.items()
        for method, value in values.items()
        for metric in METRICS
    ]
    return pd.DataFrame(
        rows, columns=["model", "method", "metric", "value_pct", "low_pct", "high_pct"]
    )


def perturbation(error=0.5, by_label=BY_LABEL, **quality):
    models = {"tiny": QUALITY, "tiny-mae": MAE} | quality
    rows = [
        [model, method, direction, target, 400, auc, error]
        for model, values in models.items()
        for method, value in values.items()
        for target, gain in (("predicted", 0.0), ("label", by_label))
        for good in [value if method in CLASS_AGNOSTIC else value + gain]
        for direction, auc in (("positive", 100 - good), ("negative", good))
    ]
    return pd.DataFrame(
        rows,
        columns=[
            "model",
            "method",
            "direction",
            "target",
            "images",
            "auc_pct",
            "standard_error_pts",
        ],
    )


def approximation(rollout=(30.0, 40.0, 60.0, 80.0), token_wise=(1.0,) * 4, head_wise=(10.0,) * 4):
    methods = {"rollout": rollout, "token_wise": token_wise, "head_wise": head_wise}
    rows = [
        [method, block, error, error / 5, 100]
        for method, errors in methods.items()
        for block, error in enumerate(errors, start=1)
    ]
    return pd.DataFrame(
        rows, columns=["method", "block", "mean_squared_error", "std_squared_error", "images"]
    )


def ablation(error=0.5, **quality):
    values = {
        "none": 40.0,
        "last_attention": 50.0,
        "avg_attention": 52.0,
        "head_wise": 55.0,
        "token_wise": 56.0,
        "gradient": 53.0,
        "nothing": 45.0,
    } | quality
    feedbacks = {"gradient": ("head_wise", "gradient"), "nothing": ("head_wise", "none")}
    rows = []
    for name, value in values.items():
        perception, feedback = feedbacks.get(name, (name, FEEDBACK))
        areas = {
            "positive_auc_pct": 100 - value,
            "positive_standard_error_pts": error,
            "negative_auc_pct": value,
            "negative_standard_error_pts": error,
        }
        rows.append(
            {"perception": perception, "feedback": feedback} | dict.fromkeys(METRICS, value) | areas
        )
    return pd.DataFrame(rows)


def two_objects(raw_attention=50.0, head_wise=80.0, token_wise=85.0, error=2.0):
    shares = {"raw_attention": raw_attention, "head_wise": head_wise, "token_wise": token_wise}
    return pd.DataFrame(
        {
            "method": list(shares),
            "images": 400,
            "own_object_pct": shares.values(),
            "standard_error_pts": error,
        }
    )


def finetuned_segmentation(changes=(3.0, 4.0, 5.0)):
    runs = {"original": 0.0} | {f"seed{i}": change for i, change in enumerate(changes)}
    rows = [[run, m, 50 + value] for run, value in runs.items() for m in METRICS]
    return pd.DataFrame(rows, columns=["model_run", "metric", "value_pct"])


def finetuned_perturbation(positive=(1.0, 2.0, 3.0), negative=(-0.5, -0.5, -0.5), error=0.5):
    """Gains of each seed; the original has 20 and 60 %."""
    runs = [("original", 0.0, 0.0)]
    runs += [(f"seed{i}", *gains) for i, gains in enumerate(zip(positive, negative, strict=True))]
    rows = [
        [run, direction, auc, error]
        for run, fall, rise in runs
        for direction, auc in (("positive", 20 - fall), ("negative", 60 + rise))
    ]
    return pd.DataFrame(rows, columns=["model_run", "direction", "auc_pct", "standard_error_pts"])


def made():
    return {
        "methods_segmentation": segmentation(),
        "methods_perturbation": perturbation(),
        "finetuned_segmentation": finetuned_segmentation(),
        "finetuned_perturbation": finetuned_perturbation(),
        "ablation": ablation(),
        "approximation": approximation(),
        "two_objects": two_objects(),
    } | made_text()


def methods(**quality):
    """Both tests with other qualities of the supervised model."""
    table = {"tiny": QUALITY | quality}
    return {
        "methods_segmentation": segmentation(**table),
        "methods_perturbation": perturbation(**table),
    }

"""Made tables with which every claim on attribution methods, texts and images with text holds."""

from __future__ import annotations

import pandas as pd

from .frames import frame

TA = "transformer_attribution"
# How good each method is on every score, in points; the positive AUC counts downwards.
QUALITY = {
    "raw_attention": 40.0,
    "rollout": 42.0,
    "gradcam": 45.0,
    "partial_lrp": 48.0,
    "ga": 50.0,
    TA: 52.0,
    "head_wise": 58.0,
    "token_wise": 58.5,
}
OF_IMAGES = QUALITY | {"gae": 55.0, "integrated_gradients": 40.0}
POSITIVE = QUALITY | {TA: 61.0}  # of reviews: there transformer attribution ends before both
FIRST_HALF = {TA: 20.0}  # and falls behind at first
DUAL = {
    name: QUALITY[name]
    for name in ("raw_attention", "rollout", "gradcam", "ga", "head_wise", "token_wise")
}
CHANCE = {"newsgroups": 5.3}


def text_perturbation(
    corpora=("movie_reviews", "newsgroups"),
    error=0.5,
    half_error=0.5,
    end=50.0,
    positive=POSITIVE,
    negative=QUALITY,
    first_half=FIRST_HALF,
    of_newsgroups=QUALITY,
):
    """The areas of newsgroups are as good in both directions."""
    rows = []
    for corpus in corpora:
        reviews = corpus != "newsgroups"
        good = {"positive": positive, "negative": negative} if reviews else {}
        for direction in ("positive", "negative"):
            for method, value in good.get(direction, of_newsgroups).items():
                first = first_half.get(method, value) if direction == "positive" else value
                auc, half = (100 - v if direction == "positive" else v for v in (value, first))
                rows.append(
                    [
                        corpus,
                        method,
                        direction,
                        300,
                        auc,
                        error,
                        half,
                        half_error,
                        end if reviews else 4.0,
                        CHANCE.get(corpus, 52.0),
                    ]
                )
    return frame(
        rows,
        "corpus method direction documents auc_pct standard_error_pts first_half_auc_pct "
        "first_half_error_pts final_accuracy_pct chance_pct",
    )


def text_rationales(corpora=("movie_reviews",), error=0.5, ks=(10, 20), **quality):
    rows = [
        [corpus, method, k, 300, value + k / 10, error, value]
        for corpus in corpora
        for method, value in (QUALITY | quality).items()
        for k in ks
    ]
    return frame(rows, "corpus method k documents f1_pct standard_error_pts top_token_pct")


def text_accuracy(**intervals):
    known = {"movie_reviews": (85.0, 87.0, 89.0), "newsgroups": (92.6, 93.0, 93.4)} | intervals
    rows = [
        [c, 1000, right, low, high, CHANCE.get(c, 52.0)] for c, (low, right, high) in known.items()
    ]
    return frame(rows, "corpus texts accuracy_pct low_pct high_pct chance_pct")


def clip_perturbation(model="dinov2-minilm", error=0.5, classes="unseen", **quality):
    """Raw attention and rollout, the same for every class, have no row for the label."""
    rows = [
        [model, method, target, direction, classes, 60, auc, auc - 1.96 * error, auc + 1.96 * error]
        for method, value in (DUAL | quality).items()
        for target in ("predicted", "target")
        if target == "predicted" or method not in ("raw_attention", "rollout")
        for direction, auc in (("positive", 100 - value), ("negative", value))
    ]
    return frame(rows, "model method target direction classes images auc_pct low_pct high_pct")


def clip_zero_shot(model="dinov2-minilm", unseen=30.0, seen=90.0, chance=5.0, images=400):
    rows = [
        [model, seed, classes, images, right + spread, right - wide, right + wide, chance]
        for seed, spread in enumerate((-1.0, 0.0, 1.0))
        for classes, right in (("seen", seen), ("unseen", unseen))
        for wide in (1.96 * (right * (100 - right) / images) ** 0.5,)
    ]
    return frame(rows, "model seed classes images accuracy_pct low_pct high_pct chance_pct")


METRICS = ("pixel_accuracy_pct", "miou_pct", "map_pct", "mf1_pct")
MAE = OF_IMAGES | {"head_wise": 63.0, "token_wise": 64.0}
DINO = OF_IMAGES | {"raw_attention": 57.0}
FEEDBACK = "integrated_gradient"
CLASS_AGNOSTIC = ("raw_attention", "rollout", "partial_lrp")
BY_LABEL = 0.5  # what the other methods gain when they explain the label


def methods_segmentation(half=0.98, **quality):
    """An interval of ± 0.98 points, so a standard error of 0.5."""
    models = {"tiny": OF_IMAGES, "tiny-mae": MAE, "dinov2-s": DINO} | quality
    rows = [
        [model, method, metric, value, value - half, value + half]
        for model, values in models.items()
        for method, value in values.items()
        for metric in METRICS
    ]
    return frame(rows, "model method metric value_pct low_pct high_pct")


def methods_perturbation(error=0.5, by_label=BY_LABEL, **quality):
    models = {"tiny": OF_IMAGES, "tiny-mae": MAE} | quality
    rows = [
        [model, method, direction, target, 400, auc, auc - 1.96 * error, auc + 1.96 * error]
        for model, values in models.items()
        for method, value in values.items()
        for target, gain in (("predicted", 0.0), ("label", by_label))
        for good in [value if method in CLASS_AGNOSTIC else value + gain]
        for direction, auc in (("positive", 100 - good), ("negative", good))
    ]
    return frame(rows, "model method direction target images auc_pct low_pct high_pct")


def approximation(rollout=(30.0, 40.0, 60.0, 80.0), token_wise=(1.0,) * 4, head_wise=(10.0,) * 4):
    methods = {"rollout": rollout, "token_wise": token_wise, "head_wise": head_wise}
    rows = [
        [method, block, error, error / 5, 100]
        for method, errors in methods.items()
        for block, error in enumerate(errors, start=1)
    ]
    return frame(rows, "method block mean_squared_error std_squared_error images")


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
            f"{direction}_{end}_pct": auc + half
            for direction, auc in (("positive", 100 - value), ("negative", value))
            for end, half in (("auc", 0.0), ("low", -1.96 * error), ("high", 1.96 * error))
        }
        rows.append(
            {"perception": perception, "feedback": feedback} | dict.fromkeys(METRICS, value) | areas
        )
    return pd.DataFrame(rows)


def two_objects(raw_attention=50.0, head_wise=80.0, token_wise=85.0, error=2.0):
    shares = {"raw_attention": raw_attention, "head_wise": head_wise, "token_wise": token_wise}
    rows = [
        [name, 400, share, share - 1.96 * error, share + 1.96 * error]
        for name, share in shares.items()
    ]
    return frame(rows, "method images own_object_pct low_pct high_pct")


def finetuned_segmentation(changes=(3.0, 3.1, 2.9), half=0.2):
    runs = {"original": 0.0} | {f"seed{i}": change for i, change in enumerate(changes)}
    rows = [
        [run, m, 50 + by, 50 + by - half, 50 + by + half]
        for run, by in runs.items()
        for m in METRICS
    ]
    return frame(rows, "model_run metric value_pct low_pct high_pct")


def finetuned_perturbation(positive=(1.0, 1.2, 1.1), negative=(-0.2, -0.2, -0.2), error=0.2):
    """Gains of each seed; the original has 20 and 60 %."""
    runs = [("original", 0.0, 0.0)]
    runs += [(f"seed{i}", *gains) for i, gains in enumerate(zip(positive, negative, strict=True))]
    rows = [
        [run, direction, auc, auc - 1.96 * error, auc + 1.96 * error]
        for run, fall, rise in runs
        for direction, auc in (("positive", 20 - fall), ("negative", 60 + rise))
    ]
    return frame(rows, "model_run direction auc_pct low_pct high_pct")


def methods(**quality):
    """Both tests with other qualities of the supervised model."""
    table = {"tiny": OF_IMAGES | quality}
    return {
        "methods_segmentation": methods_segmentation(**table),
        "methods_perturbation": methods_perturbation(**table),
    }

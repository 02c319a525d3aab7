"""Claims on attribution methods: both tests, ablation, approximation, and maps of finetuned models.

Criteria were written down before any run; thresholds come from the papers' words and printed
tables, never from our outcomes. A combined standard error is the root of the summed squares, as if
the images were other ones; with the same images this is on the safe side. That of a segmentation
number is a quarter (1 / 3.92) of its 95 % interval. Better is lower for the positive AUC, higher
elsewhere.

Numbers shown are gains unless they say otherwise: above 0 means better, so for the positive
AUC a fall. They are in percentage points, ± the combined standard error over images (RV-08: ± the
standard deviation over seeds).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import pandas as pd

from relevit.attribution import VARIANTS
from relevit.claims import scores as of_methods
from relevit.claims.registry import (
    EPS,
    HOLDS,
    MIN_SEEDS,
    Finding,
    Given,
    Lacking,
    NoRoom,
    Part,
    Subject,
    Table,
    decide,
    every,
    part,
    signed,
)
from relevit.claims.scores import (
    LABEL,
    NO_LABEL_ROW,
    PREDICTED,
    SEGMENTATION,
    SIGNS,
    THREE,
    Scores,
    areas,
    both_scores,
    gain_over,
    gains_over_baselines,
    judge_gains,
    lead_over_best,
    listed,
    perturbation_scores,
    segmentation_scores,
)
from relevit.claims.statistics import MAX_SPREAD_PTS, SIMILAR_PTS, Difference, similar
from relevit.evaluate.robustness import ORIGINAL

ATTRIBUTION = Subject(
    tables=[
        Table(
            "methods_segmentation",
            "04_segmentation",
            ("model", "method", "metric"),
            ("value_pct", "low_pct", "high_pct"),
        ),
        Table(
            "methods_perturbation",
            "06_faithfulness",
            ("model", "method", "direction", "target"),
            ("images", "auc_pct", "standard_error_pts"),
        ),
        Table("finetuned_segmentation", "04_segmentation", ("model_run", "metric"), ("value_pct",)),
        Table(
            "finetuned_perturbation",
            "06_faithfulness",
            ("model_run", "direction"),
            ("auc_pct", "standard_error_pts"),
        ),
        Table(
            "ablation",
            "05_attribution",
            ("perception", "feedback"),
            (
                *SEGMENTATION,
                "positive_auc_pct",
                "positive_standard_error_pts",
                "negative_auc_pct",
                "negative_standard_error_pts",
            ),
        ),
        Table(
            "approximation",
            "05_attribution",
            ("method", "block"),
            ("mean_squared_error", "std_squared_error", "images"),
        ),
        Table(
            "two_objects",
            "05_attribution",
            ("method",),
            ("images", "own_object_pct", "standard_error_pts"),
        ),
    ],
    # The models of Beyond Intuition and those that stand in for them.
    roles={
        "supervised": ("tiny", "vit-b"),
        "mae": ("tiny-mae", "mae-b"),
        "dino": ("dinov2-s", "dino-b"),
    },
    notes={"stand_in": ", which stands in for DINO,"},
)
claim = ATTRIBUTION.claim
_BOTH = ["methods_segmentation", "methods_perturbation"]

CLASS_AGNOSTIC = (*NO_LABEL_ROW, "partial_lrp")
UNFAITHFUL = ("raw_attention", "rollout")  # as RV-40 says
OTHERS_RV40 = ("gradcam", "partial_lrp", "transformer_attribution")
MEAN_FACTOR = 20.0  # BI-01: the number claimed
BLOCK_FACTOR = 10.0  # BI-02: lower end of "10-100x"
GREAT_MARGIN_PTS = 2.0  # BI-07: the paper's smallest such margin is 2.04 (mF1, Table 2)
LOSS_PTS = 1.0  # RV-39: the paper calls a loss of 0.93 (DeiT-B, negative) still faithful
AGNOSTIC_PCT = 50.0  # BI-20: of two objects a map that ignores the class can point at one
SAME_AUC_PTS = 0.005  # BI-22: half of the last digit printed
LARGE = "vit-l"  # BI-13

_SAME = (
    f"by at most {SIMILAR_PTS:g} point or the combined standard error, whichever is larger; no "
    f"room when that error exceeds {MAX_SPREAD_PTS:g} points and nothing differs by more"
)
_MODEL = "On {supervised}, or on {dino} where that was not run: "
BEATS, UNSURE = of_methods.BEATS, of_methods.UNSURE  # parts of criteria
_SIX = "raw attention, rollout, GradCAM, partial LRP, GA, transformer attribution"


# The error of the recurrence that perception rests on.


@claim("BI-01", "approximation")
def smaller_on_average(given: Given) -> Finding:
    """Squared errors averaged over images and blocks: rollout's over token-wise's, less its
    standard error, is at least {MEAN_FACTOR:g}.
    """
    rollout, token = (_errors(given, name) for name in ("rollout", "token_wise"))
    factor, error = _ratio(_block_mean(rollout), _block_mean(token))
    parts = {f"at least {MEAN_FACTOR:g} times": _times(factor, error, MEAN_FACTOR)}
    return decide(parts, f"rollout's error over token_wise's {factor:.3g} ± {error:.2g}")


@claim("BI-02", "approximation")
def smaller_in_every_block(given: Given) -> Finding:
    """In every block rollout's mean squared error over token-wise's, less its standard error, is at
    least {BLOCK_FACTOR:g}; more than 100 is not held against it.
    """
    rollout, token = (_errors(given, name) for name in ("rollout", "token_wise"))
    ratios = {b: _ratio(rollout.loc[b, _PAIR], token.loc[b, _PAIR]) for b in token.index}
    parts = {
        f"block {block} at least {BLOCK_FACTOR:g} times": _times(*ratio, BLOCK_FACTOR)
        for block, ratio in ratios.items()
    }
    text = ", ".join(f"{b}: {factor:.3g} ± {error:.2g}" for b, (factor, error) in ratios.items())
    return decide(parts, f"rollout's error over token_wise's, by block: {text}")


@claim("BI-03", "approximation")
def steadier(given: Given) -> Finding:
    """In every block of the deeper half the standard deviation of token-wise's squared error is
    below rollout's {BEATS} (of a standard deviation: itself / sqrt(2 (n - 1))).
    """
    rollout, token = (_errors(given, name) for name in ("rollout", "token_wise"))
    deep = [block for block in token.index if block > token.index.max() / 2]
    parts = {}
    for block in deep:
        (a, n), (b, m) = (rows.loc[block, ["std", "images"]] for rows in (rollout, token))
        spread = math.hypot(a / math.sqrt(2 * (n - 1)), b / math.sqrt(2 * (m - 1)))
        parts[f"block {block} varies less"] = part(a - b, spread, a - b > spread)
    text = ", ".join(
        f"{b}: {token.loc[b, 'std']:.2g} against {rollout.loc[b, 'std']:.2g}" for b in deep
    )
    return decide(parts, f"std of token_wise's error against rollout's, by block: {text}")


@claim("BI-04", "approximation")
def below_rollout(given: Given) -> Finding:
    """Averaged over images and blocks, the squared errors of token-wise and of head-wise are below
    rollout's {BEATS}.
    """
    names = ("rollout", *VARIANTS)
    means = {name: _block_mean(_errors(given, name)) for name in names}
    worst, error = means["rollout"]
    parts = {}
    for name in VARIANTS:
        below, spread = worst - means[name][0], math.hypot(error, means[name][1])
        parts[f"{name} below rollout"] = part(below, spread, below > spread)
    text = ", ".join(f"{name} {value:.3g} ± {error:.2g}" for name, (value, error) in means.items())
    return decide(parts, f"squared error: {text}")


_PAIR = ["mean", "error"]


def _times(factor: float, error: float, least: float) -> Part:
    """Whether a factor, less its standard error, is at least so large."""
    return part(factor - least, error, factor - error >= least - EPS)


def _errors(given: Given, method: str) -> pd.DataFrame:
    """Mean, its standard error, std and images of one method by block."""
    table = given["approximation"]
    rows = table[table["method"] == method].set_index("block").sort_index()
    blocks = sorted(table["block"].unique())
    if list(rows.index) != blocks:
        raise Lacking(f"{method} has blocks {list(rows.index)}, of {blocks}: run them too")
    images, std = rows["images"].astype(float), rows["std_squared_error"]
    error = std / np.sqrt(images)
    return pd.DataFrame(
        {"mean": rows["mean_squared_error"], "error": error, "std": std, "images": images}
    )


def _block_mean(rows: pd.DataFrame) -> tuple[float, float]:
    """Average over blocks. The blocks see the same images, so their errors may add up."""
    return float(rows["mean"].mean()), float(rows["error"].mean())


def _ratio(over: tuple[float, float], under: tuple[float, float]) -> tuple[float, float]:
    (a, error_a), (b, error_b) = over, under
    if a <= 0 or b <= 0:
        raise Lacking("an error of 0 in rollout or token_wise has no ratio: check the table")
    return float(a / b), float(a / b * math.hypot(error_a / a, error_b / b))


ATTRIBUTION.untestable(
    "BI-05",
    "An assumption without a number.",
    "an assumption without a number; what layer norm and GELU add is part of the errors "
    "judged in BI-01 to BI-04",
)


@claim("BI-06")
def rollout_is_a_special_case(given: Given) -> Finding:
    """With the values' and the output's weights set to the identity, token-wise perception without
    feedback equals rollout (both as described) to rounding.
    """
    reason = "an identity, tested to rounding in tests/unit/claims/test_attribution.py"
    return Finding(HOLDS, "", reason)


# How good the methods are, on the images of both tests.


@claim("BI-07", *_BOTH)
def outperform(given: Given) -> Finding:
    """{_MODEL}head-wise and token-wise are each better than every baseline ({_SIX}) in all four
    segmentation numbers and both AUCs, {BEATS}; for the predicted class, and for the label where
    that was run. Token-wise leads the best baseline by at least {GREAT_MARGIN_PTS:g} points in each
    segmentation number.
    """
    segmentation, perturbation = given["methods_segmentation"], given["methods_perturbation"]
    model = _supervised_model(given, segmentation, perturbation)
    parts, leads, text = _over_best(model, segmentation, perturbation)
    for score in SEGMENTATION.values():
        great = leads["token_wise", score].above(GREAT_MARGIN_PTS)
        parts[f"token_wise {score} leads by {GREAT_MARGIN_PTS:g} points"] = great
    return decide(parts, text)


@claim("BI-13", *_BOTH)
def outperform_on_large(given: Given) -> Finding:
    """On {LARGE}: as BI-07, without the margin of {GREAT_MARGIN_PTS:g} points."""
    segmentation, perturbation = given["methods_segmentation"], given["methods_perturbation"]
    if not all((table["model"] == LARGE).any() for table in (segmentation, perturbation)):
        raise Lacking(
            f"no rows for {LARGE}, a ViT-Large on ImageNet: name it in method_models of the "
            "paper preset, in 04_segmentation"
        )
    parts, _, text = _over_best(LARGE, segmentation, perturbation)
    return decide(parts, text)


def _over_best(
    model: str, segmentation: pd.DataFrame, perturbation: pd.DataFrame
) -> tuple[dict[str, Part], dict[tuple[str, str], Difference], str]:
    """Whether each variant beats all baselines in each score, its leads over the best, and text."""
    scores = both_scores(segmentation, perturbation)
    names = (*SEGMENTATION.values(), *areas(scores, model))
    parts, leads, texts = {}, {}, []
    for variant in VARIANTS:
        for score in names:
            gains = gains_over_baselines(scores, model, variant, score)
            leads[variant, score] = min(gains.values())
            unbeaten = [name for name, gain in gains.items() if not gain.clear]
            clear = every(gain.clear for gain in gains.values())
            parts[f"{variant} {score} against {', '.join(unbeaten)}"] = clear
        texts.append(f"{variant} {listed({score: leads[variant, score] for score in names})}")
    return parts, leads, f"{model}, lead over the best baseline: {'; '.join(texts)}"


def _supervised_model(given: Given, *tables: pd.DataFrame) -> str:
    """ViT-Base or what stands in for it: the first that all tables have. Raises: Lacking."""
    names = (given.models.supervised, given.models.dino)
    for model in names:
        if all((table["model"] == model).any() for table in tables):
            return model
    raise Lacking(f"no rows for {' or '.join(names)}: run one of them")


ATTRIBUTION.untestable(
    "BI-14",
    "What heatmaps of ViT-Large look like; without a number.",
    "read off single heatmaps of ViT-Large, without a number; what its maps are worth in "
    "both tests is judged in BI-13",
)


@claim("BI-15", "methods_perturbation")
def larger_lead(given: Given) -> Finding:
    """For head-wise and token-wise and both AUCs, the lead over the best baseline is above 0 on
    {mae} and larger there than on {supervised}, both {BEATS}; for the predicted class, and for the
    label where that was run on both. Other settings are not compared.
    """
    perturbation = given["methods_perturbation"]
    scores = perturbation_scores(perturbation, ["model", "method"])
    models = (given.models.mae, given.models.supervised)
    parts, texts = {}, []
    for variant in VARIANTS:
        for score in areas(scores, *models):
            mae, other = (lead_over_best(scores, model, variant, score) for model in models)
            larger = Difference(mae.value - other.value, math.hypot(mae.spread, other.spread))
            parts[f"{variant} {score} leads on {models[0]}"] = mae.clear
            parts[f"{variant} {score} lead larger than on {models[1]}"] = larger.clear
            texts.append(f"{variant} {score} {mae} against {other}")
    return decide(parts, f"lead on {models[0]} against {models[1]}: {', '.join(texts)}")


@claim("BI-17", *_BOTH)
def variants_similar(given: Given) -> Finding:
    """{_MODEL}head-wise and token-wise differ in each of the four segmentation numbers and both
    AUCs {_SAME}. That head-wise needs only attention and its gradient is not tested.
    """
    segmentation, perturbation = given["methods_segmentation"], given["methods_perturbation"]
    model = _supervised_model(given, segmentation, perturbation)
    scores = both_scores(segmentation, perturbation)
    names = (*SEGMENTATION.values(), *areas(scores, model))
    token, head = VARIANTS[::-1]
    gains = {s: gain_over(scores, (model, token, s), (model, head, s)) for s in names}
    return _similar(gains, f"{model}, token_wise minus head_wise: {listed(gains)}")


@claim("BI-18", "methods_segmentation")
def dino_similar(given: Given) -> Finding:
    """Head-wise and token-wise each differ between {dino}{stand_in} and {supervised} in pixel
    accuracy, mIoU and mAP {_SAME}.
    """
    gains, number = _dino_gains(given, VARIANTS)
    return _similar(gains, number)


@claim("BI-19", "methods_segmentation")
def dino_promising(given: Given) -> Finding:
    """Raw attention of {dino}{stand_in} is better than that of {supervised} in pixel accuracy, mIoU
    and mAP, {BEATS}.
    """
    gains, number = _dino_gains(given, ["raw_attention"])
    return decide({f"{name} better": gain.clear for name, gain in gains.items()}, number)


def _similar(gains: Mapping[str, Difference], number: str) -> Finding:
    """Neither clearly better: BI-17 and BI-18."""
    return decide({f"{name} similar": similar(gain) for name, gain in gains.items()}, number)


def _dino_gains(given: Given, methods: Iterable[str]) -> tuple[dict[str, Difference], str]:
    """By method and score how much the maps of DINO are better, and text."""
    scores = segmentation_scores(given["methods_segmentation"])
    dino, other = given.models.dino, given.models.supervised
    gains = {
        f"{method} {score}": gain_over(scores, (dino, method, score), (other, method, score))
        for method in methods
        for score in THREE
    }
    return gains, f"{dino} minus {other}, which differ in size too: {listed(gains)}"


@claim("BI-22", "methods_perturbation")
def same_for_every_class(given: Given) -> Finding:
    """{_MODEL}raw attention, rollout and partial LRP, as far as run for both, have the same AUCs
    for the predicted class and for the label, to {SAME_AUC_PTS:g} points, where some other method
    has not.
    """
    # With no image answered wrongly any two maps would agree: that tests nothing.
    perturbation = given["methods_perturbation"]
    model = _supervised_model(given, perturbation)
    scores = perturbation_scores(perturbation, ["model", "method"])
    apart, others = {}, []
    for run, method, own in scores:
        if run == model and own in LABEL:
            other = PREDICTED[LABEL.index(own)]
            gap = gain_over(scores, (model, method, own), (model, method, other))
            if method in CLASS_AGNOSTIC:
                apart[f"{method} {own.split()[0]}"] = gap
            else:
                others.append(gap.value)
    if not apart:
        raise Lacking(f"none of {', '.join(CLASS_AGNOSTIC)} was run for the label: run one")
    if not any(abs(pts) > SAME_AUC_PTS for pts in others):
        raise NoRoom("no method differs between the two: run one for images answered wrongly")
    parts = {
        # To rounding, on the same images: chance has no part in it.
        f"{name} the same": part(
            SAME_AUC_PTS - abs(gap.value), SAME_AUC_PTS, abs(gap.value) <= SAME_AUC_PTS
        )
        for name, gap in apart.items()
    }
    text = ", ".join(f"{name} {round(gap.value, 2) + 0.0:+.2f}" for name, gap in apart.items())
    return decide(parts, f"{model}, AUC for the label against the predicted class: {text}")


@claim("RV-40", "methods_perturbation")
def gae_most_faithful(given: Given) -> Finding:
    """{_MODEL}for the predicted class and both AUCs GAE is better than raw attention, rollout,
    GradCAM, partial LRP and transformer attribution; raw attention and rollout are each worse than
    the other four. Each {BEATS}; {UNSURE}.
    """
    perturbation = given["methods_perturbation"]
    model = _supervised_model(given, perturbation)
    scores = perturbation_scores(perturbation, ["model", "method"])
    parts, gains = {}, {}  # all that are judged, those that are shown
    pairs = [("gae", name) for name in (*UNFAITHFUL, *OTHERS_RV40)]
    pairs += [(better, worse) for worse in UNFAITHFUL for better in OTHERS_RV40]
    for score in PREDICTED:
        direction = score.split()[0]
        for better, worse in pairs:
            gain = gain_over(scores, (model, better, score), (model, worse, score))
            parts[f"{better} above {worse}, {direction}"] = gain
            if better == "gae":
                gains[f"{worse} {direction}"] = gain
    return judge_gains(parts, f"{model}, AUC gain of gae over: {listed(gains)}")


@claim("RV-43", "methods_perturbation")
def input_gradients_unfaithful(given: Given) -> Finding:
    """Integrated gradients, which average input times gradient over a path from black and are the
    nearest relative here, have worse AUCs than GAE in both directions, for the predicted class, by
    more than the combined standard error; {UNSURE}.
    """
    table = given["methods_perturbation"]
    model, scores = _supervised_model(given, table), perturbation_scores(table, ["model", "method"])
    pairs = {
        s: gain_over(scores, (model, "gae", s), (model, "integrated_gradients", s))
        for s in PREDICTED
    }
    number = f"{model}, gain of gae over integrated_gradients: {listed(pairs)}"
    return judge_gains({f"worse than gae, {s}": g for s, g in pairs.items()}, number)


# Parts of the method, two objects in one image, one photo.


@claim("BI-16", "ablation")
def parts_help(given: Given) -> Finding:
    """With head-wise perception integrated gradients are better than plain ones; with integrated
    gradients head-wise and token-wise are each better than average and last-block attention. In the
    four segmentation numbers (any difference) and both AUCs ({BEATS}).
    """
    integrated = "integrated_gradient"
    pairs = {
        "head_wise, integrated against plain gradient": (
            ("head_wise", integrated),
            ("head_wise", "gradient"),
        )
    } | {
        f"{ours} against {other}": ((ours, integrated), (other, integrated))
        for ours in VARIANTS
        for other in ("avg_attention", "last_attention")
    }
    scores = _ablation_scores(given["ablation"])
    parts, texts = {}, []
    for pair, (ours, other) in pairs.items():
        names = (*SEGMENTATION.values(), *PREDICTED)
        gains = {name: gain_over(scores, (*ours, name), (*other, name)) for name in names}
        missed = [name for name, gain in gains.items() if not gain.clear]
        parts[f"{pair} in {', '.join(missed)}"] = every(gain.clear for gain in gains.values())
        shown = (f"{name} {_two_digits(gain)}" for name, gain in gains.items())
        texts.append(f"{pair}: {', '.join(shown)}")
    return decide(parts, "; ".join(texts))


def _two_digits(gain: Difference) -> str:
    """The paper's smallest such gain is 0.04."""
    text = f"{round(gain.value, 2) + 0.0:+.2f}"
    return f"{text} ± {gain.spread:.2f}" if gain.spread else text


def _ablation_scores(table: pd.DataFrame) -> Scores:
    """By perception, feedback and score; segmentation numbers come without an error."""
    scores: Scores = {}
    for row in table.to_dict("records"):
        key = (str(row["perception"]), str(row["feedback"]))
        scores |= {(*key, name): (row[column], 0.0) for column, name in SEGMENTATION.items()}
        for (direction, sign), name in zip(SIGNS.items(), PREDICTED, strict=True):
            error = row[f"{direction}_standard_error_pts"]
            scores[(*key, name)] = (sign * row[f"{direction}_auc_pct"], error)
    return scores


@claim("BI-20", "two_objects")
def point_apart(given: Given) -> Finding:
    """Head-wise and token-wise each point at their own class's object in more than {AGNOSTIC_PCT:g}
    % of cases, by more than the standard error; raw attention does not.
    """
    two_objects = given["two_objects"]
    rows = two_objects.set_index("method")
    names = (*VARIANTS, "raw_attention")
    absent = [name for name in names if name not in rows.index]
    if absent:
        raise Lacking(f"no row for {', '.join(absent)}: run it too")
    columns = ["own_object_pct", "standard_error_pts"]
    gains = {name: Difference(*(rows.loc[name, columns] - [AGNOSTIC_PCT, 0.0])) for name in names}
    parts = {f"{name} above {AGNOSTIC_PCT:g} %": gains[name].clear for name in VARIANTS}
    parts[f"raw_attention not above {AGNOSTIC_PCT:g} %"] = gains["raw_attention"].unclear
    shares = (f"{n} {rows.loc[n, columns[0]]:.1f} ± {rows.loc[n, columns[1]]:.1f}" for n in names)
    return decide(parts, f"points at its own object, %: {', '.join(shares)}")


ATTRIBUTION.untestable(
    "BI-21",
    "Needs that photo.",
    "the answers of four models to one photo, which is printed as a figure and part of no "
    "data set that the suite reads; without that file there is nothing to compare, whatever the "
    "models",
)


# What finetuning does to the maps.


@claim("RV-08", "finetuned_segmentation")
def maps_improve(given: Given) -> Finding:
    """GAE maps: pixel accuracy, mIoU and mAP rise in every seed, and each mean change is above its
    std over seeds. At least {MIN_SEEDS} seeds.
    """
    segmentation = given["finetuned_segmentation"]
    wide = segmentation.astype({"metric": str, "model_run": str})
    wide = wide.pivot(index="model_run", columns="metric", values="value_pct")
    wide = wide.rename(columns=SEGMENTATION).reindex(columns=THREE)
    seeds = _seeds(wide.index.tolist())
    if wide.isna().any(axis=None):
        raise Lacking(f"not every run has {', '.join(THREE)}: evaluate them all")
    changes = wide.drop(index=ORIGINAL) - wide.loc[ORIGINAL]
    mean, std = changes.mean(), changes.std()
    over_images = _interval_errors(segmentation)
    parts = {}
    for m in THREE:
        least = over_images.get(m, 0.0)
        error, of = (std[m], seeds) if std[m] > least else (least, 0)
        parts[f"{m} rises in every seed"] = part(mean[m], error, changes[m].min() > EPS, of)
        parts[f"{m} above its std"] = part(mean[m], error, mean[m] > std[m] + EPS, of)
    number = ", ".join(f"{m} {signed(mean[m], std[m])}" for m in THREE)
    return decide(parts, number, seeds, least=MIN_SEEDS)


def _interval_errors(segmentation: pd.DataFrame) -> dict[str, float]:
    """Of each score the combined standard error of original and run, where there are intervals."""
    if not {"low_pct", "high_pct"} <= set(segmentation):
        return {}
    runs = segmentation["model_run"].astype(str)
    score = segmentation["metric"].astype(str).map(SEGMENTATION)
    errors = (segmentation["high_pct"] - segmentation["low_pct"]) / of_methods.INTERVAL_ERRORS
    # Seeds see the same images: their errors do not average out.
    before, after = (
        errors[kind].groupby(score).mean() for kind in (runs == ORIGINAL, runs != ORIGINAL)
    )
    return np.hypot(before, after).to_dict()


@claim("RV-39", "finetuned_perturbation")
def stays_faithful(given: Given) -> Finding:
    """GAE, predicted class: in neither direction is the AUC, averaged over seeds, worse than the
    original's by more than {LOSS_PTS:g} point or the combined standard error, whichever is larger;
    and some seed is better in some direction, by more than the combined standard error. At least
    {MIN_SEEDS} seeds; no room when that error exceeds {MAX_SPREAD_PTS:g} points and nothing is
    worse by more.
    """
    perturbation = given["finetuned_perturbation"]
    scores = perturbation_scores(
        perturbation.drop(columns="target", errors="ignore"), ["model_run"]
    )
    runs = perturbation["model_run"].astype(str).unique().tolist()
    seeds = _seeds(runs)
    parts, mean, each = {}, {}, []
    for score in PREDICTED:
        gains = [gain_over(scores, (r, score), (ORIGINAL, score)) for r in runs if r != ORIGINAL]
        each += [gain.clear for gain in gains]
        # Seeds see the same images, as the original does: their errors do not average out.
        mean[score] = Difference(*np.mean(gains, axis=0).tolist())
        loss, error = -mean[score].value, mean[score].spread
        limit = max(LOSS_PTS, error)
        small = loss <= limit + EPS
        met = None if small and error > MAX_SPREAD_PTS else small
        parts[f"{score} worse by at most {limit:.1f} points"] = Part(met, LOSS_PTS - loss, error)
    number = f"gain over the original, mean over {seeds} seeds: {listed(mean)}"
    best = max(each, key=lambda gain: (gain.met, np.nan_to_num(gain.errors, nan=-np.inf)))
    parts["better in some seed and direction"] = best
    return decide(parts, number, seeds, least=MIN_SEEDS)


def _seeds(runs: Collection[str]) -> int:
    if ORIGINAL not in runs or len(runs) < 2:
        raise Lacking(f"runs are {list(runs)}: needs 'original' and finetuned ones")
    return len(runs) - 1

"""The claims of IAV (Park and Choi 2022), by their ids in `assets/paper/claims.csv`.

A docstring is the criterion, as in `claims.robustvit`. Self-supervised are dino-b and beit-b,
supervised vit-b-in21k and deit-b; where these are not there, four small models of one size and one
set of images stand in for them (MINIS). Intervals are over finetunings, and over images where the
tables have them: not of validation accuracy, drift, epochs and the numbers of HEADS. So a
verdict is on these four models, as the paper's own is on its four: none speaks of other
pretrainings. The kinds are *apart* by the smallest difference between all models of one and all of
the other, in the better order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from reproduction.claims.judging import Seen, Yielded, claim
from reproduction.claims.numbers import Lacking, Number, Numbers, mean, wide

DINO, BEIT, IN21K, DEIT = "dino-b", "beit-b", "vit-b-in21k", "deit-b"
SELF, SUPERVISED = [DINO, BEIT], [IN21K, DEIT]
FOUR, OTHERS = [*SELF, *SUPERVISED], [BEIT, IN21K, DEIT]
CORRUPTIONS = ("blur", "jigsaw", "patch_jigsaw")
# The paper has one model of each pretraining, too. mini-mae predicts pixels where BEiT predicts
# tokens, and mini-supervised saw no more images than mini-deit.
MINIS = {"mini-dino": DINO, "mini-mae": BEIT, "mini-supervised": IN21K, "mini-deit": DEIT}

MODELS, SHIFT, SLOPES = "08a_iav/models", "08a_iav/shift", "08a_iav/slopes"
SCORES, ENTROPY = "08a_iav/scores", "08a_iav/entropy"
# Numbers of heads that a mean over rows cannot express: `reproduction.heads.head_numbers`.
HEADS = "08a_iav/heads"


def _of(rows: pd.DataFrame, x: str, models: Sequence[str], by: str, **how: str) -> Numbers:
    """A number of each of these models and seeds; the column is `other` where `by` says so.

    What images add to its error is known where rows are of images, or say how many they are.
    """
    rows = rows[rows["model"].isin(models)]
    if "other" in by.split():
        rows = rows.assign(other=rows["model"])
    if "image" in rows and "error" not in how:
        told, keys = rows.attrs, [*by.split(), "seed", "image"]
        rows = rows.groupby(keys, observed=True)[x].mean().reset_index()
        rows, how = rows.rename(columns={"image": "index"}), how | {"error": "sem"}
        rows.attrs = told
    elif "images" in rows:
        how = {"images": "images"} | how
    return mean(rows, x, by, **({"seed": "seed"} | how))


def _validation(t: Seen) -> pd.DataFrame:
    """Validation top-1 after the last epoch."""
    return t.rows(MODELS, "epoch == epoch.max()")


TOP1 = "validation_top1_pct"


def _corrupted(t: Seen) -> pd.DataFrame:
    """Top-1 on corrupted images, whose levels are averaged."""
    return t.rows(SHIFT, "corruption != 'none'")


def _apart(rows: pd.DataFrame, x: str, by: str = "") -> Numbers:
    """By how much the kinds are apart."""
    kinds = _of(rows, x, SELF, f"model {by}").minus(_of(rows, x, SUPERVISED, f"other {by}"))
    return kinds.over("model", "other", how="apart")


@claim("IAV-01", instead=MINIS)
def dino_is_best_and_the_others_alike(t: Seen) -> Yielded:
    """Validation top-1 after the last epoch: dino-b less each of the others is above 0.

    The others differ from each other by at most 1 point. The paper's 98 and 97 % are CIFAR-10's.
    """
    rows = _validation(t)
    lead = _of(rows, TOP1, [DINO], "").minus(_of(rows, TOP1, OTHERS, "model"))
    yield lead.held("above", 0, f"{DINO} above", parts=3)
    for one, other in combinations(OTHERS, 2):
        gap = _of(rows, TOP1, [one], "").minus(_of(rows, TOP1, [other], ""))
        yield gap.held("within", 1, f"{one} and {other} alike")


@claim("IAV-02", instead=MINIS)
def deit_is_weaker_under_corruption(t: Seen) -> Yielded:
    """In top-1 averaged over the levels of blur, jigsaw and patch_jigsaw, each: others are above
    deit-b.

    And what deit-b loses against the images as they are is above what each other loses. Of the
    paper's, dino-b saw the same images, beit-b and vit-b-in21k ten times as many; all stand-ins saw
    the same.
    """
    losses = wide(t.rows(SHIFT), "corruption", "top1_pct")
    for models in ([DINO], [BEIT, IN21K]):
        rows = _corrupted(t)
        lead = _of(rows, "top1_pct", models, "corruption model")
        lead = lead.minus(_of(rows, "top1_pct", [DEIT], "corruption"))
        yield lead.held("above", 0, f"{DEIT} below", parts=3 * len(models))
        for name in CORRUPTIONS:
            more = _of(losses, f"none - {name}", [DEIT], "")
            more = more.minus(_of(losses, f"none - {name}", models, "model"))
            yield more.held("above", 0, f"{DEIT} loses more by {name} than", parts=len(models))


@claim("IAV-03", instead=MINIS)
def accuracy_does_not_tell_the_kinds(t: Seen) -> Yielded:
    """The kinds are apart by less than 0 in validation top-1, and under each of three corruptions.

    In none of the three is vit-b-in21k below both self-supervised models by more than 0. That
    robustness follows the amount of data is not tested.
    """
    yield _apart(_validation(t), TOP1).held("below", 0, "kinds not apart, validation")
    rows = _corrupted(t)
    yield _apart(rows, "top1_pct", "corruption").held("below", 0, "kinds not apart", parts=3)
    lead = _of(rows, "top1_pct", SELF, "model corruption")
    lead = lead.minus(_of(rows, "top1_pct", [IN21K], "corruption")).over("model", how="min")
    yield lead.held("not above", 0, f"{IN21K} robust too", parts=3)


@claim("IAV-04", instead=MINIS)
def dino_generalises_best(t: Seen) -> Yielded:
    """In validation top-1 and under each of three corruptions dino-b less every other is above 0.

    beit-b is not above both supervised models in validation top-1, nor in the average of the other
    three.
    """
    clean, corrupted = _validation(t), _corrupted(t)
    lead = _of(clean, TOP1, [DINO], "").minus(_of(clean, TOP1, OTHERS, "model"))
    yield lead.held("above", 0, f"{DINO} above", parts=3)
    lead = _of(corrupted, "top1_pct", [DINO], "corruption")
    lead = lead.minus(_of(corrupted, "top1_pct", OTHERS, "corruption model"))
    yield lead.held("above", 0, f"{DINO} above", parts=9)
    for rows, x, name in ((clean, TOP1, "validation"), (corrupted, "top1_pct", "corrupted")):
        lead = _of(rows, x, [BEIT], "").minus(_of(rows, x, SUPERVISED, "model"))
        lead = lead.over("model", how="min")
        yield lead.held("not above", 0, f"{BEIT} above the supervised, {name}")


@claim("IAV-05", instead=MINIS)
def self_supervised_maps_change_less(t: Seen) -> Yielded:
    """How far maps are from those of the last epoch, over the epochs from 1 to the last but one.

    SmoothGrad and attention, each: every supervised model less every self-supervised one is above
    0, and the mean of the latter is at most 0.75 of that of the former (nearer to a half than to
    one).
    """
    for name in ("smoothgrad", "attention"):
        rows = t.rows("08a_iav/drift", f"quantity == '{name}'", "epoch >= 1", "epoch < epoch.max()")
        gap = _of(rows, "difference", SUPERVISED, "model")
        gap = gap.minus(_of(rows, "difference", SELF, "other"))
        yield gap.held("above", 0, f"{name}: supervised above", parts=4)
    for name in ("smoothgrad", "attention"):
        rows = t.rows("08a_iav/drift", f"quantity == '{name}'", "epoch >= 1", "epoch < epoch.max()")
        gap = _of(rows, "difference", SELF, "")
        gap = gap.minus(_of(rows, "difference", SUPERVISED, ""), 0.75)
        yield gap.held("at most", 0, f"{name}: self-supervised minus 0.75 times supervised")


@claim("IAV-06", instead=MINIS)
def masking_by_attention_hurts_dino_alone(t: Seen) -> Yielded:
    """Top-1 masked by attention less masked by SmoothGrad, over the ratios: at most 1 for dino-b.

    For each other model above 1, and for beit-b above those of the three others. No room where
    masking by attention costs dino-b no more than masking by chance.
    """
    rows = wide(t.rows("08a_iav/masking", "ratio_pct > 0"), "order", "top1_pct")
    gap = "attention - smoothgrad"
    yield _of(rows, gap, [DINO], "").held("at most", 1, "attention costs as much")
    yield _of(rows, gap, OTHERS, "model").held("above", 1, "SmoothGrad costs more", parts=3)
    largest = _of(rows, gap, [BEIT], "").minus(_of(rows, gap, [DINO, IN21K, DEIT], "model"))
    yield largest.held("above", 0, f"the largest gap is that of {BEIT}", parts=3)
    room = _of(rows, "random - attention", [DINO], "")
    yield room.held(
        "above", 0, f"masking by attention costs {DINO} more than by chance", role="room"
    )


def _trend(rows: pd.DataFrame, x: str, models: Sequence[str], place: str) -> Numbers:
    """The change of a straight line from the first place to the last."""
    return _of(rows, x, models, f"model {place}").over(place, how="slope")


@claim("IAV-07", instead=MINIS)
def entropy_rises_with_labels(t: Seen) -> Yielded:
    """Entropy over layers, heads and images, its trend over the epochs from 1 on.

    Above 0 for vit-b-in21k and deit-b, below 0 for dino-b and beit-b. At least 3 seeds.
    """
    rows = t.rows("08a_iav/epochs", "epoch >= 1")
    rises = _trend(rows, "entropy", SUPERVISED, "epoch")
    yield rises.held("above", 0, "rises", parts=2, runs=3)
    falls = _trend(rows, "entropy", SELF, "epoch")
    yield falls.held("below", 0, "falls", parts=2, runs=3)


@claim("IAV-08", instead=MINIS)
def entropy_does_not_tell_the_kinds(t: Seen) -> Yielded:
    """After finetuning, all layers but the last: dino-b and vit-b-in21k differ by at most their
    heads.

    That is, the means of a layer differ, on average over layers, by at most the std over a layer's
    heads (mean of both models). And the mean over these layers has the kinds apart by less than 0.
    """
    query = f"number == 'apart' and model == '{DINO}' and other == '{IN21K}'"
    gap = mean(t.rows(HEADS, query), "value", seed="seed")
    yield gap.held("at most", 0, f"{DINO} and {IN21K} differ by less than heads")
    rows = t.rows(ENTROPY, "layer < layer.max()")
    yield _apart(rows, "entropy").held("below", 0, "kinds not apart")


@claim("IAV-09", instead=MINIS)
def late_layers_of_self_supervised_have_high_entropy(t: Seen) -> Yielded:
    """After finetuning: the entropy of the self-supervised models less that of the supervised.

    It is above 0 in the last third of the layers, and below 0 in the first third.
    """
    for name, third, side in (
        ("late layers", "layer > layer.max() * 2 / 3", "above"),
        ("early layers", "layer <= layer.max() / 3", "below"),
    ):
        rows = t.rows(ENTROPY, third)
        gap = _of(rows, "entropy", SELF, "").minus(_of(rows, "entropy", SUPERVISED, ""))
        yield gap.held(side, 0, name)


def _heads(t: Seen, number: str, models: Sequence[str], by: str = "") -> Numbers:
    return _of(t.rows(HEADS, f"number == '{number}'"), "value", models, by)


@claim("IAV-10", instead=MINIS)
def last_layer_tells_deit(t: Seen) -> Yielded:
    """After finetuning, last layer, each head's median and interquartile range over images.

    Mean over heads: the median of dino-b and of beit-b less that of deit-b is above 0, and the
    range of vit-b-in21k less that of each other, too. At least one head of vit-b-in21k has a median
    between the lowest and the highest of dino-b's (means over seeds).
    """
    lead = _heads(t, "last median", SELF, "model number")
    lead = lead.minus(_heads(t, "last median", [DEIT], "number"))
    yield lead.held("above", 0, f"median above that of {DEIT}", parts=2)
    lead = _heads(t, "last range", [IN21K]).minus(
        _heads(t, "last range", [DINO, BEIT, DEIT], "model"))  # fmt: skip
    yield lead.held("above", 0, f"range of {IN21K} above that of", parts=3)
    among = t.rows(HEADS, f"number == 'last among' and model == '{IN21K}' and other == '{DINO}'")
    yield mean(among, "value", how="sum").held(
        "above", 0, f"heads of {IN21K} among those of {DINO}"
    )


SLOPE = {"error": "(high - low) / 3.92"}


def _slope_leads(t: Seen) -> list[Number]:
    """By how much the slope of each self-supervised model leads that of each supervised one."""
    rows = t.rows(SLOPES, "map == 'smoothgrad'")
    lead = _of(rows, "slope", SELF, "model", **SLOPE)
    lead = lead.minus(_of(rows, "slope", SUPERVISED, "other", **SLOPE))
    return lead.held("above", 0, "slope", parts=4, runs=3)


@claim("IAV-11", instead=MINIS)
def agreement_falls_with_depth_in_supervised_models(t: Seen) -> Yielded:
    """Slope over the layers of the mean score over heads and images: below 0 for the supervised.

    Not below 0 for the self-supervised, whose slope, and whose mean score in the deeper half of the
    layers, less that of each supervised model is above 0. At least 3 seeds.
    """
    rows = t.rows(SLOPES, "map == 'smoothgrad'")
    falls = _of(rows, "slope", SUPERVISED, "model", **SLOPE)
    yield falls.held("below", 0, "falls", parts=2, runs=3)
    stable = _of(rows, "slope", SELF, "model", **SLOPE)
    yield stable.held("not below", 0, "does not fall", parts=2, runs=3)
    yield _slope_leads(t)
    rows = t.rows(SCORES, "map == 'smoothgrad' and layer > layer.max() / 2")
    lead = _of(rows, "score", SELF, "model").minus(_of(rows, "score", SUPERVISED, "other"))
    yield lead.held("above", 0, "deeper half", parts=4, runs=3)


@claim("IAV-12", instead=MINIS)
def supervised_heads_leave_dinos_map(t: Seen) -> Yielded:
    """Slopes as in IAV-11, with the SmoothGrad of the finetuned dino-b in the place of a model's
    own.

    For vit-b-in21k and deit-b it is below 0, it less the slope with the own map is below 0, and 1.5
    times the latter less it is at least 0. For each of these the two slopes differ in size by more
    than for beit-b: above 0. At least 3 seeds.
    """
    rows = t.rows(SLOPES)
    errors = wide(rows.assign(square=((rows["high"] - rows["low"]) / 3.92) ** 2), "map", "square")
    rows = wide(rows, "map", "slope")
    both = errors.set_index(["model", "seed"])[["aav_dino", "smoothgrad"]].add_prefix("of_")
    rows, told = rows.join(both, on=["model", "seed"]), rows.attrs
    rows.attrs = told

    def of(x: str, factor: float = 1.0, models: Sequence[str] = SUPERVISED, by: str = "model"):
        error = f"(of_aav_dino + {factor**2} * of_smoothgrad) ** 0.5"
        return _of(rows, x, models, by, error=error)

    yield of("aav_dino", 0).held("below", 0, "falls", parts=2, runs=3)
    yield of("aav_dino - smoothgrad").held("below", 0, "falls more", parts=2, runs=3)
    much = of("1.5 * smoothgrad - aav_dino", 1.5)
    yield much.held("at least", 0, "falls much more", parts=2, runs=3)
    size = "abs(aav_dino - smoothgrad)"
    more = of(size).minus(of(size, models=[BEIT], by="other"))
    yield more.held("above", 0, "changes more than", parts=2, runs=3)


@claim("IAV-13", instead=MINIS)
def heads_have_intervals_of_their_own(t: Seen) -> Yielded:
    """Of the variance of the scores in a layer, the share between the means of the heads is above
    0.5.

    Averaged over layers, for each of the four models. For vit-b-in21k and deit-b the highest less
    the lowest median of a layer's heads is larger in the middle third of the layers than in the
    first and in the last: above 0.
    """
    share = _heads(t, "identity", FOUR, "model")
    yield share.held("above", 0.5, "share between heads", parts=4)
    for name in ("first", "last"):
        middle = _heads(t, "range middle", SUPERVISED, "model")
        middle = middle.minus(_heads(t, f"range {name}", SUPERVISED, "model"))
        yield middle.held("above", 0, f"middle range above {name}", parts=2)


@claim("IAV-14", instead=MINIS)
def one_or_two_heads_of_beit_stand_apart(t: Seen) -> Yielded:
    """In above half of the layers of beit-b 1 or 2 heads of 12, or the same share, stand apart.

    Their medians are below the mean of the other heads' by more than 3 std over these. Not testable
    with fewer than 4 heads a layer.
    """
    layers = _heads(t, "layers with few low", [BEIT])
    yield layers.held("above", 0.5, "layers with one or two heads apart")


@claim("IAV-15", instead=MINIS)
def all_heads_of_dino_agree(t: Seen) -> Yielded:
    """The lowest median over images of dino-b's heads is above 0.5 (High-IA).

    In the first, the middle and the last layer, each.
    """
    lowest = t.rows(HEADS, "number in ['lowest first', 'lowest middle', 'lowest last']")
    lowest = _of(lowest, "value", [DINO], "number")
    yield lowest.held("above", 0.5, "lowest median", parts=3)


@claim("IAV-16", instead=MINIS)
def most_heads_of_beit_agree(t: Seen) -> Yielded:
    """Of beit-b's heads in the first, the middle and the last layer the High-IA share is above 0.5.

    And below 1: at least one head has a median over images of at most 0.5.
    """
    share = _heads(t, "high", [BEIT])
    yield share.held("above", 0.5, "High-IA share")
    yield share.held("below", 1, "some Low-IA")


@claim("IAV-17", instead=MINIS)
def supervised_heads_part_from_the_decision(t: Seen) -> Yielded:
    """vit-b-in21k and deit-b: in the first layer the lowest median over images is above 0.5
    (High-IA).

    In the middle one the share of Low-IA heads is above 0 and below a half; in the last the highest
    median is at most 0.5. The std over images of the Low-IA heads of vit-b-in21k in these layers,
    averaged over heads, less that of deit-b's is above 0.
    """
    for name, number, side, line in (
        ("only High-IA", "lowest first", "above", 0.5),
        ("a few Low-IA", "low middle", "above", 0),
        ("fewer than half", "low middle", "below", 0.5),
        ("only Low-IA", "highest last", "at most", 0.5),
    ):
        by = "model" if number == "low middle" else "model number"
        yield _heads(t, number, SUPERVISED, by).held(side, line, name, parts=2)
    lead = _heads(t, "std of low", [IN21K]).minus(_heads(t, "std of low", [DEIT]))
    yield lead.held("above", 0, "std of Low-IA heads")


@claim("IAV-18", instead=MINIS)
def scores_group_the_classes(t: Seen) -> Yielded:
    """k-NN accuracy among the score vectors of a layer, leaving one image out: its trend is above
    0.

    So over the layers of each of the four models, and its mean over the last 2 layers is above
    chance. There each supervised model less each self-supervised one is above 0, so is beit-b less
    dino-b, and vit-b-in21k less deit-b. The best of the last 2 layers of the supervised models less
    the best of the others is at least 0. At least 3 seeds.
    """
    rows = t.rows("08a_iav/space")
    rises = _trend(rows, "knn_pct", FOUR, "layer")
    yield rises.held("above", 0, "rises", parts=4, runs=3)
    late = rows.query("layer > layer.max() - 2")
    chance = _of(late, "knn_pct - chance_pct", FOUR, "model")
    yield chance.held("above", 0, "above chance", parts=4, runs=3)
    lead = _of(late, "knn_pct", SUPERVISED, "model").minus(_of(late, "knn_pct", SELF, "other"))
    yield lead.held("above", 0, "last layers:", parts=4, runs=3)
    for name, one, other in (
        (f"{IN21K} above {DEIT}", IN21K, DEIT),
        (f"{BEIT} above {DINO}", BEIT, DINO),
    ):
        lead = _of(late, "knn_pct", [one], "").minus(_of(late, "knn_pct", [other], ""))
        yield lead.held("above", 0, f"last layers: {name}", runs=3)
    best = _heads(t, "last layers best", SUPERVISED, "model")
    yield best.held("at least", 0, "clearest in the last layers", parts=2, runs=3)


@claim("IAV-19", instead=MINIS)
def the_trend_alone_tells_the_kinds(t: Seen) -> Yielded:
    """The slope of the score (IAV-11) of each self-supervised model less each supervised's is above
    0.

    And the kinds are apart by less than 0 in validation top-1, in top-1 over three corruptions, and
    in the final entropy of all layers but the last. With two models a kind, one order in six has
    the slopes so by luck. At least 3 seeds.
    """
    yield _slope_leads(t)
    for name, rows, x in (
        ("validation", _validation(t), TOP1),
        ("corrupted", _corrupted(t), "top1_pct"),
        ("entropy", t.rows(ENTROPY, "layer < layer.max()"), "entropy"),
    ):
        yield _apart(rows, x).held("below", 0, f"kinds not apart, {name}", runs=3)


@claim("IAV-20", instead=MINIS)
def entropy_follows_the_size_of_objects(t: Seen) -> Yielded:
    """Two rank correlations over images with the object's share of it, in each of four models.

    That of entropy is above 0, that of the score is not, and the first less the second is above 0.
    Means are over layers, heads and seeds, whatever the pretraining; at least 20 images. Whether
    attention is right is not asked.
    """
    sizes = {
        name: mean(t.rows(HEADS, f"number == '{name} with size' and count >= 20"), "value", "model",
                   error="error")
        for name in ("entropy", "score")
    }  # fmt: skip
    yield sizes["entropy"].held("above", 0, "entropy grows with size", parts=4)
    yield sizes["score"].held("not above", 0, "the score does not", parts=4)
    more = sizes["entropy"].minus(sizes["score"])
    yield more.held("above", 0, "entropy more than the score", parts=4)


@claim("IAV-21")
def low_heads_of_beit_play_a_part(t: Seen) -> Yielded:
    """A conjecture. What part a head plays would show in the answers without it."""
    raise Lacking(
        "A conjecture; what part a head plays would show in the answers without it, and no table "
        "has those."
    )


@claim("IAV-22")
def late_heads_look_elsewhere(t: Seen) -> Yielded:
    """A conjecture. That late heads score low *because* they look at independent regions.

    It would show in scores of heads whose regions were changed.
    """
    raise Lacking(
        "A conjecture about a cause. That such heads also score low against the object's mask is "
        "no more than a correlation, and no run changes where a head looks."
    )

"""The learning-rate rule, the highest rate that does no harm, and the search by it."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from relevit.finetune.learning_rate import class_loss_column, highest_passing, judge, taken_rate
from relevit.finetune.settings import BASELINES
from reproduction.params.cells import FINETUNED, params_of
from reproduction.runs.run import arm_params, rate_factor


def tried(drops, rising=()):
    rows = [{"lr": lr, "drop_pts": drop, "rising": lr in rising} for lr, drop in drops.items()]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("drops", "rising", "chosen"),
    [
        ({1e-5: 2.0, 3e-6: 1.0, 1e-6: 0.1}, (), 1e-5),  # the highest; at the limit still passes
        ({1e-6: 0.1, 3e-6: 1.0, 1e-5: 2.1}, (), 3e-6),
        ({1e-6: 0.1, 3e-6: 1.0, 1e-5: 0.5}, (1e-5,), 3e-6),  # the class term rose
        ({1e-5: -1.0, 1e-6: 5.0}, (), 1e-5),  # a gain is no drop
        ({1e-5: 3.0, 1e-6: 2.5}, (), None),
        ({1e-6: 0.0}, (1e-6,), None),
    ],
)
def test_highest_rate_that_does_no_harm(drops, rising, chosen):
    assert highest_passing(tried(drops, rising), limit_pts=2.0) == chosen
    assert taken_rate(tried(drops, rising), limit_pts=2.0) == (chosen or min(drops))


def test_a_rate_that_everywhere_diverges_is_none():
    drops = {1e-6: math.inf, 1e-5: math.inf}
    with pytest.raises(ValueError, match=r"infinite at each of \[1e-06, 1e-05\]; give a lower"):
        taken_rate(tried(drops, ()), limit_pts=2.0)
    assert taken_rate(tried(drops | {1e-7: 9.0}, ()), limit_pts=2.0) == 1e-7


def history(*epochs, spread=0.01):
    """Rows of a log from (top-1, confidence loss, total loss) of each epoch.

    From one to the next the losses of four images change by the mean's change, give or take
    `spread`.
    """
    names = ("validation_top1_pct", "validation_confidence_loss", "validation_loss_total")
    rows = [{"epoch": n, **dict(zip(names, row, strict=True))} for n, row in enumerate(epochs)]
    for row in rows:
        places = (-row["epoch"] * spread, row["epoch"] * spread) * 2
        row["validation_class_losses"] = [row[names[1]] + place for place in places]
        row["validation_loss_background"] = 4.0 - row["epoch"]
    return rows


LOG = history((90.0, 0.50, 9.0), (89.0, 0.52, 3.0), (88.5, 0.54, 2.0), (88.0, 0.56, 2.0))


OWN_ANSWERS = params_of(FINETUNED)(class_term="confidence")


def test_rule_looks_at_the_class_term_of_the_run():
    """A model that leans less on its context is less sure, and right more often."""
    rows = [row | {"validation_label_loss": 1.0 - 0.1 * row["epoch"]} for row in LOG]
    labels = judge(1e-6, rows, params_of(FINETUNED)(class_term="label"))
    assert (labels["class_loss_before"], labels["class_loss"]) == pytest.approx((1.0, 0.7))
    assert not labels["rising"] and judge(1e-6, rows, OWN_ANSWERS)["rising"]
    baseline = params_of(FINETUNED)(class_term="label", method="rrr")
    assert class_loss_column(baseline) == class_loss_column(
        params_of(FINETUNED)(class_term="label")
    )


def test_judge_compares_the_kept_epoch_with_the_start():
    verdict = judge(1e-6, LOG, OWN_ANSWERS)
    assert verdict["drop_pts"] == 2.0 and verdict["validation_top1_pct"] == 88.0
    assert (verdict["class_loss_before"], verdict["class_loss"]) == (0.50, 0.56)
    assert verdict["validation_loss_total"] == 2.0 and verdict["lr"] == 1e-6
    assert (verdict["background_before"], verdict["background_after"]) == (4.0, 1.0)
    lowest = OWN_ANSWERS.model_copy(update={"keep": "lowest_validation_loss"})
    rows = [*LOG, LOG[-1] | {"epoch": 4, "validation_loss_total": 5.0, "validation_top1_pct": 0.0}]
    assert judge(1e-6, rows, lowest) == verdict


@pytest.mark.parametrize(
    ("before", "rise", "spread", "rising"),
    [
        (0.0118, 0.0024, 0.0001, False),  # a fifth of next to nothing is no harm
        (0.5, 0.009, 0.001, False),  # the right class is 0.9 % less probable
        (0.5, 0.011, 0.001, True),
        (0.5, 0.011, 0.1, False),  # may be the draw of the images
        (0.01, 0.011, 0.001, True),
        (0.5, -0.2, 0.001, False),
    ],
)
def test_loss_rises_beyond_chance_and_what_is_allowed(before, rise, spread, rising):
    rows = history((90.0, before, 2.0), (90.0, before + rise, 1.0), spread=spread)
    found = judge(1e-6, rows, OWN_ANSWERS)
    assert found["rising"] is rising
    assert found["class_loss_error"] == pytest.approx(spread / 3**0.5)


# The search

CFG = params_of("04a_cures")(
    rates=[2.0e-5, 1.0e-5], epochs=2, images_per_class=3, validation_images=120
)


def test_runs_are_those_of_the_preset_but_shorter():
    """The weights are left to the paper's tables, whatever the preset's own are."""
    base = params_of(FINETUNED)(class_term="confidence")
    params = arm_params(CFG, base, "tiny", "rrr", "described")
    assert (params.model, params.method, params.protocol) == ("tiny", "rrr", "described")
    assert (params.epochs, params.images_per_class) == (2, 3)
    assert (params.validation_images, params.validation_maps) == (120, CFG.validation_maps)
    assert params.weight_background is None and params.weight_classification is None
    own = arm_params(CFG, base, "tiny", "relevance", "published")
    assert own.weight_classification == base.weight_classification == 0.05


def test_grids_lie_as_far_from_ours_as_the_papers_rates():
    assert rate_factor("relevance", "published") == 1
    assert rate_factor("gradmask", "published") == pytest.approx(2e-4 / 3e-6)
    assert rate_factor("rrr", "published") == pytest.approx(2e-6 / 3e-6)
    assert {rate_factor(method, "described") for method in BASELINES} == {1.0}

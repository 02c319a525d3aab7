"""Dose and response on photographs: what is put beside what, on answers that are known."""

import numpy as np
import pandas as pd
import pytest

from reproduction.measures.paired import ORIGINAL, difference
from reproduction.runs import dose
from reproduction.runs.dose import HOMES, PREDICTED, contrasts
from reproduction.runs.mechanism import MASKS

IMAGES, SEEDS = 50, (1, 2, 3)
LEAN = dict(zip(HOMES, (2, 6, 10, 14), strict=True))  # of 50 images, that are right at home alone


def counted(arm, masks, world, place):
    """Right answers: relevance mends half of the lean, with masks of the object alone."""
    gone = LEAN[world] if place in ("away", "never") else 0
    mended = gone / 2 if arm in ("relevance", "relevance_rule") and masks == MASKS[0] else 0
    return 40 - gone + mended


@pytest.fixture
def study():
    """Answers and figures of all arms, which are known."""
    arms = {arm for each in contrasts() for arm in (*each.more, *each.less)}
    arms |= {(f"{ORIGINAL}, {world}", MASKS[0]) for world in HOMES}
    parts, figures = [], []
    for seed in SEEDS:
        for named, masks in sorted(arms):
            arm, world = named.split(", ")
            told = {"arm": arm, "world": world, "masks": masks, "seed": seed, "lr": 5e-6}
            figures.append(told | {"on_object_pct": 50.0, "loss_pct": np.nan})
            for place in ("val", "home", "away", "never", "photo"):
                right = np.arange(IMAGES) < seed + counted(arm, masks, world, place)
                seen = {"dataset": place, "index": range(IMAGES), "right": right, "in_a": True}
                parts.append(pd.DataFrame(seen).assign(**told))
    return pd.concat(parts, ignore_index=True), pd.DataFrame(figures)


def test_what_was_made_is_what_the_tables_say(study):
    found = dose.tables(*study)
    arms = found["dose"].set_index(["arm", "masks", "world"])
    for world, lean in LEAN.items():
        assert arms.loc[(ORIGINAL, MASKS[0], world), "background_gap_pts"] == 2 * lean
        assert arms.loc[("relevance", MASKS[0], world), "adds_pts"] == lean
        assert arms.loc[("relevance", MASKS[0], world), "adds_photo_pts"] == 0
    told = found["dose_contrasts"].set_index(["on", "question"])
    effect, effect_of_gap = (told["effect_pts"][on] for on in ("away and never", "gap"))
    assert effect["relevance over label: home 1 less home 0.5"] == 14 - 2
    assert effect["relevance: object over ellipse"] == effect["own: relevance over label"] == 10
    assert effect_of_gap["originals: home 1 less home 0.5"] == 24
    assert effect_of_gap["own: relevance over label"] == -10
    said = found["dose_predicted"].set_index("question")
    assert said["found"]["photo: own: relevance over label"] == "no difference"
    assert said["found"]["gap: own: relevance over label"] == "below 0"
    assert said["held"]["own: relevance over label"] == "yes"
    assert said["held"]["own: swap over label"] == "no"


def test_two_sets_of_the_same_objects_tell_no_more_than_one(study):
    """Both have the same answers here, so that the interval of their mean is that of one."""
    answers, _ = study
    right = answers.astype({"right": float}).assign(arm=answers["arm"] + ", " + answers["world"])
    every = pd.concat([right, dose.by_object(right)])
    more, less = (every[every["arm"] == f"{name}, {HOMES[-1]}"] for name in ("relevance", "label"))
    more = more[more["masks"] == MASKS[0]]
    one, both = (
        difference(more, less, (place,))[["change_pts", "low_pts", "high_pts"]]
        for place in ("away", dose.SHIFTED)
    )
    pd.testing.assert_series_equal(one, both, check_names=False)
    assert both["low_pts"] < both["change_pts"]


def test_every_prediction_has_a_contrast_and_arms_that_are_lacking_are_told(study):
    asked = {each.question for each in contrasts()}
    questions = pd.read_csv(PREDICTED)["question"]
    assert questions.is_unique
    assert {q.removeprefix("gap: ").removeprefix("photo: ") for q in questions} <= asked
    answers, figures = study
    lost = (figures["arm"] == "swap") & (figures["world"] == "home 1") & (figures["seed"] > 1)
    with pytest.raises(ValueError, match=r"dose: seeds that have all \d+ arms: \[1\]; two are"):
        dose.tables(answers, figures[~lost])

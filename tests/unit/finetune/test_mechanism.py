"""Why the method works: what is put beside what, on answers that are known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from reproduction.params.cells import params_of
from reproduction.params.preset import read_preset
from reproduction.runs import grids, mechanism
from reproduction.runs.mechanism import EXACT, LOSSES, MASKS, MEDIATORS, PREDICTED, contrasts
from reproduction.runs.run import needs
from reproduction.stages import preset_file


def test_every_contrast_was_predicted_is_balanced_and_has_its_runs():
    asked = grids.of(params_of("04_cures").from_preset(preset_file("why")))
    made = set(asked[["arm", "masks"]].itertuples(index=False, name=None))
    predicted = pd.read_csv(PREDICTED)["question"]
    for each in contrasts():
        assert len(each.more) == len(each.less) and {*each.more, *each.less} <= made
        assert each.question in predicted.tolist()
    assert asked.groupby(["arm", "masks"])["seed"].nunique().eq(5).all()
    originals = asked[asked["arm"] == "original"]["run"]
    assert len({run.name for run in originals}) == 5
    rows = grids.of_preset(read_preset(preset_file("why")))
    assert all(need.name in rows for row in rows.values() for need in needs(row))


IMAGES, SEEDS = 40, (1, 2, 3)
GAINS = {  # right answers of IMAGES beyond those of labels, which have 10
    ("relevance", "annotated"): 12,
    ("relevance_exact", "annotated"): 4,
    ("relevance", "others"): 5,
    ("relevance_exact", "others"): 3,
}


@pytest.fixture
def study():
    """Answers and figures of all arms, which are known."""
    arms = {arm for each in contrasts() for arm in (*each.more, *each.less)}
    arms |= {(name, "annotated") for name in ("original", "label", "label_rule")}
    parts, figures = [], []
    for seed in SEEDS:
        for arm, masks in sorted(arms):
            named = {"arm": arm, "masks": masks, "seed": seed}
            count = 10 + seed + GAINS.get((arm, masks), 0)
            for name in ("val", "a"):
                right = np.arange(IMAGES) < count
                seen = {"dataset": name, "index": range(IMAGES), "right": right, "in_a": True}
                parts.append(pd.DataFrame(seen).assign(**named))
            on = 50 + GAINS.get((arm, masks), 0) + 0.1 * seed
            loss = np.nan if arm.startswith("label") else 50.0
            looks = {"lr": 5e-6, "on_object_pct": on, "background_gap_pts": 30.0}
            looks |= {"only_background_pct": 17.0}
            figures.append(named | looks | {"loss_pct": loss})
    return pd.concat(parts, ignore_index=True), pd.DataFrame(figures)


def test_contrasts_are_those_of_the_answers_and_a_prediction_is_held_against_them(study):
    found = mechanism.tables(*study, ["a"])
    effect = found["why_contrasts"].set_index("question")["effect_pts"]
    per_image = 100 / IMAGES
    assert effect["relevance: published less exact, annotated"] == pytest.approx(8 * per_image)
    assert effect["relevance: object over others, exact"] == pytest.approx(1 * per_image)
    crossed = effect["relevance: the gradient's part that needs the object"]
    assert crossed == pytest.approx((8 - 2) * per_image)
    assert effect["readout: published less exact, annotated"] == 0
    apart = found["why_held_by_loss"].query("held == 'nothing'").set_index("loss")
    for arm in LOSSES:
        leads = [effect[f"{arm}: published less exact, {masks}"] for masks in MASKS]
        assert apart.loc[arm, "gradient_pts"] == pytest.approx(np.mean(leads))
    assert found["why_contrasts"]["seeds"].eq(len(SEEDS)).all() and apart["seeds"].eq(3).all()
    arms = found["why"].set_index(["arm", "masks"])
    assert arms.loc[("relevance", "annotated"), "adds_pts"] == pytest.approx(12 * per_image)
    assert arms.loc[("relevance", "annotated"), "loss_pct"] == pytest.approx(50)
    assert np.isnan(arms.loc[("label", "annotated"), "loss_pct"])
    told = found["why_predicted"].set_index("question")
    assert told.loc["relevance: published less exact, annotated", "held"] == "yes"
    assert told.loc["readout: published less exact, annotated", "found"] == "not told"
    assert told.loc["on the object: relevance, published less exact", "held"] == "no"
    assert told["found"].notna().all()


def test_a_seed_without_all_arms_counts_nowhere_and_one_alone_is_refused(study):
    answers, figures = study
    lost = (figures["seed"] == 3) & (figures["arm"] == "l1_exact") & (figures["masks"] == "ellipse")
    assert mechanism.tables(answers, figures[~lost], ["a"])["why"]["seeds"].eq(2).all()
    with pytest.raises(ValueError, match=r"why: seeds that have all 23 arms: \[1\]; two are"):
        mechanism.tables(answers, figures[figures["seed"] < 2], ["a"])


def test_an_interval_over_originals_is_student_s_and_a_point_where_all_agree():
    values = np.array([1.0, 2.0, 4.0])
    ends = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    assert list(mechanism.by_t(values, "x").values())[1:] == pytest.approx(ends)
    assert list(mechanism.by_t(np.ones(3), "x").values()) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("lead", [4.0, 0.0])
def test_what_the_gradient_gains_is_told_from_what_a_mediator_explains(lead):
    rng, rows = np.random.default_rng(0), []
    for seed in range(5):
        for arm in LOSSES:
            for tail in ("", EXACT):
                for masks in MASKS:
                    on = rng.normal()
                    gap = rng.normal() + 3 * (tail == EXACT)
                    adds = lead * (tail == "") + 2 * on - gap + LOSSES.index(arm)
                    values = dict(zip(MEDIATORS, (on, gap, 1.0), strict=True))
                    row = {"arm": arm + tail, "masks": masks, "seed": seed, "adds_pts": adds}
                    rows.append(row | values | {"published": tail == ""})
    held = mechanism.held_fixed(pd.DataFrame(rows)).set_index("held")
    both = held.loc[" and ".join(MEDIATORS[:2])]
    assert both["gradient_pts"] == pytest.approx(lead)
    assert held.loc["nothing", "gradient_pts"] == pytest.approx(lead + 3, abs=2)
    assert held.loc["background_gap_pts", "slope"] == pytest.approx(-1, abs=0.5)


SAID = {"above 0": (1.0, 0.5, 1.5), "not told": (0.5, -0.5, 1.5), "below 0": (-1.0, -1.5, -0.5)}
WORLDS = {  # what lowers the loss further is the exact gradient: published less exact is above 0
    "the map": {"published less exact": "below 0", "on_object": "below 0", "share": "not told"},
    "beside": {"needs": "not told", "on_object": "not told", "share": "above 0"},
    "both": {"gap": "not told", "on_object": "below 0", "share": "above 0"},
}


@pytest.mark.parametrize("world", WORLDS)
def test_an_explanation_stands_where_all_that_it_predicts_came_out(world):
    turned = WORLDS[world]

    def ends(name, said, unit=""):
        return dict(
            zip((f"{name}{end}{unit}" for end in ("", "_low", "_high")), SAID[said], strict=True)
        )

    rows = []
    for each in contrasts():
        said = [turned[part] for part in turned if part in each.question]
        row = ends("effect", (said or ["above 0"])[0], "_pts") | ends("loss", "above 0")
        rows.append({"question": each.question} | row | ends("on_object", turned["on_object"]))
    held = [
        {"held": name} | ends("gradient_pts", turned.get(short, "above 0"))
        for name, short in (("on_object_pct", "share"), ("background_gap_pts", "gap"))
    ]
    found = mechanism.explained(pd.DataFrame(rows), pd.DataFrame(held))
    whole = found.set_index("explanation")[[*LOSSES]].eq("yes").all(axis=1).groupby(level=0).all()
    assert whole[whole].index.tolist() == [world]

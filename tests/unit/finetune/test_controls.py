"""Twins: which runs there are, and that only the relevance terms tell them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from relevit.config import BenchmarkParams, RobustnessParams, SegmentationParams
from relevit.finetune.controls import OURS, OWN, Model, compared, with_and_without
from relevit.finetune.runs import needs, own_runs

ROOT = Path(__file__).parents[3]
ARMS = {"labels": {"class_term": "label", "weight_classification": 0.5}}
PRESET = """
common: {model: tiny, seeds: [1]}
02_finetune: {epochs: 1, images_per_class: 1, lr: 1.0e-4, class_term: confidence}
"""

pytestmark = pytest.mark.usefixtures("project_of_one_preset")


def params(**others) -> RobustnessParams:
    return RobustnessParams(**{"model": "tiny", "seeds": [1], "arms": ARMS} | others)


def test_every_run_has_a_twin_that_lacks_the_relevance_terms_alone():
    models = compared(params())
    assert [(m.arm, m.relevance) for m in models] == [
        ("original", False),
        *[(arm, relevance) for arm in (OURS, "labels") for relevance in (True, False)],
    ]
    assert models[Model(OWN, 1, OURS, True)].name == own_runs(params(), [1])[0].name
    for arm in (OURS, "labels"):
        ours, twin = (models[Model(OWN, 1, arm, on)].params for on in (True, False))
        assert ours.model_copy(update={"weight_relevance": 0.0}) == twin
        assert (ours.lr, ours.seed) == (1.0e-4, 1)
    assert models[Model(OWN, 1, "labels", True)].params.weight_classification == 0.5
    # The maps of the same two are tested.
    tested = with_and_without(SegmentationParams(model="tiny", seeds=[1]))
    for arm, on in (("with", True), ("without", False)):
        assert tested[arm].name == models[Model(OWN, 1, OURS, on)].name


def test_arms_and_worlds_may_have_fewer_seeds_and_worlds_another_arm():
    others = {"home_shares": [0.5], "home_seeds": [2], "home_arm": "labels"}
    models = compared(params(seeds=[0, 1], arm_seeds=[1], **others))
    runs = [(m.world, m.seed, m.arm) for m in models if m.relevance]
    own = [("own", 0, OURS), ("own", 1, OURS), ("own", 1, "labels")]
    assert runs == [*own, ("home 0.5", 2, "labels")]
    for wrong, words in (
        ({"seeds": [0], "arm_seeds": [1]}, r"arm_seeds = \[1\] .*\[1\] are not among seeds"),
        ({"home_arm": "none"}, r"home_arm = 'none' .*it is no arm; use one of ours"),
    ):
        with pytest.raises(ValueError, match=words):
            RobustnessParams.checked(wrong, "03_robustness")


def test_other_worlds_have_their_own_homes_and_an_original_a_seed():
    models = compared(params(home_shares=[0.5], seeds=[0, 1]))
    names = {model: row.name for model, row in models.items()}
    assert names[Model(OWN, 0, "original", False)] == names[Model(OWN, 1, "original", False)]
    originals = [names[Model("home 0.5", seed, "original", False)] for seed in (0, 1)]
    assert [name.split("-")[0] for name in originals] == [
        f"original.tiny.home_0.5.seed{seed}" for seed in (0, 1)
    ]
    others = {"home_share": 0.5, "classes": "objects"}
    elsewhere = RobustnessParams(model="tiny", seeds=[0], benchmark=BenchmarkParams(**others))
    assert compared(elsewhere)[Model(OWN, 0, "original", False)].name not in originals
    for seed in (0, 1):
        twins = [models[Model("home 0.5", seed, OURS, on)] for on in (True, False)]
        assert {row.params.benchmark.home_share for row in twins} == {0.5}
        assert [need.name for row in twins for need in needs(row)] == [originals[seed]] * 2


def test_wrong_arms_and_worlds_are_refused():
    with pytest.raises(ValueError, match=r"quick\.yaml: 03_robustness: arm 'odd': speed = 3 is no"):
        compared(params(arms={"odd": {"speed": 3}}))
    text = r"home_shares \[0\.5\] with data 'imagenet', whose classes have no homes; give data"
    with pytest.raises(ValueError, match=text):
        compared(
            params(benchmark=BenchmarkParams(data="imagenet", data_root="none"), home_shares=[0.5])
        )
    for arms, words in (
        ({"ours": {}}, "arm 'ours': give it a name"),
        ({"a/b": {}}, "arm 'a/b': give it a name of small letters"),
        ({"later": {"seed": 3, "epochs": 2}}, "arm 'later' changes seed, in which twins and"),
    ):
        with pytest.raises(ValueError, match=words):
            RobustnessParams.checked({"arms": arms}, "03_robustness")
    with pytest.raises(ValueError, match=r"home_shares\.0 = 1\.5 .*less than or equal to 1"):
        RobustnessParams.checked({"home_shares": [1.5]}, "03_robustness")

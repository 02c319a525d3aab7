"""Twins: which runs there are, that only the relevance terms tell them apart, and what is kept."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import yaml

from relevit.base.files import file_fingerprint
from relevit.config import BenchmarkParams, ControlsParams
from relevit.data.benchmark import open_benchmark
from relevit.data.cutouts import TEST_SETS
from relevit.finetune import controls
from relevit.finetune.controls import OURS, OWN, compared, run_study, worlds
from relevit.models.checkpoints import read_tensors
from relevit.models.registry import shipped_weights

HABITATS, FIRST = BenchmarkParams(home_share=0.8), BenchmarkParams(data="cutouts")
OWN_FILES = {
    "common": {"model": "tiny", "benchmark": {"data": "habitats", "home_share": 0.8}},
    "00_original": {"source": "train", "images": 40},
    "02_finetune": {"epochs": 1, "images_per_class": 1, "classes": 2, "lr": 1.0e-4}
    | {"class_term": "confidence", "weight_classification": None}
    | {"validation_images": 40, "validation_maps": 8},
}
ARMS = {"labels": {"class_term": "label", "weight_classification": 0.5}}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose own original and run of seed 1 are there: shipped weights for both."""
    (tmp_path / "notebooks").mkdir()
    params = tmp_path / "params" / "quick"
    params.mkdir(parents=True)
    for name, values in OWN_FILES.items():
        (params / f"{name}.yaml").write_text(yaml.safe_dump(values))
    for stage in ("00_original", "02_finetune/seed1"):
        folder = tmp_path / "outputs" / "quick" / stage
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps({"parameters": {"model": "tiny"}}))
        (folder / "weights.safetensors").symlink_to(shipped_weights("tiny", "cutouts"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def params(**others) -> ControlsParams:
    values = {"model": "tiny", "benchmark": HABITATS, "seeds": [1], "arms": ARMS}
    few = {"images_per_set": 40, "challenge_images": 40, "looked_at": 8}
    return ControlsParams(device="cpu", precision="float32", **values | few | others)


def test_every_run_has_a_twin_that_lacks_the_relevance_terms_alone(project):
    (world,) = worlds(params(), project / "out")
    original, own, *made = compared(params(), world)
    assert (original.arm, own.arm, own.params) == ("original", OURS, None)
    assert own.weights.parent.name == "seed1", "the run of 02_finetune itself"
    assert [(m.arm, m.relevance) for m in made] == [(OURS, False), *[("labels", r) for r in (1, 0)]]
    ours, with_labels, without = (model.params for model in made)
    assert ours.weight_relevance == 0 and ours.class_term == "confidence"
    assert with_labels.weight_relevance is None and with_labels.weight_classification == 0.5
    assert with_labels.model_copy(update={"weight_relevance": 0.0}) == without
    assert {p.lr for p in (ours, with_labels)} == {1.0e-4} and ours.seed == world.seed


def test_other_worlds_have_their_own_homes_and_originals(project):
    own, more = worlds(params(home_shares=[0.5]), project / "out")
    assert (own.name, own.trained, own.bench.home_share) == (OWN, False, 0.8)
    assert (more.name, more.trained, more.bench.home_share) == ("home 0.5", True, 0.5)
    original, *runs = compared(params(), more)
    assert (
        original.weights == project / "out" / "home0.5.seed1" / "original" / "weights.safetensors"
    )
    assert [(m.arm, m.relevance) for m in runs[:2]] == [(OURS, True), (OURS, False)]
    assert {m.params.benchmark.home_share for m in runs} == {0.5}


def test_all_models_are_made_once_and_asked(project, monkeypatch):
    asked = {
        "03_robustness": {"images_per_set": 40, "precision": "float32"},
        "seeds": {"seeds": [1]},
    }
    for name, values in asked.items():
        (project / "params" / "quick" / f"{name}.yaml").write_text(yaml.safe_dump(values))
    cfg, folder, seen = params(arms={}, home_shares=[0.5], original_images=40), project / "out", []
    answers, figures = run_study(cfg, folder, seen.append)
    assert seen == [
        "own.original",
        *(f"own.seed1/{name}" for name in ("ours.with", "ours.without")),
        *(f"home0.5.seed1/{name}" for name in ("original", "ours.with", "ours.without")),
    ]
    assert set(answers["dataset"]) == set(TEST_SETS) and len(answers) == 6 * 9 * 40
    in_a = answers["label"].isin(open_benchmark(cfg).split(1)[0])
    assert answers["in_a"].equals(in_a) and in_a.mean() == 0.5
    assert len(figures) == 6 and figures["background_gap_pts"].notna().all()
    own = (
        answers[answers["world"] == OWN]
        .set_index(["arm", "relevance", "dataset", "index"])
        .sort_index()
    )
    same = own.loc["original", False]["right"] == own.loc[OURS, True]["right"]
    assert same.all(), "both are the shipped weights here"
    twins = [folder / "home0.5.seed1" / f"ours.{kind}" for kind in ("with", "without")]
    assert len({file_fingerprint(twin / "weights.safetensors") for twin in twins}) == 2
    origin = twins[0].parent / "original" / "weights.safetensors"
    assert '"seed": 1' in read_tensors(origin)[1]["identity"]
    monkeypatch.setattr(controls, "backgrounds_challenge", None)  # would fail if it were called
    again = run_study(cfg, folder)
    for found, before in zip(again, (answers, figures), strict=True):
        pd.testing.assert_frame_equal(found, before)


@pytest.mark.parametrize(("count", "shared"), [(40, True), (80, False)])
def test_answers_of_own_models_are_those_of_03_robustness_if_it_asks_as_much(
    project, count, shared
):
    files = {"03_robustness": {"images_per_set": count, "precision": "float32"}, "seeds": {}}
    for name, values in files.items():
        text = yaml.safe_dump(values or {"seeds": [1]})
        (project / "params" / "quick" / f"{name}.yaml").write_text(text)
    (world,) = worlds(params(arms={}), project / "out")
    models = compared(params(arms={}), world)
    kept = [str(controls._kept(params(), model).relative_to(project)) for model in models]
    own = [f"out/own.{name}/sets" for name in ("original", "seed1/ours.with", "seed1/ours.without")]
    there = [f"outputs/quick/03_robustness/{run}" for run in ("original", "seed1")]
    assert kept == ([*there, own[2]] if shared else own)


def test_wrong_arms_and_worlds_are_refused_before_any_work(project):
    (world,) = worlds(params(), project / "out")
    with pytest.raises(ValueError, match=r"03_controls\.yaml: arm 'odd': speed = 3 is no param"):
        list(compared(params(arms={"odd": {"speed": 3}}), world))
    text = r"home_shares \[0\.5\] with data 'cutouts', whose classes have no homes; give data"
    with pytest.raises(ValueError, match=text):
        worlds(params(benchmark=FIRST, home_shares=[0.5]), project / "out")
    for arms, words in (
        ({"ours": {}}, "arm 'ours': give it a name"),
        ({"a/b": {}}, "arm 'a/b': give it a name of small letters"),
        ({"later": {"seed": 3, "epochs": 2}}, "arm 'later' changes seed, in which twins and"),
    ):
        with pytest.raises(ValueError, match=words):
            ControlsParams.checked({"arms": arms}, "03_controls.yaml")
    with pytest.raises(ValueError, match=r"home_shares\.0 = 1\.5 .*less than or equal to 1"):
        ControlsParams.checked({"home_shares": [1.5]}, "03_controls.yaml")
    assert not (project / "out").exists()


def test_a_run_that_was_made_otherwise_is_no_twin(project):
    path = project / "outputs" / "quick" / "02_finetune" / "seed1" / "summary.json"
    path.write_text(json.dumps({"parameters": {"model": "tiny", "lr": 0.5}}))
    (world,) = worlds(params(), project / "out")
    with pytest.raises(
        ValueError, match=r"lr = 0\.5, and .*02_finetune\.yaml or common\.yaml says"
    ):
        list(compared(params(), world))

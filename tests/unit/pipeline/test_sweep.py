"""The sweep: which runs a preset has, what came of each, and which are made again."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from relevit.config import ComparisonParams, PipelineParams
from relevit.config.robustvit import LOSS_WEIGHTS
from relevit.data.benchmark import open_benchmark
from relevit.models.registry import shipped_weights
from relevit.pipeline import answers, sweep
from relevit.pipeline.answers import answer, weights_of
from relevit.pipeline.sweep import (
    OUTCOME,
    Run,
    compared_models,
    failures,
    find_runs,
    sweep_runs,
    unfinished,
)

ROOT = Path(__file__).parents[3]
GRIDS = [
    {"models": ["tiny"], "methods": ["gradmask", "rrr"], "seeds": [0, 1]},
    {"models": ["tiny"], "masks": ["annotated", "tokencut"], "seeds": [0]},
]
RUNS = [
    Run("tiny", "gradmask", "published", "annotated", 0),
    Run("tiny", "gradmask", "published", "annotated", 1),
    Run("tiny", "rrr", "published", "annotated", 0),
    Run("tiny", "rrr", "published", "annotated", 1),
    Run("tiny", "relevance", "published", "annotated", 0),
    Run("tiny", "relevance", "published", "tokencut", 0),
]


def pipeline(grids=GRIDS, **values):
    return PipelineParams.checked({"sweep": grids} | values, "pipeline")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project and nothing in it; its runs' folders are in `outputs`."""
    for folder in ("notebooks", "params/quick"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def end(project, run, outcome, error=None):
    """Leave a run's folder as the pipeline does."""
    folder = project / "outputs" / "quick" / "02_finetune" / run.name
    folder.mkdir(parents=True)
    (folder / OUTCOME).write_text(outcome + "\n")
    if outcome == "done":
        (folder / "summary.json").write_text("{}")
    if error:
        output = new_output("error", ename="ValueError", evalue=error, traceback=[])
        notebook = new_notebook(cells=[new_code_cell("1 / 0", outputs=[output])])
        nbformat.write(notebook, folder / "executed.ipynb")
    return folder


def test_every_combination_of_every_grid_is_a_run():
    assert sweep_runs(pipeline()) == RUNS


def test_baselines_do_not_take_the_weights_of_the_preset_s_method():
    baseline, *_, ours = (run.parameters for run in RUNS)
    assert {key: ours[key] for key in Run._fields} == RUNS[-1]._asdict()
    assert ours["run"] == RUNS[-1].name and not set(LOSS_WEIGHTS) & set(ours)
    assert {baseline[key] for key in LOSS_WEIGHTS} == {None}


def test_run_that_two_grids_name_is_made_once():
    assert sweep_runs(pipeline([*GRIDS, GRIDS[0]])) == RUNS


def test_no_sweep_has_no_runs():
    assert sweep_runs(pipeline([])) == []


def test_names_are_those_of_the_snakefile():
    lines = (ROOT / "Snakefile").read_text().splitlines()
    (line,) = (line for line in lines if "outcome=" in line)
    pattern = line.split("02_finetune/")[1].split("/outcome.txt")[0].replace("{{", "{")
    for run in sweep_runs(pipeline()):
        assert run.name == pattern.replace("}}", "}").format(**run._asdict())


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"models": ["vit-c"], "seeds": [0]}, "sweep.0.models.0 = 'vit-c'"),
        ({"models": ["tiny"], "seeds": []}, "sweep.0.seeds"),
        ({"models": ["tiny"], "seeds": [0], "methods": ["grad_mask"]}, "sweep.0.methods.0"),
        ({"models": ["tiny"], "seeds": [0], "mask": ["tokencut"]}, "sweep.0.mask"),
    ],
)
def test_wrong_grid_is_refused(grid, words):
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        pipeline([grid])


def test_runs_that_ended_are_found_and_failed_ones_are_named_with_their_error(project):
    folders = {run: end(project, run, "done") for run in RUNS[2:]}
    end(project, RUNS[0], "failed", "first line\nmask 3 has no object")
    end(project, RUNS[1], "failed")
    found, missing = find_runs(ComparisonParams(), RUNS)
    assert found == folders
    assert [lost.run for lost in missing] == [RUNS[0].name, RUNS[1].name]
    assert missing[0].reason == "ValueError: mask 3 has no object"
    assert "killed" in missing[1].reason


def test_run_that_was_never_made_is_made_and_may_fail(project, monkeypatch):
    made = []

    def need_stage(cfg, notebook, folder, /, **parameters):
        made.append((notebook, folder, parameters))
        if parameters["seed"]:
            raise RuntimeError("Traceback ...\nno room on the disk" if parameters["seed"] else "")
        return project / folder

    monkeypatch.setattr(sweep, "need_stage", need_stage)
    found, missing = find_runs(ComparisonParams(), RUNS)
    assert [folder for _, folder, _ in made] == [run.name for run in RUNS]
    notebook, _, parameters = made[2]
    assert notebook == "02_finetune"
    assert parameters == RUNS[2].parameters
    assert set(found) == {run for run in RUNS if run.seed == 0}
    assert {lost.reason for lost in missing} == {"no room on the disk"}


def test_notebook_without_an_error_or_none_at_all_is_taken_for_killed(project):
    folder = end(project, RUNS[0], "failed")
    assert "before its notebook was written" in failures(pipeline())[0].reason
    nbformat.write(new_notebook(cells=[new_code_cell("1 + 1")]), folder / "executed.ipynb")
    assert "shows no error" in failures(pipeline())[0].reason


def test_mark_that_a_full_disk_has_left_empty_is_not_done(project):
    end(project, RUNS[0], "")
    assert [lost.run for lost in failures(pipeline())] == [RUNS[0].name]
    assert len(unfinished(pipeline())) == len(RUNS)


def test_what_is_not_done_is_unfinished(project):
    end(project, RUNS[0], "failed")
    end(project, RUNS[1], "done")
    assert [lost.run for lost in failures(pipeline())] == [RUNS[0].name]
    names = [run.name for run in RUNS if run != RUNS[1]]
    assert unfinished(pipeline()) == [f"outputs/quick/02_finetune/{n}/outcome.txt" for n in names]
    for run in RUNS[2:]:
        end(project, run, "done")
    (project / unfinished(pipeline())[0]).write_text("done\n")
    assert unfinished(pipeline()) == [] and failures(pipeline()) == []


# Answers to the nine sets, one by one

OTHER = pipeline(model="dinov2-s")  # another model than the sweep's, which so has an original
CFG = ComparisonParams(model="dinov2-s")


def test_originals_come_before_the_runs_that_are_compared_with_them():
    assert compared_models(OTHER) == ["tiny", *(run.name for run in RUNS)]
    assert compared_models(pipeline(model="tiny")) == [run.name for run in RUNS]


def test_what_is_compared_can_be_evaluated_one_by_one(project):
    folders = {run: end(project, run, "done") for run in RUNS[1:]}
    end(project, RUNS[0], "failed")
    found = {name: weights_of(CFG, OTHER, name) for name in compared_models(OTHER)}
    assert found.pop("tiny") == ("tiny", shipped_weights("tiny", "habitats"))
    assert found.pop(RUNS[0].name) is None, "it has failed"
    assert found == {
        run.name: (run.model, folder / "weights.safetensors") for run, folder in folders.items()
    }
    assert "failed" in answer(CFG, OTHER, RUNS[0].name)


def test_answers_are_those_that_the_notebook_looks_for(project, monkeypatch):
    seen = []
    monkeypatch.setattr(answers, "load_classifier", lambda *asked: asked)
    monkeypatch.setattr(answers, "answer_sets", lambda *asked: seen.append(asked))
    assert "answers of tiny are in" in answer(CFG, OTHER, "tiny")
    folder = project / "outputs/quick/03_comparison/tiny"
    bench, weights = open_benchmark(CFG), shipped_weights("tiny", "habitats")
    classifier = (bench, "tiny", weights, "auto", "auto")
    assert seen == [(classifier, weights, folder, bench, CFG.images_per_set)]


def test_model_that_is_not_compared_is_refused():
    with pytest.raises(ValueError, match=r"answers: 'tinny' is none .*; use one of tiny, tiny\."):
        weights_of(CFG, OTHER, "tinny")

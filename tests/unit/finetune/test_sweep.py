"""The sweep: which runs a preset has, what came of each, and which are made again."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook, new_output

from relevit.config import ComparisonParams, PipelineParams
from relevit.finetune import sweep
from relevit.finetune.sweep import (
    OUTCOME,
    Run,
    compared_models,
    expand,
    failures,
    find_runs,
    sweep_runs,
    unfinished,
)
from relevit.pipeline.answers import models_to_evaluate

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


def pipeline(grids=GRIDS):
    return PipelineParams.checked({"preset": "quick", "seeds": [0], "sweep": grids}, "pipeline")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a sweep and nothing else; its runs' folders are in `outputs`."""
    (tmp_path / "notebooks").mkdir()
    params = tmp_path / "params" / "quick"
    params.mkdir(parents=True)
    values = {"preset": "quick", "seeds": [0], "sweep": GRIDS}
    (params / "pipeline.yaml").write_text(yaml.safe_dump(values))
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
    assert expand(pipeline()) == RUNS


def test_run_that_two_grids_name_is_made_once():
    assert expand(pipeline([*GRIDS, GRIDS[0]])) == RUNS


def test_no_sweep_has_no_runs():
    assert expand(pipeline([])) == []


def test_names_are_those_of_the_snakefile(project):
    lines = (ROOT / "Snakefile").read_text().splitlines()
    (line,) = (line for line in lines if "outcome=" in line)
    pattern = line.split("02_finetune/")[1].split("/outcome.txt")[0].replace("{{", "{")
    for run in sweep_runs("quick"):
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
    found, missing = find_runs(ComparisonParams())
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
    found, missing = find_runs(ComparisonParams())
    assert [folder for _, folder, _ in made] == [run.name for run in RUNS]
    notebook, name, parameters = made[2]
    assert notebook == "02_finetune"
    assert parameters == {"run": name, **RUNS[2]._asdict()}
    assert set(found) == {run for run in RUNS if run.seed == 0}
    assert {lost.reason for lost in missing} == {"no room on the disk"}


def test_notebook_without_an_error_or_none_at_all_is_taken_for_killed(project):
    folder = end(project, RUNS[0], "failed")
    assert "before its notebook was written" in failures("quick")[0].reason
    nbformat.write(new_notebook(cells=[new_code_cell("1 + 1")]), folder / "executed.ipynb")
    assert "shows no error" in failures("quick")[0].reason


def test_what_is_not_done_is_unfinished(project):
    end(project, RUNS[0], "failed")
    end(project, RUNS[1], "done")
    assert [lost.run for lost in failures("quick")] == [RUNS[0].name]
    names = [run.name for run in RUNS if run != RUNS[1]]
    assert unfinished("quick") == [f"outputs/quick/02_finetune/{n}/outcome.txt" for n in names]
    for run in RUNS[2:]:
        end(project, run, "done")
    (project / unfinished("quick")[0]).write_text("done\n")
    assert unfinished("quick") == [] and failures("quick") == []


@pytest.fixture
def comparison(project) -> ComparisonParams:
    """Of a project whose own model is another than the sweep's, so that it has an original."""
    file = project / "params" / "quick" / "03_comparison.yaml"
    file.write_text(yaml.safe_dump({"preset": "quick", "model": "dinov2-s"}))
    (project / "params" / "quick" / "00_original.yaml").write_text("preset: quick\nmodel: dinov2-s")
    return ComparisonParams.from_file(file)


def test_originals_come_before_the_runs_that_are_compared_with_them(comparison):
    assert compared_models("quick") == ["tiny", *(run.name for run in RUNS)]


def test_what_is_compared_can_be_evaluated_one_by_one(comparison, project, monkeypatch):
    folders = {run.name: end(project, run, "done") for run in RUNS[1:]}
    end(project, RUNS[0], "failed")
    whole = models_to_evaluate(comparison)
    assert list(whole) == ["tiny", *folders]
    monkeypatch.setattr(sweep, "need_stage", lambda cfg, stage, run, /, **_: folders.pop(run))
    alone = {name: models_to_evaluate(comparison, name) for name in compared_models("quick")}
    assert alone.pop(RUNS[0].name) == {}, "it has failed"
    assert alone == {name: {name: model} for name, model in whole.items()}
    assert not folders, "each was asked for once"


def test_model_that_is_not_compared_is_refused(comparison):
    with pytest.raises(ValueError, match=r"--model 'tinny' is none .*; use one of tiny, tiny\."):
        models_to_evaluate(comparison, "tinny")

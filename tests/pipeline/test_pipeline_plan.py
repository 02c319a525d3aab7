"""What the pipeline plans: the stages that a change runs again, and the picture of them all."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from relevit.pipeline import run as pipeline

from .projects import PRESET, ROOT, RUN_S, SWEEP, SWEEP_GRIDS, edit, results

# `all` is no stage, and `answers` has jobs on real sets alone.
RULES = set(re.findall(r"(?m)^rule (\w+):", (ROOT / "Snakefile").read_text())) - {"all", "answers"}


# What follows from every stage that the report reads.
END = {"99_report"}
# What follows from the preset's own runs.
AFTER_RUNS = END | {
    "03_robustness",
    "03_controls",
    "03_comparison",
    "04_segmentation",
    "06_faithfulness",
    "07_iav",
    "09_sis",
    "10_knn",
}


def waiting(project: Path, monkeypatch) -> list[str]:
    """The stages that are left to run, as the command prints them but without what they do."""
    monkeypatch.chdir(project)
    return sorted(message.split(":")[0] for message in pipeline.todo(PRESET))


# What runs again


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
@pytest.mark.parametrize(
    ("name", "values", "stages"),
    [
        ("99_report", {"device": "cpu"}, END),
        (
            "03_robustness",
            {"images_per_set": 120},
            END | {"03_robustness", "03_controls", "03_comparison"},
        ),
        ("05_attribution", {"pairs": 20}, END | {"05_attribution"}),
        ("08_ablations", {"variant_seeds": [1]}, END | {"08_ablations"}),
        ("00_start", {"shown": 3}, END | {"00_start"}),
        ("01_masks", {"tau": 0.3}, END | {"01_masks", "02_finetune", "03_comparison"}),
        (
            "02_finetune",
            {"epochs": 4},
            AFTER_RUNS
            | {"01_masks", "02_learning_rate", "02_finetune", "02_baselines", "08_ablations"},
        ),
    ],
)
def test_changed_parameter_runs_what_follows_from_it(changeable, monkeypatch, name, values, stages):
    edit(changeable, name, **values)
    assert set(waiting(changeable, monkeypatch)) == stages


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_one_more_seed_runs_that_seed_and_what_its_masks_are_for(changeable, monkeypatch):
    edit(changeable, "seeds", seeds=[0, 1])
    stages = waiting(changeable, monkeypatch)
    assert stages.count("02_finetune") == 2, "the new seed, and the run on automatic masks"
    assert set(stages) == AFTER_RUNS | {"01_masks", "02_finetune"}


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_one_more_line_of_the_sweep_makes_its_runs_alone(changeable, monkeypatch):
    grid = {"models": ["tiny"], "methods": ["rrr"], "seeds": [0, 1]}
    edit(changeable, "pipeline", sweep=[*SWEEP_GRIDS, grid])
    stages = waiting(changeable, monkeypatch)
    assert stages.count("02_finetune") == 2
    assert set(stages) == {"02_finetune", "03_comparison"} | END


# What was deleted


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
@pytest.mark.parametrize(
    ("deleted", "stages"),
    [
        ("00_start", END | {"00_start"}),
        ("99_report", END),
        ("13_your_own", {"13_your_own"}),
        ("04_segmentation/maps.safetensors", END | {"04_segmentation", "06_faithfulness"}),
        (f"02_finetune/{SWEEP[0]}", END | {"02_finetune", "03_comparison"}),
        ("02_finetune/seed0", AFTER_RUNS | {"02_finetune"}),
    ],
)
def test_results_that_were_deleted_are_made_again(changeable, monkeypatch, deleted, stages):
    path = results(changeable) / deleted
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert set(waiting(changeable, monkeypatch)) == stages


# The picture of the stages


def test_graph_names_stages(monkeypatch):
    monkeypatch.chdir(ROOT)
    edges = pipeline.graph("quick")
    assert {name for edge in edges for name in edge} <= RULES
    assert edges == sorted(edges), "the picture would differ from run to run"
    assert {("original", "finetune"), ("learning_rate", "finetune")} <= set(edges)


def test_on_real_sets_what_is_compared_is_answered_in_jobs_of_its_own(monkeypatch):
    monkeypatch.chdir(ROOT)
    edges = set(pipeline.graph("paper"))
    assert {("sweep", "answers"), ("original", "answers"), ("answers", "comparison")} <= edges


# How stages share the machine


@pytest.mark.parametrize(
    ("jobs", "gpus", "threads", "places"),
    [(1, 0, 8, 1), (2, 0, 4, 2), (16, 0, 1, 16), (4, 1, 8, 1), (4, 2, 4, 2), (1, 4, 8, 4)],
)
def test_cores_are_shared_by_the_stages_that_compute_at_once(
    monkeypatch, jobs, gpus, threads, places
):
    commands = []
    monkeypatch.setattr(pipeline, "cores", lambda: 8)
    monkeypatch.setattr(pipeline.subprocess, "run", lambda command, **_: commands.append(command))
    pipeline.snakemake("quick", jobs=jobs, gpus=gpus)
    (command,) = commands
    assert {f"threads={threads}", f"gpus={gpus}", f"gpu={places}"} <= set(command)


@pytest.mark.parametrize(("gpus", "devices"), [(0, set()), (1, set()), (2, {"cuda:0", "cuda:1"})])
def test_runs_take_turns_on_several_gpus(monkeypatch, gpus, devices):
    monkeypatch.chdir(ROOT)
    options = ("--dry-run", "--forceall", "--printshellcmds")
    done = pipeline.snakemake("quick", *options, jobs=2, gpus=gpus, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "02_finetune.ipynb" in done.stdout + done.stderr
    assert set(re.findall(r"-p device (\S+)", done.stdout + done.stderr)) == devices

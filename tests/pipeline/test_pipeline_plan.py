"""What the pipeline plans: the stages that a change runs again, and the picture of them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from relevit import pipeline

from .projects import PRESET, ROOT, RUN_S, edit

RULES = {
    "original", "start", "masks", "learning_rate", "finetune", "baselines", "sweep", "robustness",
    "comparison", "segmentation", "attribution", "faithfulness", "ablations", "sis", "knn",
    "report", "page", "pages",
}  # fmt: skip


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
        ("99_report", {"device": "cpu"}, "99_report report.html"),
        ("03_robustness", {"images_per_set": 80}, "03_robustness 99_report report.html"),
        ("05_attribution", {"pairs": 20}, "05_attribution 99_report report.html"),
        ("00_start", {"shown": 3}, "00_start 99_report report.html"),
        (
            "02_finetune",
            {"epochs": 4},
            "02_finetune 02_learning_rate 03_robustness 04_segmentation 06_faithfulness "
            "99_report report.html",
        ),
    ],
)
def test_changed_parameter_runs_what_follows_from_it(changeable, monkeypatch, name, values, stages):
    edit(changeable, name, **values)
    assert waiting(changeable, monkeypatch) == stages.split()


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_one_more_seed_runs_that_seed_alone(changeable, monkeypatch):
    compared = ["03_robustness", "04_segmentation", "06_faithfulness", "99_report"]
    for name in ("pipeline", *compared):
        edit(changeable, name, seeds=[0, 1])
    stages = ["02_finetune", *compared, "report.html"]
    assert waiting(changeable, monkeypatch) == stages


# The picture of the stages


def test_graph_names_all_stages(monkeypatch):
    monkeypatch.chdir(ROOT)
    edges = pipeline.graph("quick")
    assert {name for edge in edges for name in edge} == RULES
    assert {("original", "finetune"), ("learning_rate", "finetune"), ("report", "page")} <= set(
        edges
    )

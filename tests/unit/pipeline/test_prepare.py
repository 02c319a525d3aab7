"""What a notebook makes first when it runs alone."""

import shutil
from pathlib import Path

import pytest

from pipeline.projects import SMALLEST
from relevit.base.files import project_root, run_folder
from reproduction.params.cells import Params, params_of
from reproduction.pipeline import prepare
from reproduction.stages import BY, PIPELINE, write_summary

FEW = ["00_start", "08_iav", "08a_iav", "99_report"]


@pytest.fixture
def cfg(tmp_path, monkeypatch) -> Params:
    """The report of a preset with few notebooks, in a project where nothing is made."""
    (tmp_path / "notebooks").symlink_to(project_root() / "notebooks")
    (tmp_path / "params").mkdir()
    text = SMALLEST.read_text().replace("pipeline:\n", f"pipeline:\n  notebooks: {FEW}\n")
    (tmp_path / "params" / "few.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return params_of("99_report").from_preset(Path("params", "few.yaml"))


def make(name: str) -> None:
    write_summary(run_folder("few", name), params_of(name).from_preset(Path("params", "few.yaml")))


def test_only_notebooks_of_the_preset_are_made_and_appendices_with_their_lesson(cfg):
    assert prepare._missing_notebooks(cfg, []) == ["00_start", "08_iav", "08a_iav"]
    for name in FEW[:3]:
        make(name)
    assert prepare._missing_notebooks(cfg, []) == []
    shutil.rmtree(run_folder("few", "08_iav"))
    assert prepare._missing_notebooks(cfg, []) == ["08_iav", "08a_iav"], "it reads the lesson"


def test_a_changed_run_is_made_after_the_one_that_stands_beside_it(cfg):
    path = Path("params", "few.yaml")
    path.write_text(
        path.read_text(encoding="utf-8").replace(str(FEW), "[00_start, 02_finetune]"),
        encoding="utf-8",
    )
    own = params_of("02_finetune").from_preset(path)
    assert prepare._missing_notebooks(own, []) == ["00_start"]
    changed = own.model_copy(update={"weight_background": 0.0})
    assert prepare._missing_notebooks(changed, []) == ["00_start", "02_finetune"]


def test_in_the_pipeline_nothing_is_made(cfg, monkeypatch):
    monkeypatch.setattr(prepare, "_run", None)
    monkeypatch.setenv(BY, PIPELINE)
    assert prepare.prepared(cfg) == run_folder("few", "99_report")


def test_two_do_not_make_the_same(cfg, monkeypatch):
    monkeypatch.setattr(prepare, "_run", None)
    with prepare.lock.held("few"), pytest.raises(RuntimeError, match="'few' is being run by"):
        prepare.prepared(cfg)

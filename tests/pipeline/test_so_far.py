"""The report on a run that still goes on: what has landed is shown, and nothing is run for it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import nbformat
import pytest

from relevit.config import NOTEBOOKS, ReportParams
from relevit.pipeline import so_far

from .projects import PRESET, RUN_S, results

AT = 1_000_000.0  # when the run began


def put_summary(folder, seconds: float) -> None:
    folder.mkdir(parents=True)
    path = folder / "summary.json"
    path.write_text("{}")
    os.utime(path, (AT + seconds, AT + seconds))


def test_landed_stages_leave_out_what_is_to_be_made_anew(tmp_path):
    put_summary(tmp_path / "00_original", -5)  # kept from an earlier run
    put_summary(tmp_path / "04_segmentation", -5)
    put_summary(tmp_path / "06_faithfulness", 5)
    waiting = ["04_segmentation", "06_faithfulness", "07_iav"]
    assert so_far.landed_stages(tmp_path, waiting, AT) == ["00_original", "06_faithfulness"]


def test_a_run_of_the_sweep_does_not_hide_the_runs_that_the_nine_sets_read(tmp_path):
    put_summary(tmp_path / "02_finetune" / "seed0", -5)
    assert so_far.landed_stages(tmp_path, ["02_finetune"], AT) == []
    put_summary(tmp_path / "03_robustness", -5)
    assert so_far.landed_stages(tmp_path, ["02_finetune"], AT) == ["02_finetune", "03_robustness"]


def test_results_and_checkpoints_may_go_while_it_looks(tmp_path, monkeypatch):
    put_summary(tmp_path / "08_ablations" / "full.0" / "checkpoint", 5)  # no result of a stage
    assert so_far.landed_stages(tmp_path, [], AT) == []
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [self / "seed0" / "summary.json"])
    assert so_far.landed_stages(tmp_path, [], AT) == []


def test_errors_become_what_the_cell_waits_for():
    cells = [nbformat.v4.new_code_cell("tables['sis']"), nbformat.v4.new_code_cell("swept")]
    cells[0].outputs = [
        nbformat.v4.new_output("error", ename="NotYetError", evalue="09_sis has no results yet")
    ]
    cells[1].outputs = [
        nbformat.v4.new_output("stream", text="before"),
        nbformat.v4.new_output("error", ename="NameError", evalue="name 'swept' is not defined"),
    ]
    so_far.mark_waiting(nbformat.v4.new_notebook(cells=cells))
    texts = [out.get("data", {}).get("text/markdown") for cell in cells for out in cell.outputs]
    assert texts == ["*… 09_sis has no results yet*", None, "*… waits for what is above*"]


def test_a_name_that_nothing_waits_for_is_an_error():
    cell = nbformat.v4.new_code_cell("tabels")
    cell.outputs = [
        nbformat.v4.new_output("error", ename="NameError", evalue="name 'tabels' is not defined")
    ]
    with pytest.raises(RuntimeError, match="NameError: name 'tabels' is not defined"):
        so_far.mark_waiting(nbformat.v4.new_notebook(cells=[cell]))


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_page_shows_what_has_landed_and_runs_nothing(changeable, monkeypatch):
    monkeypatch.chdir(changeable)
    monkeypatch.setattr(so_far, "project_root", lambda: changeable)
    before = {path: path.stat().st_mtime_ns for path in results(changeable).rglob("*")}
    landed = list(NOTEBOOKS)[:7]
    assert landed[-1] == so_far.FIRST
    cfg = ReportParams.from_preset(changeable / "params" / PRESET)
    html = so_far.page(cfg.model_copy(update={"landed": landed}))
    assert "7 of 20 notebooks" in html
    assert so_far.RELOAD in html and so_far.GOES_ON in html
    assert html.count("… 03_controls has no results yet") == 1
    assert "… 09_sis has no results yet" in html
    assert "error over images" in html, "the nine columns are missing"
    assert "Traceback" not in html
    assert ".ipynb" not in html, "a page that comes with the site"
    after = {path: path.stat().st_mtime_ns for path in results(changeable).rglob("*")}
    assert after == before


@pytest.mark.timeout(120)
def test_its_process_lives_and_ends_with_the_run(project, monkeypatch):
    """Nothing has landed: it waits, and a page of an earlier run is gone."""
    monkeypatch.chdir(project)
    results(project).mkdir(parents=True)
    (results(project) / so_far.PAGE).write_text("of an earlier run")
    with so_far.kept(PRESET, ["03_robustness: nine test sets"], {}) as process:
        assert not (results(project) / so_far.PAGE).exists()
        time.sleep(15)  # its imports, and some looks
        assert process.poll() is None
    assert process.returncode == 0


def test_a_page_that_is_left_does_not_promise_more(project, monkeypatch):
    monkeypatch.chdir(project)
    results(project).mkdir(parents=True)
    page = results(project) / so_far.PAGE
    with so_far.kept(PRESET, [], {}):
        page.write_text(f"<head>{so_far.RELOAD}</head> 7 of 20 notebooks. {so_far.GOES_ON}")
    assert page.read_text() == f"<head></head> 7 of 20 notebooks. {so_far.STOPPED}"
    so_far.finish(PRESET)
    assert "url=site/index.html" in page.read_text()


def test_without_a_page_there_is_nothing_to_finish(project, monkeypatch):
    monkeypatch.chdir(project)
    so_far.finish(PRESET)
    assert not results(project).exists()

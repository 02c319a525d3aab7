"""The report on a run that still goes on: what has landed is shown, and nothing is run for it."""

from __future__ import annotations

import os
import time

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
    assert "7 of 19 notebooks" in html
    assert html.count("… 03_controls has no results yet") == 1
    assert "… 09_sis has no results yet" in html
    assert "error over images" in html, "the nine columns are missing"
    assert "Traceback" not in html
    after = {path: path.stat().st_mtime_ns for path in results(changeable).rglob("*")}
    assert after == before


@pytest.mark.timeout(60)
def test_its_process_ends_with_the_run(tmp_path):
    start = time.monotonic()
    with so_far.kept("nosuch", [], {}):
        pass
    assert time.monotonic() - start < 30


def test_an_open_page_leads_to_the_finished_report(tmp_path):
    so_far.finish(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / so_far.PAGE).write_text("so far")
    so_far.finish(tmp_path)
    assert "url=report.html" in (tmp_path / so_far.PAGE).read_text()

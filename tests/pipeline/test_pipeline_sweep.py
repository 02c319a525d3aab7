"""Runs of the sweep that end badly: the rest goes on, the report marks the gap, all can be mended.

Both runs are made again in a copy of the finished project. One meets a folder where its log
should go, the other is killed in the middle of its training.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from relevit.stages import read_summary

from .projects import PRESET, RUN_S, SWEEP, Ended, command, results, run

FAILS, KILLED = SWEEP
AFTERWARDS = ("03_comparison", "99_report")
STAGES = {  # what a mended sweep has to make
    "02_finetune", "03_comparison", "99_report", "report.html", "the stages' notebooks as pages",
}  # fmt: skip


def folder_of(project: Path, name: str) -> Path:
    return results(project) / "02_finetune" / name


def kill_run(process: subprocess.Popen, name: str) -> None:
    """SIGKILL for one run's papermill and its kernel, as when the system runs out of memory."""
    for member in psutil.Process(process.pid).children(recursive=True):
        line = member.cmdline()
        if name in line and "papermill" in " ".join(line) and "sh" not in Path(line[0]).name:
            family = [member, *member.children(recursive=True)]
            for one in family:
                one.suspend()
            for one in family:
                one.kill()
            return
    raise AssertionError(f"no process of {name} is running")


@pytest.fixture(scope="session")
def gaps(finished, tmp_path_factory) -> tuple[Path, Ended]:
    """The project after a sweep in which one run failed and one was killed."""
    project = shutil.copytree(finished[0], tmp_path_factory.mktemp("gaps") / "project")
    for name in AFTERWARDS:
        shutil.rmtree(results(project) / name)
    for name in SWEEP:
        shutil.rmtree(folder_of(project, name))
    (folder_of(project, FAILS) / "log.jsonl" / "in the way").mkdir(parents=True)
    start = time.perf_counter()
    with (project / "gaps.log").open("w+") as log:
        process = subprocess.Popen(command(PRESET), cwd=project, stdout=log, stderr=log)
        checkpoint = folder_of(project, KILLED) / "checkpoint" / "epoch_0001"
        while not checkpoint.is_dir() and process.poll() is None:
            time.sleep(0.005)
        if process.poll() is None:
            kill_run(process, KILLED)
        code = process.wait(RUN_S)
        log.seek(0)
        text = log.read()
    return project, Ended(code, text, text, time.perf_counter() - start)


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_the_rest_completes_and_the_report_marks_the_gaps(gaps):
    project, ended = gaps
    assert ended.code == 1, ended.out
    for name in SWEEP:
        assert (folder_of(project, name) / "outcome.txt").read_text() == "failed\n"
        assert f"Failed: {name}: " in ended.out
    assert "2 runs of the sweep, which the report marks as missing" in ended.out
    missing = read_summary(results(project) / "03_comparison")["missing"]
    assert [lost["run"] for lost in missing] == [FAILS, KILLED]
    assert "log.jsonl" in missing[0]["reason"] and "killed" in missing[1]["reason"]
    page = (results(project) / "report.html").read_text()
    assert FAILS in page and KILLED in page


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_next_call_makes_what_is_missing_and_nothing_else(gaps, finished):
    project, _ = gaps
    (folder_of(project, FAILS) / "log.jsonl" / "in the way").rmdir()
    (folder_of(project, FAILS) / "log.jsonl").rmdir()
    ended = run(project, PRESET)
    assert ended.code == 0, ended.out + ended.err
    planned = ended.out.split("stages to run:")[1].splitlines()
    names = {line.strip().split(":")[0] for line in planned if line.startswith("  ")}
    assert names == STAGES
    for name in SWEEP:
        for file in ("weights.safetensors", "log.jsonl"):
            whole = (folder_of(finished[0], name) / file).read_bytes()
            assert (folder_of(project, name) / file).read_bytes() == whole
    assert read_summary(results(project) / "03_comparison")["missing"] == []

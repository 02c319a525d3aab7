"""Runs of the sweep that end badly: the rest goes on, the report marks the gap, all can be mended.

Both runs are made again in a copy of the finished project. One meets a folder where its log
should go, the other is killed in the middle of its training. Then the whole pipeline is killed
while it mends that, and started once more.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from relevit.base.stages import read_summary

from .projects import PRESET, RUN_S, SWEEP, Ended, command, results, run

FAILS, KILLED = SWEEP
AFTERWARDS = ("03_comparison", "99_report")
SAME = (  # the bytes that a sweep leaves, whatever happened on the way
    *(f"02_finetune/{name}/weights.safetensors" for name in SWEEP),
    *(f"02_finetune/{name}/log.jsonl" for name in SWEEP),
    "03_comparison/accuracies.parquet",
    "99_report/claims.parquet",
)
STAGES = {  # what a mended sweep has to make
    "02_finetune",
    "03_comparison",
    "99_report",
}


def folder_of(project: Path, name: str) -> Path:
    return results(project) / "02_finetune" / name


def kill_tree(top: psutil.Process) -> None:
    """SIGKILL for a process and all below it, as when the power fails.

    The kernels of the notebooks are in process groups of their own, hence the whole tree.
    """
    family = [top, *top.children(recursive=True)]
    for member in family:
        member.suspend()  # so that nothing is started while we go through the list
    for member in family:
        member.kill()


def papermill_of(process: subprocess.Popen, name: str) -> psutil.Process:
    """The process that makes one run of the sweep, below its shell."""
    for member in psutil.Process(process.pid).children(recursive=True):
        line = member.cmdline()
        if name in line and "papermill" in " ".join(line) and "sh" not in Path(line[0]).name:
            return member
    raise AssertionError(f"no process of {name} is running")


def rows(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else 0


def start_until(
    project: Path, run: str, epoch: int, kill: Callable[[subprocess.Popen], None]
) -> Ended:
    """Start the pipeline, call `kill` once `run` has that checkpoint, and wait for the end."""
    start = time.perf_counter()
    with (project / "killed.log").open("w+") as log:
        process = subprocess.Popen(
            command(PRESET), cwd=project, stdout=log, stderr=log, start_new_session=True
        )
        log_of_run = folder_of(project, run) / "log.jsonl"  # written after each checkpoint
        while process.poll() is None and rows(log_of_run) <= epoch:
            time.sleep(0.005)
        if process.poll() is None:
            kill(process)
        code = process.wait(RUN_S)
        log.seek(0)
        text = log.read()
    return Ended(code, text, text, time.perf_counter() - start)


@pytest.fixture(scope="session")
def gaps(finished, tmp_path_factory) -> tuple[Path, Ended]:
    """The project after a sweep in which one run failed and one was killed."""
    project = shutil.copytree(finished[0], tmp_path_factory.mktemp("gaps") / "project")
    for name in AFTERWARDS:
        shutil.rmtree(results(project) / name)
    for name in SWEEP:
        shutil.rmtree(folder_of(project, name))
    (folder_of(project, FAILS) / "log.jsonl" / "in the way").mkdir(parents=True)
    ended = start_until(project, KILLED, 1, lambda top: kill_tree(papermill_of(top, KILLED)))
    return project, ended


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
    report = (results(project) / "99_report" / "executed.ipynb").read_text()
    assert FAILS in report and KILLED in report


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_next_calls_make_what_is_missing_and_nothing_else(gaps, finished):
    project, _ = gaps
    (folder_of(project, FAILS) / "log.jsonl" / "in the way").rmdir()
    (folder_of(project, FAILS) / "log.jsonl").rmdir()
    # Its first epoch is there: only the log could not be written.
    killed = start_until(project, FAILS, 2, lambda top: kill_tree(psutil.Process(top.pid)))
    assert planned(killed.out) == STAGES
    assert not (folder_of(project, FAILS) / "weights.safetensors").exists()
    ended = run(project, PRESET)
    assert ended.code == 0, ended.out + ended.err
    assert planned(ended.out) <= STAGES
    printed = (folder_of(project, FAILS) / "executed.ipynb").read_text()
    assert "epoch 3: total" in printed and "epoch 0: total" not in printed, "it did not resume"
    assert read_summary(results(project) / "03_comparison")["missing"] == []
    for name in SAME:
        assert (results(project) / name).read_bytes() == (results(finished[0]) / name).read_bytes()


def planned(printed: str) -> set[str]:
    """The stages that a call of the pipeline names before it starts."""
    lines = printed.split("stages to run:")[1].splitlines()
    return {line.strip().split(":")[0] for line in lines if line.startswith("  ")}

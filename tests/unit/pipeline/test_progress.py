"""How far a run is, told in a line from what Snakemake and the jobs say."""

import os
import sys
from pathlib import Path

import pytest

from reproduction.pipeline import progress
from reproduction.pipeline.progress import LOG, PAGE, Progress, shown

SECONDS = {"00_start": 60.0, "runs 1 of 2": 240.0, "runs 2 of 2": 240.0, PAGE: 120.0}
SAID = f"""Building DAG of jobs...
[Fri Nov 27 03:18:08 2026]
Job 1: 00_start: the data
Input Notebook:  notebooks/00_start.ipynb
[Fri Nov 27 03:18:10 2026]
Finished jobid: 1 (Rule: 00_start)
1 of 5 steps (20%) done
Select jobs to execute...
Execute 2 jobs...

[Fri Nov 27 03:18:10 2026]
Job 2: runs 1 of 2: a and 2 more
[Fri Nov 27 03:18:10 2026]
Job 3: runs 2 of 2: b and 2 more
ValueError: it went wrong
[Fri Nov 27 03:18:12 2026]
Error in rule runs_0:
    message: None
    jobid: 2
    output: a.json
[Fri Nov 27 03:18:12 2026]
Finished jobid: 3 (Rule: runs_1)
[Fri Nov 27 03:18:12 2026]
Job 4: {PAGE}: the nine columns
Finished jobid: 4 (Rule: {PAGE})
"""


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def follow(folder: Path, told: Progress, text: str = SAID) -> None:
    with shown(told, folder / "made" / LOG) as output:
        os.write(output, text.encode())


def test_what_is_done_and_left_is_said_as_a_job_ends(tmp_path, capsys):
    told = Progress(SECONDS, SECONDS, 2, tmp_path / "page.ipynb")
    follow(tmp_path, told)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "0 min: 1 of 4 jobs done, about 3 min left"
    failed = lines.index("0 min: 1 of 4 jobs done, about 3 min left; now runs 2 of 2")
    assert {"ValueError: it went wrong", "Error in rule runs_0:"} <= set(lines[1:failed])
    assert f"The nine columns are there: {tmp_path / 'page.ipynb'} (make lab opens it)" in lines
    assert not [line for line in lines if "Notebook" in line or "DAG" in line or "Select" in line]
    assert told.failed and (tmp_path / "made" / LOG).read_text() == SAID


OF_SLURM = """Job 1: 00_start: the data
Job 1 has been submitted with SLURM jobid 7 (log: 7.log).
Error in rule 00_start:
    message: SLURM-job '7' failed, SLURM status is: 'FAILED'. Detailed failure reason unavailable
    jobid: 1
    output: a.json
    log: {log} (check log file(s) for error details)
Trying to restart job 1.
Waiting to submit rule_00_start: sbatch: error: QOSMaxSubmitJobPerUserLimit
Job 1: 00_start: the data
Finished jobid: 1 (Rule: 00_start)
"""
NOTED = """
RuleException:
CalledProcessError in file "Snakefile", line 108:
[Fri Nov 27 03:18:12 2026]
Error in rule 00_start:
    message: None
Exiting because a job execution failed.
"""


KILLED = (
    "\nWill exit after finishing currently running jobs (scheduler).\nsrun: error: vm: Exited\n"
)


LIMIT = "slurmstepd-n1: error: *** STEP 4.0 ON n1 CANCELLED AT 11:17:37 DUE TO TIME LIMIT ***"


@pytest.mark.parametrize("own", [["ValueError: no such file"], ["KeyError: 'seed'", ""], [LIMIT]])
@pytest.mark.parametrize("end", [NOTED, KILLED, ""])
def test_a_job_of_slurm_says_its_own_last_words(tmp_path, capsys, own, end):
    log = tmp_path / "7.log"
    log.write_text("\n".join(["Reason: Forced execution", *own]) + end)
    follow(tmp_path, Progress(["00_start"], {}, 2, tmp_path / "page"), OF_SLURM.format(log=log))
    assert capsys.readouterr().err.splitlines() == [
        f"Failed: 00_start: FAILED as job 7 of Slurm: {own[0]} ({log})",
        "0 min: 0 of 1 jobs done",
        "Waiting to submit rule_00_start: sbatch: error: QOSMaxSubmitJobPerUserLimit",
        "0 min: 0 of 1 jobs done",
        "0 min: 1 of 1 jobs done",
    ]


def test_line_moves_on_a_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    follow(tmp_path, Progress(SECONDS, {}, 2, tmp_path))
    *above, last = capsys.readouterr().err.split("\n")
    assert "Error in rule runs_0:" in above
    assert {len(part) for part in last.split("\r")} <= set(range(30))
    assert last.split("\r")[-3] == "0 min: 3 of 4 jobs done"
    assert last.split("\r")[-1] == "", "what is printed next begins where it stood"


def test_time_left_follows_how_fast_this_machine_is(clock):
    told = Progress(SECONDS, SECONDS, 2, Path())
    assert told.left_s() == (60 + 240 + 240 + 120) / 2
    told.read("Job 1: 00_start: the data")
    clock[0] = 30.0
    assert told.left_s() == (30 + 240 + 240 + 120) / 2
    clock[0] = 240.0
    assert told.read("Finished jobid: 1 (Rule: 00_start)") == ""
    slower = (progress.PRIOR_S + 240) / (progress.PRIOR_S + 60)
    assert told.left_s() == pytest.approx(slower * (240 + 240 + 120) / 2)
    for number in (2, 3):
        told.read(f"Job {number}: runs {number - 1} of 2: a")
        told.read(f"Finished jobid: {number} (Rule: runs_{number - 2})")
    told.read(f"Job 4: {PAGE}: it")
    assert told.left_s() == pytest.approx(120 * told.taken_s / told.expected_s), "one at a time"
    told.read(f"Finished jobid: 4 (Rule: {PAGE})")
    assert told.left_s() == 0 and told.line() == "4 min: 4 of 4 jobs done"

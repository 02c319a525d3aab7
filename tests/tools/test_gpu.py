"""The times of a run, read from what Snakemake and runs say."""

import importlib
from datetime import datetime

import pytest

from .conftest import SCRIPT

LOG = """
[Sat Nov 28 10:00:30 2026]
Job 2: 00_start: the data
[Sat Nov 28 10:01:30 2026]
Finished jobid: 2 (Rule: 00_start)
[Sat Nov 28 10:01:30 2026]
Job 5: runs 1 of 2: tiny
outputs/quick/runs/tiny: 40 s
[Sat Nov 28 10:02:30 2026]
Finished jobid: 5 (Rule: runs_0)
[Sat Nov 28 10:02:30 2026]
Job 1: 03_robustness: the nine columns
[Sat Nov 28 10:03:00 2026]
Finished jobid: 1 (Rule: 03_robustness)
[Sat Nov 28 10:03:00 2026]
Job 9: 99_report: everything
"""


def test_minutes_are_those_of_the_log(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    gpu = importlib.import_module("gpu")
    start = datetime(2026, 11, 28, 10).timestamp()
    monkeypatch.setattr(gpu.time, "time", lambda: start + 240)
    found = gpu.times(LOG, start)
    wanted = {"first job, min": 0.5, "nine columns, min": 3, "all, min": 4, "seconds": 150}
    assert found == pytest.approx(wanted)
    (tmp_path / "run.log").write_text(LOG)
    assert gpu.inside_s(tmp_path) == 40

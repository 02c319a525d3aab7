"""Jobs and their minutes, of what Snakemake said."""

from __future__ import annotations

import importlib

from .conftest import SCRIPT

LOG = """\
[Fri Nov 27 07:00:00 2026]
Job 3: 00_start: the data
Executing notebook with kernel: python3
[Fri Nov 27 07:01:30 2026]
Finished jobid: 3 (Rule: 00_start)
[Fri Nov 27 07:01:30 2026]
Job 5: runs 1 of 2: tiny.seed0 and 1 more
[Fri Nov 27 07:01:30 2026]
Job 7: 09_text: words
[Fri Nov 27 07:02:00 2026]
Finished jobid: 7 (Rule: 09_text)
"""


def test_a_job_has_its_minutes_and_one_that_has_not_ended_none(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    log = tmp_path / "run.log"
    log.write_text(LOG)
    found = importlib.import_module("timeline").jobs(log)
    assert found == [("00_start", 0.0, 1.5), ("09_text", 1.5, 2.0)]

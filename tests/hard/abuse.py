"""Runs of the pipeline that are interrupted at moments of their progress, and go on."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import psutil
import pytest

from pipeline.projects import PRESET, SWEEP
from relevit.base.stages import EXECUTED
from relevit.config import NOTEBOOKS, FinetuneParams
from relevit.pipeline.run import STOPPED

WAIT_S = 1200.0  # for whatever must come, on a slow and busy machine
GONE_S = 30.0  # for all that a run has started to end with it; 5 s on a machine that is not busy
LOOK_S = 0.03
RUNS = ("seed0", *SWEEP)
JOBS = [
    *(name for name in NOTEBOOKS if name != FinetuneParams.notebook),
    *(f"{FinetuneParams.notebook}/{run}" for run in RUNS),
]
LINE = "Stopped. Results so far are kept: the same command goes on."
# On one core, so that stages come one after another and two runs do not disturb each other. A
# run that is `light` takes its kernels from the test and leaves out what is long in every start.
DRIVER = """
import os, sys
os.chdir(sys.argv[1])
os.sched_setaffinity(0, {int(sys.argv[2])})
from relevit.pipeline import run
if sys.argv[3] == "light":
    run.prepare_machine = lambda preset, computes: None
    run._gpus = lambda: 0
sys.exit(run.main(sys.argv[4:]))
"""
WARM = """
import json, sys
from relevit.pipeline.kernels import warm_kernels
with warm_kernels() as environment:
    print(json.dumps(environment), flush=True)
    sys.stdin.read()
"""

Found = TypeVar("Found")


class Moment(NamedTuple):
    """When a job is disturbed and how: after a share of its cells, and some seconds more."""

    how: str
    share: float
    delay_s: float


class Bench(NamedTuple):
    """A project, where its results are seen from here, and how its runs are started."""

    project: Path
    results: Path
    core: str
    warm: Mapping[str, str]  # asks for kernels of the test
    inside: tuple[str, ...] = ()  # puts a command where the small disk is

    @property
    def temporary(self) -> Path:
        return self.project.with_name(f"{self.project.name}.tmp")

    @property
    def log(self) -> Path:
        return self.project.with_name(f"{self.project.name}.log")


def drawn(hows: list[str], jobs: list[str], seed: int) -> dict[str, list[Moment]]:
    """A moment for each way to disturb: every job has one, some drawn at random have more."""
    chance = random.Random(seed)
    more = [chance.choice(jobs) for _ in range(len(hows) - len(jobs))]
    hows = chance.sample(hows, len(hows))
    moments: dict[str, list[Moment]] = {}
    for job, how in zip([*jobs, *more], hows, strict=True):
        moment = Moment(how, 0.8 * chance.random() ** 2, chance.uniform(0, 0.5))
        moments.setdefault(job, []).append(moment)
    return moments


def start(bench: Bench, *, light: bool) -> subprocess.Popen[bytes]:
    """`python -m relevit.pipeline.run smallest`, in a group of its own as a terminal's."""
    bench.temporary.mkdir(exist_ok=True)
    kind = "light" if light else "whole"
    driver = [sys.executable, "-c", DRIVER, str(bench.project), bench.core, kind]
    environment = os.environ | {"TMPDIR": str(bench.temporary)} | (bench.warm if light else {})
    with bench.log.open("ab") as log:
        return subprocess.Popen(
            [*bench.inside, *driver, PRESET, "--jobs", "1"],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def finish(bench: Bench, process: subprocess.Popen[bytes]) -> None:
    """Let a run come to its end, and see that it leaves nothing but results."""
    code = process.wait(WAIT_S)
    assert code == 0, said(bench)
    assert all_gone(bench) < GONE_S
    assert list(bench.temporary.iterdir()) == []


def said(bench: Bench, since: int = 0) -> str:
    """What runs have printed, from a position in their log on."""
    return bench.log.read_bytes()[since:].decode(errors="replace")


# Moments


def next_moment(
    bench: Bench,
    process: subprocess.Popen[bytes],
    moments: Mapping[str, list[Moment]],
    on_begun: Callable[[], None] = lambda: None,
) -> tuple[str, bool] | None:
    """Wait for the moment of the first job that begins and has one left.

    The job, and whether it was still at work; None when the run has ended before.
    """
    since = time.time()
    job = until(process, lambda: _begun(bench.results, moments, since))
    if job is None:
        return None
    on_begun()
    moment = moments[job][0]
    until(process, lambda: _share(bench.results, job) >= moment.share)
    time.sleep(moment.delay_s)
    return job, process.poll() is None and _share(bench.results, job) < 1


def until(process: subprocess.Popen[bytes], look: Callable[[], Found | None]) -> Found | None:
    """Wait for something to be found while a process lives."""
    end = time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < end:
        if found := look():
            return found
        time.sleep(LOOK_S)
    return None


def _begun(folder: Path, moments: Mapping[str, list[Moment]], since: float) -> str | None:
    for job in moments:
        for path in folder.glob(f"{job}/{EXECUTED}"):
            with suppress(FileNotFoundError):
                if moments[job] and path.stat().st_mtime >= since:
                    return job
    return None


def _share(folder: Path, job: str) -> float:
    """The share of a notebook's cells that papermill has noted as done."""
    text = (folder / job / EXECUTED).read_bytes()
    cells = text.count(b'"status": "')
    return text.count(b'"status": "completed"') / cells if cells else 0.0


# Disturbances


def interrupt(bench: Bench, process: subprocess.Popen[bytes], how: str) -> float:
    """End a run by a signal; the seconds until nothing of it lives any more."""
    since = bench.log.stat().st_size
    asked = time.monotonic()
    if how == "SIGINT":
        os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
    else:
        process.send_signal(getattr(signal, how))
    code = process.wait(WAIT_S)
    all_gone(bench)
    took = time.monotonic() - asked
    text = said(bench, since)
    assert took < GONE_S, f"{how}: {took:.1f} s"
    assert "Traceback" not in text, text
    assert list(bench.temporary.iterdir()) == [], how
    if how != "SIGKILL":
        assert code == STOPPED, text
        assert LINE in text.splitlines(), text
    return took


def all_gone(bench: Bench) -> float:
    """Wait until no process works in the project's folder; the seconds that took."""
    began = time.monotonic()
    while (left := _working_in(bench.project)) and time.monotonic() - began < GONE_S:
        time.sleep(LOOK_S)
    assert not left, [process.cmdline() for process in left if process.is_running()]
    return time.monotonic() - began


def _working_in(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.cwd() and Path(process.cwd()).is_relative_to(folder):
                found.append(process)
    return found


def refused(bench: Bench) -> float:
    """A second caller, who hears at once of the first; the seconds that took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "relevit.pipeline.run", PRESET]
    done = subprocess.run(command, cwd=bench.project, capture_output=True, text=True)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: pipeline: preset {PRESET!r} is being run by process "), line
    return time.monotonic() - began


# A small disk


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A file system of its own at a folder, seen by commands that are put inside.

    Yields the folder as seen from here, and what puts a command inside. No rights are needed where
    the system lets everyone have namespaces; where it does not, the test is skipped.
    """
    if not shutil.which("unshare"):
        pytest.skip("needs unshare, for a file system of its own")
    script = f'mount -t tmpfs -o size={megabytes}m small "$0" && echo ready && exec cat'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as holder:
        try:
            if holder.stdout.readline() != b"ready\n":
                pytest.skip(f"needs a file system of its own: {holder.stderr.read().decode()}")
            inside = ("nsenter", "--preserve-credentials", "--user", "--mount", "--target")
            yield Path(f"/proc/{holder.pid}/root{folder}"), (*inside, str(holder.pid))
        finally:
            holder.stdin.close()


@contextmanager
def warm_inside(inside: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """`warm_kernels` of a process that sees the small disk: kernels see what it sees."""
    command = [*inside, sys.executable, "-c", WARM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        try:
            yield json.loads(holder.stdout.readline())
        finally:
            holder.stdin.close()


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Not a byte is free where a folder lies while the body runs."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        while free := os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize:
            try:
                size = file.seek(0, os.SEEK_END)
                os.posix_fallocate(file.fileno(), size, free)
            except OSError as error:  # a stage was faster
                if error.errno != errno.ENOSPC:
                    raise
    try:
        yield
    finally:
        filler.unlink()

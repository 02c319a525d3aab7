"""A run that is killed, stopped or starved of disk goes on, and ends with the same results."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from pipeline.projects import FEW, PRESET, copy_project, edit, results
from reproduction.pipeline.run import STOPPED

# After so many finished notebooks and runs, and some part of the next one.
STOPS = {1: "SIGKILL", 3: "SIGTERM", 5: "SIGINT", 8: "SIGKILL"}
MADE = ("summary.json", "run.json")
STARVED = ("02_finetune", "04_cures")
WAIT_S, GONE_S, TEST_S = 1200.0, 30.0, 3600  # on a slow and busy machine
LINE = "Stopped. Results so far are kept: the same command goes on."
NO_SPACE = "No space left on device"
ROUNDS = 20
NAMES = ("alone", "stops", "small")  # of one length, as some results note where images are
# Where a project lies, and how long its processor took: no result.
VARIES = re.compile(rb'/(alone|stops|small)/|(?<="seconds": )[0-9.]+')

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux"),
    pytest.mark.timeout(TEST_S),
]


def start(project: Path, core: int, inside: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """The run as a user starts it, on one core, in a group of its own as a terminal's."""
    command = [*inside, sys.executable, "-m", "reproduction.pipeline.run", PRESET, "--jobs", "1"]
    with (project / "said").open("ab") as log:
        return subprocess.Popen(
            ["taskset", "--cpu-list", str(core), *command],
            cwd=project,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # A shell that runs these tests in the background has Ctrl-C ignored, and so would this.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )


def said(project: Path, since: int = 0) -> str:
    return (project / "said").read_bytes()[since:].decode(errors="replace")


def finish(project: Path, process: subprocess.Popen[bytes]) -> Path:
    assert process.wait(WAIT_S) == 0, said(project)
    gone(project)
    return results(project)


def wait_for(process: subprocess.Popen[bytes], true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while process.poll() is None and not true() and time.monotonic() < end:
        time.sleep(0.02)


def gone(project: Path) -> None:
    """Wait until no process works in the project's folder."""
    end = time.monotonic() + GONE_S
    while left := working_in(project):
        assert time.monotonic() < end, left
        time.sleep(0.05)


def working_in(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if Path(process.cwd()).is_relative_to(folder):
                found.append(process)
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Iterator[dict[str, Future[Path]]]:
    """The results of a run that is left alone, of one that is stopped, of one without room."""
    folder = tmp_path_factory.mktemp("runs")
    projects = [copy_project(folder / name) for name in NAMES]
    for project in projects:
        edit(project, "pipeline", disk_mb=1, notebooks=list(FEW))
    alone, stops, small = projects
    cores = sorted(os.sched_getaffinity(0))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: finish(alone, start(alone, cores[0])))
        second = pool.submit(run_interrupted, stops, cores[-1])
        third = pool.submit(lambda: run_on_small_disk(first.result(), small, cores[0]))
        yield {"alone": first, "interrupted": second, "starved": third}


def made(project: Path) -> list[Path]:
    return [path for name in MADE for path in results(project).rglob(name)]


def run_interrupted(project: Path, core: int) -> Path:
    chance = random.Random(22)
    for count, how in STOPS.items():
        since = (project / "said").stat().st_size if (project / "said").exists() else 0
        process = start(project, core)
        wait_for(process, lambda c=count: len(made(project)) >= c)
        time.sleep(chance.uniform(0, 3))
        assert process.poll() is None, said(project)
        if how == "SIGKILL":
            again = subprocess.run(
                [sys.executable, "-m", "reproduction.pipeline.run", PRESET],
                cwd=project,
                capture_output=True,
                text=True,
            )
            assert again.returncode == 2 and "is being run by process" in again.stderr
        if how == "SIGINT":
            os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
        else:
            process.send_signal(getattr(signal, how))
        code = process.wait(WAIT_S)
        gone(project)
        text = said(project, since)
        assert "Traceback" not in text, text
        if how != "SIGKILL":
            assert code == STOPPED and LINE in text.splitlines(), text
    return finish(project, start(project, core))


def run_on_small_disk(done: Path, project: Path, core: int) -> Path:
    """The finished run once more, of which stages are deleted and made anew."""
    shutil.copytree(done.parents[1] / ".snakemake", project / ".snakemake")
    outputs = project / "outputs"
    outputs.mkdir()
    size = sum(path.stat().st_size for path in done.rglob("*")) // 2**20
    with small_disk(outputs, 2 * size + 64) as (seen, inside):
        shutil.copytree(done, seen / PRESET)
        for name in STARVED:
            shutil.rmtree(seen / PRESET / name)
            since = len(said(project)) if (project / "said").exists() else 0
            process = start(project, core, inside)
            wait_for(process, (seen / PRESET / name / "executed.ipynb").exists)
            with full(seen):
                code = process.wait(WAIT_S)
            text = said(project, since)
            assert code not in (0, STOPPED) and NO_SPACE in text, text
            assert "Results so far are kept" in text and "error: disk: 0 MB are free at" in text
        process = start(project, core, inside)
        assert process.wait(WAIT_S) == 0, said(project)
        return Path(shutil.copytree(seen / PRESET, project / "kept"))


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
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes) as holder:
        try:
            if holder.stdout.readline() != b"ready\n":
                pytest.skip(f"needs a file system of its own: {holder.stderr.read().decode()}")
            inside = ("nsenter", "--preserve-credentials", "--user", "--mount", "--target")
            stay = (str(holder.pid), "sh", "-c", 'cd "$0" && exec "$@"', str(folder.parent))
            yield Path(f"/proc/{holder.pid}/root{folder}"), (*inside, *stay)
        finally:
            holder.stdin.close()


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Not a byte is free where a folder lies while the body runs."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        while free := os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize:
            with suppress(OSError):  # a stage was faster
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free)
    try:
        yield
    finally:
        filler.unlink()


def kept(folder: Path) -> dict[str, bytes]:
    """Tables, weights, logs and summaries; pages, notebooks and the log say when they were made."""
    noted = (".ipynb", ".html", ".log")
    files = (path for path in folder.rglob("*.*") if path.suffix not in noted)
    return {
        path.relative_to(folder).as_posix(): VARIES.sub(b"", path.read_bytes())
        for path in files
        if path.is_file() and not path.is_relative_to(folder / "site")
    }


@pytest.mark.parametrize("disturbed", ["interrupted", "starved"])
def test_a_disturbed_run_ends_with_the_same_results(runs, disturbed):
    wanted, found = kept(runs["alone"].result()), kept(runs[disturbed].result())
    assert wanted.keys() == found.keys()
    assert [name for name in wanted if wanted[name] != found[name]] == []


# Two callers in the same instant

CALLER = """
import sys
from reproduction.pipeline import run
run.check = lambda preset, stages: preset
def work(preset, *rest):
    print("runs", flush=True)
    sys.stdin.readline()
    return 0
run._run = work
for line in sys.stdin:
    print(run.main(["small"]), flush=True)
"""


def test_one_of_two_callers_runs_and_the_other_is_refused(tmp_path):
    for name in ("notebooks", "params"):
        (tmp_path / name).mkdir()
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | {"text": True}
    command = [sys.executable, "-c", CALLER]
    with (
        subprocess.Popen(command, cwd=tmp_path, **pipes) as one,
        subprocess.Popen(command, cwd=tmp_path, **pipes) as other,
    ):
        for _ in range(ROUNDS):
            for each in (one, other):
                each.stdin.write("go\n")
                each.stdin.flush()
            heard = {each.stdout.readline().strip(): each for each in (one, other)}
            assert heard.keys() == {"runs", "2"}
            owner = f"is being run by process {heard['runs'].pid} on "
            assert owner in heard["2"].stderr.readline()
            heard["runs"].stdin.write("end\n")
            heard["runs"].stdin.flush()
            assert heard["runs"].stdout.readline() == "0\n"

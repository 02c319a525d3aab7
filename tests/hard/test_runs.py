"""A run that is killed, stopped or starved of disk goes on, and ends with the same bytes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from relevit.pipeline.kernels import PROVISIONER, warm_kernels

from pipeline.projects import PRESET, copy_project, edit, results
from relevit.pipeline.run import STOPPED

from . import abuse
from .abuse import JOBS, Bench

SEED = 22
KILLS = ["SIGKILL"] * 20
STOPS = [*["SIGTERM"] * 5, *["SIGINT"] * 5]
SWEPT = "02_finetune/tiny.relevance.published.tokencut.seed0"
# Stages that few others wait for, so that what has failed for want of disk is soon made again.
ON_SMALL_DISK = [
    "00_start",
    SWEPT,
    "07_pretraining",
    "09_sis",
    "10_knn",
    "11_text",
    "12_clip",
    "13_your_own",
    "99_report",
]
FULL = ["FULL"] * 20
NO_SPACE = "No space left on device"
KEPT = "Results so far are kept|only what is missing is made"  # the second for the sweep's runs
ROUNDS = 50
WHOLE = 5  # every such start is that of a user, the others are light
TEST_S = 3600  # limit for a test on a slow and busy machine; together they take some minutes

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux: fork, affinity"),
    pytest.mark.timeout(TEST_S),
]


# One of each, side by side


@pytest.fixture(scope="module")
def runs(tmp_path_factory, figures) -> Iterator[dict[str, Future[Bench]]]:
    """An uninterrupted run, one that is interrupted, and one whose disk gets full, on two cores.

    Their folders have names of one length, since `13_your_own` notes where its images are.
    """
    folder = tmp_path_factory.mktemp("runs")
    cores = sorted(os.sched_getaffinity(0))
    print(f"moments drawn with seed {SEED}")
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.delenv(PROVISIONER, raising=False)
        with warm_kernels() as warm:

            def bench(name: str, core: int) -> Bench:
                project = copy_project(folder / name)
                edit(project, "pipeline", disk_mb=1)
                return Bench(project, results(project), str(core), warm)

            alone, filled = bench("alone_", cores[0]), bench("filled", cores[0])
            broken = bench("broken", cores[-1])
            first = pool.submit(run_alone, alone)
            second = pool.submit(run_interrupted, broken, figures)
            third = pool.submit(lambda: run_on_small_disk(first.result(), filled, figures))
            yield {"alone": first, "interrupted": second, "filled": third}


def run_alone(bench: Bench) -> Bench:
    abuse.finish(bench, abuse.start(bench, light=False))
    return bench


def run_interrupted(bench: Bench, figures) -> Bench:
    moments = abuse.drawn([*KILLS, *STOPS], JOBS, SEED)
    counted = {"SIGKILL": "kills survived"}
    hit, number = set(), 0

    def call_in_vain() -> None:
        if number % 3 == 0:
            figures.most("slowest refusal of a second caller, s", abuse.refused(bench))
            figures.add("callers refused")

    while any(moments.values()):
        process = abuse.start(bench, light=bool(number % WHOLE))
        found = abuse.next_moment(bench, process, moments, call_in_vain)
        assert found, abuse.said(bench)
        job, at_work = found
        moment = moments[job].pop(0)
        took = abuse.interrupt(bench, process, moment.how)
        figures.most("slowest end after a stop, s", took)
        figures.add(counted.get(moment.how, "stops survived"))
        hit |= {job} if at_work else set()
        if not at_work and moments[job]:  # it was done before: once more, for the moments left
            shutil.rmtree(bench.results / job)
        number += 1
    abuse.finish(bench, abuse.start(bench, light=False))
    assert len(hit) > 0.8 * len(JOBS), set(JOBS) - hit
    return bench


def run_on_small_disk(done: Bench, bench: Bench, figures) -> Bench:
    """The finished run once more, of which stage after stage is deleted and made anew."""
    shutil.copytree(done.project / ".snakemake", bench.project / ".snakemake")
    outputs = bench.project / "outputs"
    outputs.mkdir()
    size = sum(path.stat().st_size for path in done.results.rglob("*")) // 2**20
    with (
        abuse.small_disk(outputs, 2 * size + 64) as (seen, inside),
        abuse.warm_inside(inside) as warm,
    ):
        shutil.copytree(done.results, seen / PRESET)
        bench = bench._replace(results=seen / PRESET, inside=inside, warm=warm)
        moments = abuse.drawn(FULL, ON_SMALL_DISK, SEED)
        for job in ON_SMALL_DISK:
            while moments[job]:
                shutil.rmtree(bench.results / job, ignore_errors=True)  # what failed may lack it
                since = bench.log.stat().st_size if bench.log.exists() else 0
                process = abuse.start(bench, light=True)
                found = abuse.next_moment(bench, process, {job: moments[job]})
                assert found, abuse.said(bench, since)
                moments[job].pop()
                # Where a run of the sweep has failed, all that follows would be made without it.
                to_the_end = job == SWEPT or not moments[job]
                with abuse.full(seen):
                    if to_the_end:
                        process.wait(abuse.WAIT_S)
                    else:  # what else is to be made finds room again
                        abuse.until(
                            process, lambda since=since: NO_SPACE in abuse.said(bench, since)
                        )
                code = process.wait(abuse.WAIT_S)
                abuse.all_gone(bench)
                text = abuse.said(bench, since)
                assert code not in (0, STOPPED) and NO_SPACE in text, text
                assert re.search(KEPT, text), text
                if to_the_end:
                    assert "error: disk: 0 MB are free at " in text, text
                figures.add("full disks survived")
        abuse.finish(bench, abuse.start(bench, light=True))
        kept = bench.project / "kept"
        shutil.copytree(bench.results, kept)
    return bench._replace(results=kept)


def test_run_that_is_left_alone_ends(runs):
    runs["alone"].result()


def test_run_that_is_killed_and_stopped_ends_with_the_same_bytes(runs, figures):
    compare(runs["alone"].result(), runs["interrupted"].result(), figures)


def test_run_whose_disk_gets_full_ends_with_the_same_bytes(runs, figures):
    compare(runs["alone"].result(), runs["filled"].result(), figures)


# The same bytes, but for times

# Cells that show how long something took, by a part of their source.
MEASURED = {"04_segmentation": "plots.seconds_bars(", "11_text": "pd.DataFrame(seconds)"}


def compare(one: Bench, other: Bench, figures) -> None:
    """All files of two runs are equal, but for times."""
    first, second = contents(one), contents(other)
    assert first.keys() == second.keys()
    assert [name for name in sorted(first) if first[name] != second[name]] == []
    figures.add("files compared", len(first))


def contents(bench: Bench) -> dict[str, bytes]:
    """The files of a run, without times: papermill's, and those of `MEASURED` cells."""
    files = (path for path in bench.results.rglob("*") if path.is_file())
    found = {path.relative_to(bench.results).as_posix(): path.read_bytes() for path in files}
    found = {
        name: content.replace(os.fsencode(bench.project), b"PROJECT")
        for name, content in found.items()
    }
    return {name: without_times(name, content) for name, content in found.items()}


def without_times(name: str, content: bytes) -> bytes:
    if not name.endswith("executed.ipynb"):
        return content
    notebook = json.loads(content)
    source = MEASURED.get(name.split("/")[0])
    for part in [notebook, *notebook["cells"]]:
        part["metadata"].pop("papermill")
        if source and source in code(part):
            part["outputs"] = []
    return json.dumps(notebook).encode()


def code(cell: dict) -> str:
    return "".join(cell.get("source", []))


# Two callers in the same instant

CALLER = """
import sys
from relevit.pipeline import run
run.check = lambda preset: None
def work(preset, *rest):
    print("runs", flush=True)
    sys.stdin.readline()
    return 0
run._run = work
for line in sys.stdin:
    print(run.main(["small"]), flush=True)
"""


def test_one_of_two_callers_runs_and_the_other_is_refused(tmp_path, figures):
    for name in ("notebooks", "params"):
        (tmp_path / name).mkdir()
    with caller(tmp_path) as one, caller(tmp_path) as other:
        for _ in range(ROUNDS):
            for each in (one, other):
                each.stdin.write("go\n")
                each.stdin.flush()
            said = {each.stdout.readline().strip(): each for each in (one, other)}
            assert said.keys() == {"runs", "2"}
            message = said["2"].stderr.readline()
            owner = f"is being run by process {said['runs'].pid} on "
            assert owner in message
            said["runs"].stdin.write("end\n")
            said["runs"].stdin.flush()
            assert said["runs"].stdout.readline() == "0\n"
            figures.add("callers refused")


def caller(folder: Path) -> subprocess.Popen[str]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", CALLER], cwd=folder, text=True, **pipes)

"""Which job begins when, by the Snakefile's numbers, replayed in the known seconds."""

import re
import shutil
from itertools import pairwise
from typing import NamedTuple

from relevit.base.results import read_json
from reproduction.params.preset import read_preset
from reproduction.pipeline import plan
from reproduction.pipeline import run as pipeline
from reproduction.pipeline.machine import places
from reproduction.pipeline.machine.places import Places
from reproduction.pipeline.progress import PAGE
from reproduction.stages import preset_file

from .projects import ROOT

CORES = 2
NEARLY = 1.1  # jobs cannot be cut
# A job as a dry run shows it that is not told in a message.
SHOWN = re.compile(
    r"(?m)^rule (\S+):\n    input: (.+)\n    output: (.+)\n    jobid: .+\n"
    r"(?:    priority: (\S+)\n)?(?:    threads: (\d+)\n)?    resources: "
)


class Job(NamedTuple):
    needs: set[str]
    priority: float
    cores: int
    seconds: float


def jobs_of(shown: str, seconds: dict[str, float]) -> dict[str, Job]:
    found = SHOWN.findall(shown)
    makers = {file: name for name, _, made, *_ in found for file in made.split(", ")}
    jobs = {}
    for name, read, _, priority, threads in found:
        needs = {makers[file] for file in read.split(", ") if file in makers}
        jobs[name] = Job(needs, float(priority or 0), int(threads or 1), seconds.get(name, 0.0))
    return jobs


def replay(jobs: dict[str, Job]) -> tuple[dict[str, float], dict[str, float]]:
    """When each begins and ends, where what is ready and fits begins by its priority."""
    now, begun, ended = 0.0, {}, {}
    while len(begun) < len(jobs):
        running = {name for name in begun if ended[name] > now}
        free = CORES - sum(jobs[name].cores for name in running)
        ready = [n for n in jobs if n not in begun and jobs[n].needs <= begun.keys() - running]
        for name in sorted(ready, key=lambda name: -jobs[name].priority):
            if jobs[name].cores <= free:
                free -= jobs[name].cores
                begun[name], ended[name] = now, now + jobs[name].seconds
        now = min((end for end in ended.values() if end > now), default=now)
    return begun, ended


def test_the_page_that_is_waited_for_comes_first_and_no_core_is_idle(project, monkeypatch):
    """`make reproduce` on two cores, with the seconds of its stages and runs that are stored."""
    monkeypatch.chdir(project)
    for module in (pipeline, places):
        monkeypatch.setattr(module, "cores", lambda: CORES)
    (project / plan.TIMES).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / plan.TIMES, project / plan.TIMES)
    snakefile = (project / "Snakefile").read_text()
    (project / "Snakefile").write_text(re.sub(r"(?m)^ +message: .*\n", "", snakefile))
    told = plan.write_plan(read_preset(preset_file("workshop")), CORES)
    batches = read_json(project / "outputs" / "workshop" / plan.FOLDER / plan.PLAN)["batches"]
    first = {f"runs {n} of {len(batches)}": b["runs"][0] for n, b in enumerate(batches, 1)}
    seconds = {f"runs_{first[name]}" if name in first else name: told[name] for name in told}
    options = {"here": Places(CORES, {}), "capture_output": True, "text": True}
    done = pipeline.snakemake("workshop", "--dry-run", "--quiet", "host", "reason", **options)
    assert dict(pairwise(done.args))["--scheduler"] == "greedy"
    jobs = jobs_of(done.stdout + done.stderr, seconds)
    assert jobs.keys() == seconds.keys()
    begun, ended = replay(jobs)

    def with_needs(name: str) -> set[str]:
        return {name}.union(*map(with_needs, jobs[name].needs))

    def least_s(names: set[str]) -> float:
        """That no order can go below: all cores busy, or one job after the other."""
        way = lambda n: jobs[n].seconds + max(map(way, jobs[n].needs), default=0.0)  # noqa: E731
        return max(sum(jobs[n].seconds * jobs[n].cores for n in names) / CORES, *map(way, names))

    page = with_needs(PAGE)
    assert begun["00_start"] == 0
    assert ended[PAGE] <= NEARLY * (least_s(page - {PAGE}) + jobs[PAGE].seconds)
    runs = {name for name in page if name.startswith("runs_")}
    ahead = {need for name in runs for need in jobs[name].needs} & runs
    assert min(begun[name] for name in jobs.keys() - page) >= max(map(ended.get, ahead))
    assert max(ended.values()) <= NEARLY * least_s({*jobs})

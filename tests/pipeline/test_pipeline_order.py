"""Which job begins when: Snakemake's own choice on the Snakefile, replayed in the known seconds."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from snakemake_interface_scheduler_plugins.registry import SchedulerPluginRegistry

from reproduction.config.preset import read_preset
from reproduction.pipeline import plan
from reproduction.pipeline import run as pipeline
from reproduction.pipeline.progress import PAGE
from reproduction.stages import preset_file

from .projects import ROOT

CORES = 2
NEARLY = 1.1  # jobs cannot be cut
DEFAULT = "ilp"  # Snakemake's scheduler where none is asked for
# A job as a dry run shows it that is not told in a message.
SHOWN = re.compile(
    r"(?m)^rule (\w+):\n    input: (.+)\n    output: (.+)\n    jobid: .+\n"
    r"(?:    priority: (\S+)\n)?(?:    threads: (\d+)\n)?    resources: .*gpu=(\d+)"
)


@dataclass(eq=False)
class Job:
    name: str
    reads: set[str]
    makes: set[str]
    priority: float
    scheduler_resources: dict[str, int]
    input: list = field(default_factory=list)  # of which Snakemake asks whether it is temporary
    needs: set[str] = field(default_factory=set)
    seconds: float = 0.0


class Replay(NamedTuple):
    """The jobs of a run, and when each began and ended, in seconds."""

    jobs: dict[str, Job]
    begun: dict[str, float]
    ended: dict[str, float]

    def least_s(self, names: Iterable[str]) -> float:
        """Seconds that no order can go below: all cores busy, or one job after the other."""

        def way(job: Job) -> float:
            return job.seconds + max((way(self.jobs[name]) for name in job.needs), default=0.0)

        jobs = [self.jobs[name] for name in names]
        work = sum(job.seconds * job.scheduler_resources["_cores"] for job in jobs)
        return max(work / CORES, *map(way, jobs))

    def with_needs(self, name: str) -> set[str]:
        return {name}.union(*map(self.with_needs, self.jobs[name].needs))


def jobs_of(shown: str) -> dict[str, Job]:
    """The jobs of a dry run, with what Snakemake's schedulers look at."""
    found = {}
    for name, read, made, priority, threads, gpus in SHOWN.findall(shown):
        resources = {"_cores": int(threads or 1), "gpu": int(gpus)}
        reads, makes = set(read.split(", ")), set(made.split(", "))
        found[name] = Job(name, reads, makes, float(priority or 0), resources)
    for job in found.values():
        job.needs = {name for name, other in found.items() if other.makes & job.reads}
    return found


def replay(jobs: dict[str, Job], scheduler: str) -> Replay:
    """Run the jobs in no time: each ends its seconds after Snakemake's scheduler began it."""
    plugins = [SchedulerPluginRegistry().get_plugin(name) for name in (scheduler, "greedy")]
    # The second where the first finds nothing, as in Snakemake.
    first, second = (
        each.scheduler(None, each.settings_cls(), logging.getLogger()).select_jobs
        for each in plugins
    )
    now, begun, ended = 0.0, {}, {}
    while len(begun) < len(jobs):
        done = {name for name, end in ended.items() if end <= now}
        left = [job for job in jobs.values() if job.name not in begun]
        ready = [job for job in left if job.needs <= done]
        free = {"_cores": CORES, "gpu": CORES}
        for name in begun.keys() - done:
            for each, used in jobs[name].scheduler_resources.items():
                free[each] -= used
        given = (ready, left, free, {})
        for job in (first(*given) or second(*given)) if ready and free["_cores"] else ():
            begun[job.name], ended[job.name] = now, now + job.seconds
        now = min((end for end in ended.values() if end > now), default=now)
    return Replay(jobs, begun, ended)


def test_the_page_that_is_waited_for_comes_first_and_no_core_is_idle(project, monkeypatch):
    """`make reproduce` on two cores, with the seconds of its stages and runs that are stored."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(pipeline, "cores", lambda: CORES)
    (project / plan.TIMES).parent.mkdir(parents=True)
    shutil.copy2(ROOT / plan.TIMES, project / plan.TIMES)
    snakefile = (project / "Snakefile").read_text()
    (project / "Snakefile").write_text(re.sub(r"(?m)^ +message: .*\n", "", snakefile))
    seconds = plan.write_plan(read_preset(preset_file("workshop")), CORES)
    options = {"jobs": CORES, "capture_output": True, "text": True}
    done = pipeline.snakemake("workshop", "--dry-run", "--quiet", "host", "reason", **options)
    jobs = jobs_of(done.stdout + done.stderr)
    for name, each in seconds.items():
        number = re.match(r"runs (\d+)", name)
        jobs[f"runs_{int(number[1]) - 1}" if number else name].seconds = each
    run = replay(jobs, dict(pairwise(done.args)).get("--scheduler", DEFAULT))

    assert run.begun["00_start"] == 0
    page = run.with_needs(PAGE)
    least_s = run.least_s(page - {PAGE}) + jobs[PAGE].seconds
    assert run.ended[PAGE] <= NEARLY * least_s
    runs = {name for name in page if name.startswith("runs_")}
    ahead = {need for name in runs for need in jobs[name].needs} & runs
    assert min(run.begun[name] for name in jobs.keys() - page) >= max(map(run.ended.get, ahead))
    assert max(run.ended.values()) <= NEARLY * run.least_s(jobs)

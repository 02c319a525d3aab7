"""Run the pipeline of a preset: `python -m relevit.pipeline.run workshop`.

Checks every parameter file, the device, the disk and the download first, so that nothing
fails after long work for a reason that was known before it. Order, resume and parallel runs
are Snakemake's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType, MappingProxyType

import yaml

from relevit.base.device import cores
from relevit.base.files import need_disk_space, project_root
from relevit.base.stages import EXECUTED, preset_folder, read_pipeline
from relevit.config import NOTEBOOKS, PipelineParams, ReportParams
from relevit.config.preset import read_preset
from relevit.pipeline import children, lock, sweep
from relevit.pipeline.fetching import fetch
from relevit.pipeline.kernels import warm_kernels

QUIET = ["--quiet", "rules", "host", "progress", "reason"]
HERE = ("local", "dryrun", "touch")  # Snakemake's own executors
CANCELLING_S = 30.0  # for Snakemake to take back what it has handed to a cluster
STOPPED = 130  # the exit code of what Ctrl-C has stopped
LEAST_MB = 10  # with less a stage has failed for want of disk
LEFT = (".*.tmp",)  # what a killed process leaves beside results that it was writing


def check(preset: str) -> PipelineParams:
    """Check the preset's files and the machine. Raises: ValueError, FileNotFoundError, OSError."""
    folder = preset_folder(preset)
    path = folder / "pipeline.yaml"
    known = sorted(file.parent.name for file in folder.parent.glob(f"*/{path.name}"))
    if not folder.is_dir() or folder.name != preset:  # "quick/" would be another's lock
        raise ValueError(f"pipeline: preset {preset!r} is unknown; use one of {known}")
    if not path.is_file():
        raise FileNotFoundError(
            f"pipeline: {path} is missing, so preset {preset!r} is for single notebooks alone; "
            f"use one of {known}, or copy what is missing from params/quick"
        )
    pipeline = read_preset(folder).pipeline
    need_disk_space(project_root() / "outputs" / preset, pipeline.disk_mb)
    return pipeline


def check_profile(profile: str, jobs: int | None = None) -> None:
    """Check what Snakemake's plan does not need, but stages on a cluster do.

    Without an executor they would run on this machine, and `jobs` and `cores` are first missed
    after the downloads. `jobs` replaces the profile's. The rest Snakemake refuses as it plans.

    Raises: ValueError for no cluster's executor or a number that is missing.
    """
    files = [project_root() / profile / name for name in ("profile.yaml", "config.yaml")]
    path = next((file for file in files if file.is_file()), None)
    if path is None:
        return
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError:
        return
    if not isinstance(values, dict):
        raise ValueError(f"profile: {path}: needs `name: value` lines, like executor: slurm")
    executor = values.get("executor")
    if not isinstance(executor, str) or executor in HERE:
        raise ValueError(
            f"profile: {path}: executor = {executor!r}; a cluster's is needed, like slurm: for "
            "this machine alone leave --profile out and give --jobs"
        )
    numbers = values if jobs is None else values | {"jobs": jobs}
    meaning = {"jobs": "stages at once", "cores": "processor cores of one stage"}
    for key, what in meaning.items():
        value = numbers.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(
                f"profile: {path}: {key} = {value!r}; a whole number above 0 is needed, the {what}"
            )


def prepare_machine(preset: str, *, computes: bool = True) -> None:
    """Check the devices asked for and fetch the pretrained weights if they are needed.

    With a profile this machine hands out the stages and `computes` none: it may lack a GPU.
    """
    from relevit.base.device import choose_device

    folder = preset_folder(preset)
    for name, cls in NOTEBOOKS.items() if computes else ():
        try:
            choose_device(cls.from_preset(folder).device)
        except ValueError as error:
            raise ValueError(f"{folder / name}.yaml: {error}") from None
    fetch(folder)


def snakemake(
    preset: str,
    *options: str,
    jobs: int | None = None,
    gpus: int = 0,
    profile: str = "",
    env: Mapping[str, str] = MappingProxyType({}),
    works: bool = False,
    **kwargs,
) -> subprocess.CompletedProcess:
    """Call Snakemake on the project's Snakefile for one preset.

    A `profile` says where stages run and what each may use; `jobs` replaces how many at once.
    Without one they run here: one a GPU at a time, or without any as many as `jobs` (1).
    If it `works` and does not only plan, it and its stages end with this process.
    """
    places = _elsewhere(profile, jobs) if profile else _here(jobs or 1, gpus)
    root = project_root()
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(root / "Snakefile")]
    files = [f"params/{preset}/{name}.yaml" for name in ("common", "seeds", "pipeline")]
    command += ["--directory", str(root), "--configfile", *files]
    # The stages call papermill and jupyter by name: those of this environment come first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH") or os.defpath])
    kwargs |= {"cwd": root, "env": os.environ | {"PATH": path} | env}
    if works:
        patience_s = CANCELLING_S if profile else 0.0
        return children.call([*command, *options, *places], patience_s=patience_s, **kwargs)
    return subprocess.run([*command, *options, *places], **kwargs)


def _elsewhere(profile: str, jobs: int | None) -> list[str]:
    """A stage on a cluster has its GPU to itself, so that it is the first it sees."""
    return ["--profile", profile, *(["--jobs", str(jobs)] if jobs else [])]


def _here(jobs: int, gpus: int) -> list[str]:
    """Stages that compute at once share the processor's cores: each is told to use its part."""
    count, places = max(cores(), jobs), gpus or jobs
    settings = [f"threads={count // min(jobs, places)}", f"gpus={gpus}"]
    return ["--cores", str(count), "--resources", f"gpu={places}", "--config", *settings]


def todo(preset: str, profile: str = "") -> list[str]:
    """What is still to run: the message of each such job, in Snakemake's order.

    Raises: RuntimeError in Snakemake's words when it cannot plan, or refuses the profile.
    """
    options = ("--dry-run", "--rerun-incomplete", "--quiet", "host", *_forced(preset))
    done = snakemake(preset, *options, profile=profile, capture_output=True, text=True)
    if done.returncode:
        # The list of all its options comes before what is wrong with one.
        said = (done.stdout + done.stderr).rpartition("__main__.py: error: ")[2]
        raise RuntimeError(f"pipeline: Snakemake cannot plan the run:\n{said}")
    return re.findall(r"(?m)^Job \d+: (.+)$", done.stdout + done.stderr)


def _forced(preset: str) -> list[str]:
    marks = sweep.unfinished(read_pipeline(preset))
    return ["--forcerun", *marks] if marks else []


def run(preset: str, jobs: int | None = None, profile: str = "") -> int:
    """Check, plan and run one preset, here or as a profile says; return the exit code.

    Raises: ValueError, OSError, RuntimeError before any work, also while another runs the preset.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"pipeline: --jobs = {jobs}; a whole number above 0 is needed")
    pipeline = check(preset)
    if profile:
        check_profile(profile, jobs)
    for folder in (lock.FOLDER, f"outputs/{preset}"):
        need_writable(project_root() / folder)
    with lock.held(preset):
        return _run(preset, pipeline, jobs, profile)


def need_writable(folder: Path) -> None:
    """Raise PermissionError when a folder, or the one it would be made in, cannot be written to."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(
            f"pipeline: {there} cannot be written to: make it yours (chown), or copy the project"
        )


def _run(preset: str, pipeline: PipelineParams, jobs: int | None, profile: str) -> int:
    start, since = time.perf_counter(), time.time()
    report = project_root() / "outputs" / preset / ReportParams.notebook / EXECUTED
    waiting = todo(preset, profile)
    if not waiting and report.is_file():
        print(f"Nothing to do: {report} is up to date.")
        return 0
    prepare_machine(preset, computes=not profile)
    print(f"Preset {preset!r}, {len(waiting)} stages to run:", *waiting, sep="\n  ", flush=True)
    with ExitStack() as beside:
        env = {} if profile else beside.enter_context(warm_kernels())
        code = snakemake(
            preset,
            "--nolock",  # its own would outlive a run that was killed
            "--rerun-incomplete",
            "--keep-going",
            "--keep-incomplete",
            *QUIET,
            *_forced(preset),
            jobs=jobs,
            gpus=0 if profile else _gpus(),
            profile=profile,
            env=env,
            works=True,
        ).returncode
    if not code:
        _clear_left(report.parents[1], since)
    minutes = (time.perf_counter() - start) / 60
    lost = sweep.failures(pipeline)
    for name, reason in lost:
        print(f"Failed: {name}: {reason}", file=sys.stderr)
    if lost and not code:
        print(
            f"Done in {minutes:.1f} min but for {len(lost)} runs of the sweep, which the report "
            f"marks as missing. Mend and run again: only what is missing is made. Open {report}"
        )
        return 1
    if code:
        print(
            f"Stopped after {minutes:.1f} min. Results so far are kept: mend and run again.",
            flush=True,
        )
        # Says why, where it was that.
        need_disk_space(report.parents[1], LEAST_MB)
    else:
        print(f"Done in {minutes:.1f} min. Open {report}")
    return code


def _clear_left(results: Path, since: float) -> None:
    """Remove what earlier runs left half written; what is younger may be written by hand now."""
    for path in [path for pattern in LEFT for path in results.rglob(pattern)]:
        if path.stat().st_mtime < since:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


def graph(preset: str) -> list[tuple[str, str]]:
    """The pipeline's rules as (from, to) pairs, for the picture in the report."""
    done = snakemake(preset, "--rulegraph", "--forceall", capture_output=True, text=True)
    nodes, edges = {}, []
    for line in done.stdout.splitlines():
        text = line.strip()
        if "->" in text:
            left, right = text.split("->")
            edges.append((left.strip(), right.strip().rstrip(";")))
        elif 'label = "' in text:
            nodes[text.split("[")[0].strip()] = text.split('label = "')[1].split('"')[0]
    return sorted((nodes[a], nodes[b]) for a, b in edges if nodes[b] != "all")


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM ends the body as Ctrl-C does; what then comes to its end is not cut short by more."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as a shell asks for in the background
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m relevit.pipeline.run", description=__doc__)
    parser.add_argument("preset", help="folder of params/, for example quick or workshop")
    parser.add_argument(
        "-j", "--jobs", type=int, help="stages at once (default 1, or those of the profile)"
    )
    parser.add_argument(
        "--profile", default="", help="profile of Snakemake, for example profiles/slurm"
    )
    parser.add_argument("--graph", action="store_true", help="print the stages' graph as JSON")
    options = parser.parse_args(arguments)
    try:
        if options.graph:
            check(options.preset)
            print(json.dumps(graph(options.preset)))
            return 0
        with _stoppable():
            return run(options.preset, options.jobs, options.profile)
    except KeyboardInterrupt:
        # Not where a pipe may lead whose reader the same Ctrl-C has ended.
        print("Stopped. Results so far are kept: the same command goes on.", file=sys.stderr)
        return STOPPED
    except (ValueError, OSError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

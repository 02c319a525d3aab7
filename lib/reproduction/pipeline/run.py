"""Run the pipeline of a preset: `python -m reproduction.pipeline workshop`.

Checks every parameter file, the device, the disk and the download first, so that nothing
fails after long work for a reason that was known before it. Order, resume and parallel runs
are Snakemake's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

import yaml

from habitats.kept import FOLDER
from relevit.base.device import cores
from relevit.base.errors import MissingError
from relevit.base.files import need_disk_space, project_root
from reproduction.params.order import notebook_file
from reproduction.params.preset import Preset, read_preset
from reproduction.pipeline import children, lock, progress
from reproduction.pipeline.fetching import fetch
from reproduction.pipeline.machine import forked, slurm
from reproduction.pipeline.machine.places import Places, free_mb, places
from reproduction.stages import BY, EXECUTED, PIPELINE, SUMMARY, preset_file

QUIET = ["--quiet", "host", "reason"]
# Threads that have nothing to do sleep: beside other work they take ten times the processor else.
# Makefile has the same for what it starts itself.
WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}
IMAGES = "images"  # of a preset's results: what is drawn, until all is made
KERNEL = "python3"  # of the environment that runs, whatever others an editor offers
STOPPED = 130  # the exit code of what Ctrl-C has stopped
LEAST_MB = 10  # with less a stage has failed for want of disk
OFFLINE = {"HF_HUB_OFFLINE": "1"}  # of jobs: their nodes may have no network
AT_ONCE = 16  # jobs of a cluster, where nobody says
PROFILE = ("profile", "config")  # as Snakemake looks for it
ONE, NONE = Places(1, {}), MappingProxyType({})
FULL_GPU = "A stage has found too little memory on the GPU"
SMALLER = "end what else uses it, lower batch_size, or take a smaller model in params/"
LEFT = ".*.tmp"  # what a killed process leaves beside results that it was writing


def check(name: str, stages: Sequence[str] = ()) -> Preset:
    """Check the preset's file and the machine. Raises: ValueError, FileNotFoundError, OSError."""
    path = preset_file(name)
    known = sorted(file.stem for file in path.parent.glob("*.yaml"))
    if name not in known:  # "../quick" would be another's lock
        raise ValueError(f"pipeline: preset {name!r} is unknown; use one of {known}")
    preset = read_preset(path)
    if unknown := [stage for stage in stages if stage not in preset.stages]:
        raise ValueError(
            f"pipeline: {unknown[0]!r} is no stage of {path}; use some of {list(preset.stages)}"
        )
    need_disk_space(project_root() / "outputs" / name, preset.pipeline.disk_mb)
    for file in (project_root() / notebook_file(stage) for stage in preset.stages):
        kernel = json.loads(file.read_text("utf-8"))["metadata"].get("kernelspec", {})
        kernel = kernel.get("name")
        if kernel != KERNEL:
            raise ValueError(
                f"pipeline: {file} was saved under the kernel {kernel!r}; save it again under "
                f"Python 3 (ipykernel), which is {KERNEL!r}"
            )
    return preset


def check_devices(preset: Preset) -> None:
    """Check the devices that its stages ask for. Raises: ValueError."""
    from relevit.base.device import choose_device

    for name, params in preset.stages.items():
        try:
            choose_device(params.device)
        except ValueError as error:
            raise ValueError(f"{preset.path}: {name}: {error}") from None


def read_profile(profile: str) -> dict[str, Any]:
    """What a profile of Snakemake says, once Slurm would run a job as it asks.

    Raises: ValueError, FileNotFoundError.
    """
    root = project_root()
    path = next((p for p in (root / profile / f"{n}.yaml" for n in PROFILE) if p.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"profile: {root / profile} has no {' or '.join(PROFILE)}.yaml")
    try:
        options = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"profile: {path} is no YAML: {error}") from None
    if not isinstance(options, dict) or options.get("executor") != "slurm":
        raise ValueError(
            f"profile: {path} lacks the line executor: slurm, the only cluster that is known; for "
            "this machine alone leave --profile out and give --jobs"
        )
    if spaced := [each for each in (str(root), sys.executable) if len(each.split()) > 1]:
        raise ValueError(
            f"profile: {spaced[0]!r} has a space, which Slurm's jobs do not survive; move the "
            "project to a folder without"
        )
    slurm.refuse_never(path, options)
    return options


def snakemake(
    preset: str,
    *options: str,
    jobs: int | None = None,
    here: Places = ONE,
    profile: str = "",
    works: bool = False,
    variables: Mapping[str, str] = NONE,
    **kwargs,
) -> subprocess.CompletedProcess:
    """Call Snakemake on the project's Snakefile for one preset.

    A `profile` says where stages run and what each may use; `jobs` replaces how many at once.
    Without one they run at their places `here`.
    If it `works` and does not only plan, it and its stages end with this process. Its stages have
    these `variables`, too.
    """
    if profile:  # a stage there has its GPU to itself, so that it is the first it sees
        places = ["--profile", profile, *(["--jobs", str(jobs)] if jobs else [])]
        places += ["--config", f"preset={preset}", "--slurm-jobname-prefix", slurm.prefix(preset)]
    else:  # stages that compute at once share the processor's cores
        rooms = [f"gpu_{number}={room}" for number, room in enumerate(here.gpus.values())]
        places = ["--cores", str(max(cores(), here.at_once))]
        places += ["--resources", f"place={here.at_once}", *rooms]
        places += ["--config", f"preset={preset}", f"threads={here.threads}"]
        places += [f"gpus={json.dumps([*here.gpus])}"]
    root = project_root()
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(root / "Snakefile")]
    # What has changed is told by the files of the plan. The other scheduler, which is the default
    # where a solver is found, weighs a job of high priority against several of lower.
    command += ["--rerun-triggers", "mtime", "--scheduler", "greedy", "--directory", str(root)]
    kwargs |= {"cwd": root, "env": _environment() | variables}
    if works:
        end = [sys.executable, "-I", "-S", slurm.__file__, "end", str(root), preset]
        return children.call([*command, *options, *places], last=end if profile else (), **kwargs)
    return subprocess.run([*command, *options, *places], **kwargs)


def _environment() -> dict[str, str]:
    """Of all that is started. Stages call python by name: that of this environment comes first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH") or os.defpath])
    return WAITING | os.environ | {"PATH": path, BY: PIPELINE}


def todo(preset: str, targets: Sequence[str] = (), profile: str = "") -> list[str]:
    """What is still to run: the message of each such job, in Snakemake's order.

    Raises: RuntimeError in Snakemake's words when it cannot plan, or refuses the profile.
    """
    options = ("--dry-run", "--rerun-incomplete", "--quiet", "host")
    done = snakemake(preset, *targets, *options, profile=profile, capture_output=True, text=True)
    if done.returncode:
        # The list of all its options comes before what is wrong with one.
        said = (done.stdout + done.stderr).rpartition("__main__.py: error: ")[2]
        raise RuntimeError(f"pipeline: Snakemake cannot plan the run:\n{said}")
    return re.findall(r"(?m)^Job \d+: (.+)$", done.stdout + done.stderr)


def run(
    name: str,
    stages: Sequence[str] = (),
    jobs: int | None = None,
    profile: str = "",
    kept: bool = False,
) -> int:
    """Check, plan and run one preset, here or as a profile says; return the exit code.

    With `stages`, these and what they need alone; with `kept`, no run that is (`runs.parts`).
    Raises: ValueError, OSError, RuntimeError before any work, also while another runs the preset.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"pipeline: --jobs = {jobs}; a whole number above 0 is needed")
    preset = check(name, stages)
    if profile:
        asked = read_profile(profile)
        jobs = jobs or asked.get("jobs", AT_ONCE)
    with lock.held(name):
        if profile:
            slurm.refuse_left(project_root(), name)
            return _run(preset, stages, jobs, profile, kept)
        with forked.server(_environment()) as forks:
            return _run(preset, stages, jobs, profile, kept, forks)


def _run(
    preset: Preset,
    stages: Sequence[str],
    jobs: int | None,
    profile: str,
    kept: bool,
    variables: Callable[[], Mapping[str, str]] = dict,
) -> int:
    """As `run`; `variables` waits for those that stages get."""
    from reproduction.pipeline import plan  # loads torch, which takes seconds

    start, since = time.perf_counter(), time.time()
    name = preset.path.stem
    results = project_root() / "outputs" / name
    targets = [f"outputs/{name}/{stage}/{SUMMARY}" for stage in stages]
    last = results / (stages or list(preset.stages))[-1] / EXECUTED
    if preset.pipeline.runs_alone:
        last = results / "runs"
    if not profile:  # else this machine hands out the stages: it may lack a GPU
        check_devices(preset)
    plan.unmake_failed(preset)
    here = ONE if profile else places(jobs, free_mb(_gpus()), preset.pipeline.gpu_mb)
    at_once = jobs if profile else here.at_once
    seconds = plan.write_plan(preset, at_once, not stages, cluster=bool(profile), kept=kept)
    waiting = todo(name, targets, profile)
    if not waiting:
        print(f"Nothing to do: {last} is up to date.")
        return 0
    fetch(preset)
    print(f"Preset {name!r}, {len(waiting)} jobs to run:", *waiting, sep="\n  ", flush=True)
    given = OFFLINE if profile else variables() | {FOLDER: str(results / IMAGES)}
    how = {"jobs": jobs, "profile": profile, "variables": given}
    with nullcontext() if profile else _drawing(name, given):
        code, told = _work(name, targets, waiting, seconds, here, **how)
    if told.full_gpu and here.at_once > 1:
        print(f"{FULL_GPU}; what is left has it alone, one after the other.", file=sys.stderr)
        plan.unmake_failed(preset)
        waiting = todo(name, targets, profile)
        code, told = _work(name, targets, waiting, seconds, here._replace(at_once=1), **how)
    if code and not told.failed:
        print(*told.said, sep="\n", file=sys.stderr)
    if told.full_gpu:
        print(f"{FULL_GPU} alone, too: {SMALLER}", file=sys.stderr)
    minutes = (time.perf_counter() - start) / 60
    lost = plan.failures(preset)
    for run, reason in lost.items():
        print(f"Failed: {run}: {reason}", file=sys.stderr)
    if code:
        print(
            f"Stopped after {minutes:.1f} min. Results so far are kept: mend and run again. All "
            f"that was said: {results / progress.LOG}",
            flush=True,
        )
        need_disk_space(results, LEAST_MB)  # says why, where it was that
        return code
    _clear_left(results, since)
    if broken := [run for run, reason in lost.items() if not plan.diverged(reason)]:
        print(
            f"Done in {minutes:.1f} min but for {len(broken)} runs, which the notebooks mark as "
            f"missing. Mend and run again: only what is missing is made. Open {last}"
        )
        return 1
    print(f"Done in {minutes:.1f} min. Open {last}")
    return 0


def _work(
    name: str,
    targets: Sequence[str],
    waiting: Sequence[str],
    seconds: Mapping[str, float],
    here: Places,
    **how: Any,
) -> tuple[int, progress.Progress]:
    """Run the jobs that wait, and show how far they are: Snakemake's exit code, and what it said.

    `how` are options of `snakemake`.
    """
    results = project_root() / "outputs" / name
    jobs = [message.partition(":")[0] for message in waiting]
    told = progress.Progress(jobs, seconds, here.at_once, results / progress.PAGE / EXECUTED)
    with progress.shown(told, results / progress.LOG) as output:
        if how["profile"]:
            folder = project_root() / lock.FOLDER / slurm.prefix(name)
            how["variables"] = how["variables"] | slurm.commands(
                folder, output, _environment()["PATH"]
            )
        code = snakemake(
            name,
            *targets,
            "--nolock",  # its own would outlive a run that was killed
            "--rerun-incomplete",
            "--keep-going",
            "--keep-incomplete",
            *QUIET,
            here=here,
            works=True,
            stdout=output,
            stderr=output,
            **how,
        ).returncode
    return code, told


def _drawing(name: str, variables: Mapping[str, str]) -> AbstractContextManager[object]:
    """Draw what the runs will ask for, beside the body."""
    if os.name != "posix":
        return nullcontext()
    start = shlex.split(variables.get(forked.START, sys.executable))
    command = [*start, "-m", "reproduction.runs.pictures", name]
    own = {"OMP_NUM_THREADS": "1"}  # its processes are as many as the cores
    how = {"cwd": project_root(), "env": _environment() | variables | own}
    return children.beside(command, stderr=subprocess.DEVNULL, **how)


def _clear_left(results: Path, since: float) -> None:
    """Remove what earlier runs left half written; what is younger may be written by hand now.

    And pictures and the tokens of frozen blocks: all runs are made.
    """
    from reproduction.runs.run import ROOM, TOKENS

    shutil.rmtree(results / ROOM / TOKENS, ignore_errors=True)
    shutil.rmtree(results / IMAGES, ignore_errors=True)
    for path in [*results.rglob(LEFT)]:
        if path.stat().st_mtime < since:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


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
    parser = argparse.ArgumentParser(prog="python -m reproduction.pipeline", description=__doc__)
    parser.add_argument("preset", help="file of params/, for example quick or workshop")
    parser.add_argument("stages", nargs="*", help="these and what they need; without, all")
    parser.add_argument(
        "-j", "--jobs", type=int, help="stages at once (default: what fits here, or the profile's)"
    )
    parser.add_argument(
        "--profile", default="", help="profile of Snakemake, for example profiles/slurm"
    )
    parser.add_argument(
        "--kept", action="store_true", help="of a study: leave out the runs that docs/results keeps"
    )
    options = parser.parse_intermixed_args(arguments)
    asked = (options.preset, options.stages, options.jobs, options.profile, options.kept)
    try:
        with _stoppable():
            return run(*asked)
    except KeyboardInterrupt:
        # Not where a pipe may lead whose reader the same Ctrl-C has ended.
        print("Stopped. Results so far are kept: the same command goes on.", file=sys.stderr)
        return STOPPED
    except (ValueError, OSError, RuntimeError, MissingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

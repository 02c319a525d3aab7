"""Slurm beside Snakemake's executor (2.8.0): what it would run, whose jobs are there, their end.

The executor takes each refusal of `sbatch` for the job's failure, waits for ever for a job that
`squeue` lists no more, and when stopped submits what it had in hand. So its `sbatch` and `squeue`
are this file: one waits where only time is lacking, the other says that such a job has ended, and
Snakemake then looks for its results. They load the standard library alone.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

HERE = "RELEVIT_SLURM"  # variable: the folder with the two commands, and what they note
NOTED, SAID = "jobs", "said"  # in it: numbers of jobs submitted; a link to what the run says
LISTED = ["squeue", "--noheader", "--format=%A|%T|%j|%k|%Z"]
# Refusals that end by themselves: limits on how many may be queued, a controller that is away.
LATER = re.compile(
    r"Submit\w*Limit|queue full|temporarily unable|Unable to contact|in standby|timed? ?out|"
    r"Connection refused|Communication connection failure|Zero Bytes|Unexpected message",
    re.IGNORECASE,
)
AGAIN_S = 15.0  # between two tries
ENDING_S = 120.0  # for jobs that were cancelled: Slurm gives them 30 by default
ANSWER_S = 60.0


def prefix(preset: str) -> str:
    """How the names of a preset's jobs begin; the executor adds a number of its own."""
    return f"relevit-{preset}"


def jobs(root: Path, preset: str) -> dict[str, str]:
    """Jobs of a preset that run or wait, and were submitted in this folder: what each makes.

    Raises: RuntimeError in the words of `squeue` where it does not answer.
    """
    rows = [line.split("|", 4) for line in _ask(LISTED).splitlines()]
    name = re.compile(re.escape(prefix(preset)) + "_[0-9a-f-]{36}")
    ours = [row for row in rows if len(row) == 5 and name.fullmatch(row[2])]
    ours = [row for row in ours if Path(row[4]).resolve() == root.resolve()]
    return {number: told.removeprefix("rule_") for number, _, _, told, _ in ours}


def _ask(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"pipeline: Slurm does not answer: {error}") from None
    if done.returncode:
        raise RuntimeError(f"pipeline: Slurm does not answer: {done.stderr.strip()}")
    return done.stdout


def refuse_left(root: Path, preset: str) -> None:
    """Raise RuntimeError where jobs of an earlier call are there: they would be made twice."""
    if left := jobs(root, preset):
        told = ", ".join(f"{number} ({what})" for number, what in left.items())
        raise RuntimeError(
            f"pipeline: jobs of an earlier call are queued or run: {told}; wait until they have "
            f"ended, or end them: scancel {' '.join(left)}. What they have made is kept"
        )


def refuse_never(profile: Path, options: Mapping[str, object]) -> None:
    """Raise ValueError in Slurm's words where it would never run a job as a profile asks."""
    asked = options.get("default-resources") or {}
    if isinstance(asked, list):
        asked = dict(each.partition("=")[::2] for each in asked)
    words = {"slurm_partition": "--partition", "slurm_account": "--account", "gres": "--gres"}
    numbers = {"mem_mb": "--mem", "runtime": "--time", "gpu": "--gpus"}  # else in Snakemake's words
    given = [f"{words[key]}={value}" for key, value in asked.items() if key in words]
    given += [
        f"{numbers[k]}={v}" for k, v in asked.items() if k in numbers and v and str(v).isdigit()
    ]
    given += shlex.split(str(asked.get("slurm_extra", "")).strip("'\""))
    given.append(f"--cpus-per-task={options.get('cores', 1)}")
    command = ["sbatch", "--test-only", *given, "--wrap=true"]
    how = {"capture_output": True, "text": True, "timeout": ANSWER_S}
    try:
        done = subprocess.run(command, **how)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"profile: Slurm does not answer: {error}") from None
    if done.returncode and not LATER.search(done.stderr):
        said = "; ".join(line.partition("error: ")[2] or line for line in done.stderr.splitlines())
        there = ", ".join(_ask(["sinfo", "--noheader", "--format=%R (up to %l)"]).splitlines())
        raise ValueError(
            f"profile: {profile}: Slurm refuses such a job: {said}. Its partitions: {there}; "
            "give default-resources in that file what one of them allows"
        )


def commands(folder: Path, said: int, path: str) -> dict[str, str]:
    """Make the two commands in a folder: the variables with which the executor finds them.

    They come first in its `path`. What they tell goes to `said`, a file number of this process.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("sbatch", "squeue"):
        line = shlex.join([sys.executable, "-I", "-S", __file__, name])
        (folder / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        (folder / name).chmod(0o755)
    (folder / SAID).symlink_to(f"/proc/{os.getpid()}/fd/{said}")
    return {HERE: str(folder), "PATH": f"{folder}{os.pathsep}{path}"}


def sbatch(arguments: list[str]) -> int:
    """Submit, as soon as that can be; what `sbatch` says otherwise."""
    folder, told = Path(os.environ[HERE]), False
    while True:
        done = subprocess.run([_slurms("sbatch"), *arguments], capture_output=True, text=True)
        number = done.stdout
        if done.returncode and LATER.search(done.stderr):
            if not told:
                _say(folder, f"Waiting to submit {_value(arguments, '--comment')}: {done.stderr}")
            told = True
            time.sleep(AGAIN_S)
            if not (number := _there(arguments)):  # Slurm may have taken what it did not answer
                continue
        elif done.returncode:
            sys.stderr.write(done.stderr)
            return done.returncode
        with (folder / NOTED).open("a") as noted:
            noted.write(number.strip().partition(";")[0] + "\n")
        sys.stdout.write(number)
        return 0


def _there(arguments: list[str]) -> str:
    """The number of the job that would be submitted, where it is there."""
    name, what = (_value(arguments, option) for option in ("--job-name", "--comment"))
    asked = ["--noheader", "--states=PENDING,RUNNING", f"--name={name}", "--format=%A|%k"]
    done = subprocess.run([_slurms("squeue"), *asked], capture_output=True, text=True)
    rows = [line.split("|", 1) for line in done.stdout.splitlines()]
    return next((f"{row[0]}\n" for row in rows if row[1:] == [what]), "")


def squeue(arguments: list[str]) -> int:
    """List jobs as the executor asks; those that are listed no more have ended."""
    noted = Path(os.environ[HERE], NOTED)
    submitted = noted.read_text(encoding="utf-8").split() if noted.is_file() else []
    done = subprocess.run([_slurms("squeue"), *arguments], stdout=subprocess.PIPE, text=True)
    sys.stdout.write(done.stdout)
    if done.returncode == 0:
        listed = {line.partition("|")[0] for line in done.stdout.splitlines()}
        sys.stdout.writelines(f"{job}|COMPLETED\n" for job in submitted if job not in listed)
    return done.returncode


def end(root: Path, preset: str) -> None:
    """End all jobs of a preset of this folder, and wait until none is there.

    Raises: RuntimeError where Slurm does not answer for as long as that may take.
    """
    until, without = time.monotonic() + ENDING_S, 0
    while without < 2:  # Slurm may still take one from a hand that has gone
        try:
            left = jobs(root, preset)
            if left:
                subprocess.run(["scancel", *left], capture_output=True, timeout=ANSWER_S)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            left = {"?": str(error)}
        without = 0 if left else without + 1
        if time.monotonic() > until:
            raise RuntimeError(
                f"These jobs may still run: {left}; end them before the next call: scancel NUMBER"
            )
        time.sleep(1.0)


def _slurms(name: str) -> str:
    """Slurm's own command, behind ours in the path."""
    places = [p for p in os.environ["PATH"].split(os.pathsep) if p != os.environ[HERE]]
    return shutil.which(name, path=os.pathsep.join(places)) or name


def _value(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1] if option in arguments else ""


def _say(folder: Path, text: str) -> None:
    with suppress(OSError), (folder / SAID).open("a") as said:  # it may have ended
        said.write(" ".join(text.split()) + "\n")


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "end":
        try:
            end(Path(rest[0]), rest[1])
        except RuntimeError as problem:
            sys.exit(str(problem))
    else:
        sys.exit({"sbatch": sbatch, "squeue": squeue}[what](rest))

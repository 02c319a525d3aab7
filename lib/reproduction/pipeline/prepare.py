"""A notebook runs alone: what it reads of others and is not there is made first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from relevit.base.files import project_root
from reproduction.config import Params, notebook_file, reads
from reproduction.pipeline import plan
from reproduction.runs import runs, table
from reproduction.runs.runs import Row
from reproduction.stages import EXECUTED, preset_file, results_of, stage_folder

LAST = 2000  # characters of what a notebook said that has failed


def prepared(cfg: Params) -> Path:
    """The folder that a notebook writes to, once all that it reads is there.

    Other notebooks are run as the pipeline runs them, with the parameters of the preset; finetuning
    runs are made with those of `cfg`. In the pipeline all is there already. Says what it makes, and
    about how long that takes.
    Raises: RuntimeError where a notebook fails; as `stage_folder`, `table.of` and `runs.make`.
    """
    folder = stage_folder(cfg)
    rows = [*runs.once(table.of(cfg)["run"]).values()] if table.asks(cfg.notebook) else []
    before = [
        *reads(cfg.notebook, cfg.benchmark.data),
        *(n for row in rows for n in plan.reads_of_run(row)),
    ]
    notebooks = [name for name in dict.fromkeys(before) if not _there(cfg, name)]
    times = plan.known_seconds(cfg.preset)
    if notebooks:
        _say(", ".join(notebooks), [times.get(name) for name in notebooks])
    for name in notebooks:
        _run(cfg, name)
    missing = [row for row in rows if not _made(row)]
    every = runs.once([*(need for row in missing for need in runs.needs(row)), *missing])
    missing = [row for row in every.values() if not _made(row)]
    if missing:
        kinds = [times.get(plan.kind(row)) for row in missing]
        _say(f"{len(missing)} finetuning run{'s' * (len(missing) > 1)}", kinds)
    runs.make_missing(missing, cfg.device)
    return folder


def _say(what: str, seconds: list[float | None]) -> None:
    known = [each for each in seconds if each]
    time = f", about {sum(known) * len(seconds) / len(known):.0f} s on 2 cores" if known else ""
    print(f"First, what this notebook reads is made: {what}{time}", flush=True)


def _there(cfg: Params, notebook: str) -> bool:
    try:
        results_of(cfg, notebook)
    except (FileNotFoundError, ValueError):  # not made, or with parameters of before
        return False
    return True


def _made(row: Row) -> bool:
    """Whether it has ended, be it in a failure: that is made again by the pipeline's next call."""
    try:
        runs.read(row, or_diverged=True)
    except FileNotFoundError:
        return False
    except runs.FailedError:
        return True
    return True


def _run(cfg: Params, notebook: str) -> None:
    """The line of the Snakefile, which sees by its files that this is done."""
    given = plan.write_parameters(preset_file(cfg.preset), notebook)
    folder = project_root() / cfg.output_root / cfg.preset / notebook
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "papermill", notebook_file(notebook), folder / EXECUTED]
    command += ["-f", given, "-p", "output_root", cfg.output_root, "-p", "device", cfg.device]
    command += ["--engine", "relevit", "--no-progress-bar"]
    done = subprocess.run([*map(str, command)], cwd=project_root(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"{cfg.notebook} reads {notebook}, which has failed; see {folder / EXECUTED}:\n"
            f"{(done.stdout + done.stderr)[-LAST:]}"
        )

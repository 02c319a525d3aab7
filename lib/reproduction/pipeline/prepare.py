"""A notebook runs alone: what it reads of others and is not there is made first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

from relevit.base.files import project_root
from reproduction import runs
from reproduction.params.cells import FINETUNED, Params, params_of
from reproduction.params.order import notebook_file, reads
from reproduction.params.preset import read_preset
from reproduction.pipeline import lock, plan
from reproduction.runs import grids
from reproduction.runs.run import MADE, Row
from reproduction.stages import (
    BY,
    EXECUTED,
    PIPELINE,
    changed_from_preset,
    preset_file,
    results_of,
    stage_folder,
)

LAST = 2000  # characters of what a notebook said that has failed
HELD = "notebook"  # in BY: one that holds the preset's lock runs this one


def prepared(cfg: Params) -> Path:
    """The folder that a notebook writes to, once all that it reads is there.

    Other notebooks are run as the pipeline runs them, with the parameters of the preset; finetuning
    runs are made with those of `cfg`. In the pipeline all is there, or has failed and is a gap.
    Says what it makes, and about how long that takes.
    Raises: RuntimeError where a notebook fails, or another process runs the preset; as
    `stage_folder`, `grids.of` and `runs.make`.
    """
    folder = stage_folder(cfg)
    if os.environ.get(BY) == PIPELINE:
        return folder
    rows = _rows(cfg)
    notebooks = _missing_notebooks(cfg, rows)
    needed = [row for name in notebooks for row in _rows(_of_preset(cfg, name))]
    every = [*needed, *rows]  # whose originals are not there yet, where a notebook is missing
    unmade = [row for row in every if not (row.folder / MADE).is_file()]
    missing = unmade if notebooks else _missing_rows(every)
    if not notebooks and not missing:
        return folder
    with nullcontext() if os.environ.get(BY) == HELD else lock.held(cfg.preset):
        times = plan.known_seconds(cfg.preset)
        if notebooks:
            of_runs = {row.name: times.get(plan.kind(row)) for row in missing}
            _say(
                ", ".join(notebooks), [*(times.get(name) for name in notebooks), *of_runs.values()]
            )
        for name in notebooks:
            _run(cfg, name)
        missing = _missing_rows(rows)
        if missing:
            kinds = [times.get(plan.kind(row)) for row in missing]
            _say(f"{len(missing)} finetuning run{'s' * (len(missing) > 1)}", kinds)
        for row in missing:
            plan.write_asked(row)
        runs.make_missing(missing, cfg.device)
    return folder


def _rows(cfg: Params) -> list[Row]:
    asked = grids.of(cfg)["run"] if grids.asks(cfg.notebook) else []
    return [*runs.once(asked).values()]


def _of_preset(cfg: Params, notebook: str) -> Params:
    return params_of(notebook).from_preset(preset_file(cfg.preset))


def _missing_notebooks(cfg: Params, rows: Iterable[Row]) -> list[str]:
    """Those that it reads and are not there, or read one that is made now.

    02_finetune with other parameters is set beside the preset's own.
    """
    data = cfg.benchmark.data
    beside = cfg.notebook == FINETUNED.partition("/")[0] and changed_from_preset(cfg)
    before = [
        *reads(cfg.notebook, data),
        *(name for row in rows for name in plan.reads_of_run(row)),
        *([cfg.notebook] if beside else []),
    ]
    of_preset = read_preset(preset_file(cfg.preset)).stages
    found: list[str] = []
    for name in dict.fromkeys(before):
        again = any(each in found for each in reads(name, data))
        if name in of_preset and (again or not _there(cfg, name)):
            found.append(name)
    return found


def _there(cfg: Params, notebook: str) -> bool:
    try:
        results_of(cfg, notebook)
    except (FileNotFoundError, ValueError):  # not made, or with parameters of before
        return False
    return True


def _missing_rows(rows: Iterable[Row]) -> list[Row]:
    """Those that are not made, and what they need: what has failed is tried again."""
    missing = [row for row in rows if not _made(row)]
    every = runs.once([*(need for row in missing for need in runs.needs(row)), *missing])
    return [row for row in every.values() if not _made(row)]


def _made(row: Row) -> bool:
    """Whether it is there; one that diverged would do so again."""
    try:
        runs.read(row, or_diverged=True)
    except (FileNotFoundError, runs.FailedError):
        return False
    return True


def _say(what: str, seconds: list[float | None]) -> None:
    known = [each for each in seconds if each]
    time = f", about {sum(known) * len(seconds) / len(known):.0f} s on 2 cores" if known else ""
    print(f"First, what this notebook reads is made: {what}{time}", flush=True)


def _run(cfg: Params, notebook: str) -> None:
    """The line of the Snakefile, which sees by its files that this is done."""
    given = plan.write_parameters(preset_file(cfg.preset), notebook)
    folder = project_root() / cfg.output_root / cfg.preset / notebook
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "papermill", notebook_file(notebook), folder / EXECUTED]
    command += ["-f", given, "-p", "output_root", cfg.output_root, "-p", "device", cfg.device]
    command += ["--engine", "relevit", "--no-progress-bar"]
    how = {"cwd": project_root(), "env": os.environ | {BY: HELD}}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **how)
    if done.returncode:
        raise RuntimeError(
            f"{cfg.notebook} reads {notebook}, which has failed; see {folder / EXECUTED}:\n"
            f"{(done.stdout + done.stderr)[-LAST:]}"
        )

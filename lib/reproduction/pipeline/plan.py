"""What a preset's run consists of, written for Snakemake: stages, their parameters, runs.

A file is written anew only where its content has changed, so that by the files' times Snakemake
makes again what others ask for now, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import yaml

from relevit.base.files import project_root, write_atomically
from relevit.base.results import read_json
from relevit.choices.words import PACS
from relevit.finetune.run import DIVERGED
from relevit.models.registry import PAPER_MODELS
from reproduction import runs
from reproduction.params import cells
from reproduction.params.order import notebook_file, reads
from reproduction.params.preset import Preset
from reproduction.pipeline.progress import PAGE
from reproduction.runs import grids, parts
from reproduction.runs.run import MADE, Row

FOLDER = "params"  # of a preset's results
PLAN = "plan.json"
ASKED = "asked.json"  # beside a run's files
LARGEST_BATCH = 6  # runs of one process, which loads torch once
TIMES = Path("docs", "results", "times.csv")  # seconds of stages and of kinds of runs
UNKNOWN_S = 60.0  # where none are known: then the longest way is that of most steps


def write_plan(
    preset: Preset, at_once: int, whole: bool = True, cluster: bool = False, kept: bool = False
) -> dict[str, float]:
    """Write the parameters of each stage, what each run is asked, and the plan of all.

    `at_once` are the jobs side by side, for which runs are put together: on this machine, or on a
    `cluster`, where each job waits for its turn. `whole`: no stage is asked for alone. `kept`: runs
    whose answers the project keeps are left out. Returns the
    seconds of each job, as far as they are known, by the first words of its message.
    Raises: ValueError for a run that cannot be made.
    """
    results = project_root() / "outputs" / preset.path.stem
    without = parts.kept(preset.path.stem) if kept else set()
    read, known = grids.asked(preset), grids.of_preset(preset, without)
    for name in preset.stages:
        write_parameters(preset.path, name)
    for row in known.values():
        write_asked(row)
    times, data = known_seconds(preset.path.stem), preset.pipeline.benchmark.data
    other = median(times.values()) if times else UNKNOWN_S
    notebooks = {
        name: {
            "about": cells.title(name),
            "file": notebook_file(name),
            "before": [n for n in reads(name, data) if n in preset.stages],
            "runs": [*read.get(name, {})],
            "seconds": times.get(name, other),
        }
        for name in preset.stages
        if not preset.pipeline.runs_alone
    }
    first = set(read.get(PAGE, {}))
    first |= {need.name for run in first for need in runs.needs(known[run])}
    batches = list(_batches(known, first, at_once, cluster))
    for batch in batches:
        batch["seconds"] = sum(times.get(kind(known[run]), other) for run in batch["runs"])
    plan = {
        "page": PAGE,
        "at_once": at_once if whole and not cluster else None,
        "notebooks": notebooks,
        "batches": batches,
    }
    _write(results / FOLDER / PLAN, json.dumps(plan, indent=2))
    jobs = notebooks | {f"runs {n} of {len(batches)}": job for n, job in enumerate(batches, 1)}
    return {name: job["seconds"] for name, job in jobs.items()} if times else {}


def write_asked(row: Row) -> None:
    """Write what a run is asked beside its files, anew only where that is more, or another."""
    asked = {"asked": row.asked, "record": row.record}
    with suppress(OSError, ValueError):  # none, or a damaged one
        made, before = read_json(row.folder / MADE), read_json(row.folder / ASKED)
        if row.more_than(made["asked"]):
            (row.folder / ASKED).unlink()  # written anew, it is newer than what was made
        elif before["record"] == asked["record"]:
            return  # it was made with as much, or more: nothing is made anew
    _write(row.folder / ASKED, json.dumps(asked, indent=2, sort_keys=True))


def write_parameters(preset: Path, notebook: str) -> Path:
    """The file of parameters that papermill is given for a notebook.

    It names the notebook's code, too: so a stage is made anew for another cell, and not for a
    sentence, nor where somebody has run the notebook and saved it.
    """
    path = project_root() / "outputs" / preset.stem / FOLDER / f"{notebook}.yaml"
    values = yaml.safe_dump(cells.params_of(notebook).values_of_preset(preset))
    _write(path, f"{values}# The notebook's code: {cells.digest(notebook)}\n")
    return path


def known_seconds(preset: str) -> dict[str, float]:
    """Seconds of each stage and each kind of run, when a preset was run the last time."""
    path = project_root() / TIMES
    if not path.is_file():
        return {}
    table = pd.read_csv(path)
    return table[table["preset"] == preset].set_index("notebook")["seconds"].to_dict()


def kind(row: Row) -> str:
    """What the time of a run depends on most, as it is named in TIMES."""
    params = row.params
    if row.original:
        return f"{runs.ORIGINAL} {params.model}"
    blocks = getattr(params, "trained_blocks", None)
    return f"{params.model} epochs {params.epochs}" + ("" if blocks is None else f" last {blocks}")


def _batches(
    known: dict[str, Row], first: set[str], at_once: int, cluster: bool
) -> Iterator[dict[str, Any]]:
    """Runs that wait for the same, as many in one job as leaves work for all jobs.

    On a cluster many groups are made at the same time.
    """
    groups: dict[tuple, list[str]] = {}
    for name, row in known.items():
        needs = tuple(each.name for each in runs.needs(row))
        key = (type(row.params), name in first, needs, reads_of_run(row))
        groups.setdefault(key, []).append(name)
    for (*_, needs, before), names in groups.items():
        size = min(LARGEST_BATCH, -(-len(known if cluster else names) // at_once))
        for start in range(0, len(names), size):
            part = names[start : start + size]
            told = part[0] + (f" and {len(part) - 1} more" if part[1:] else "")
            yield {"runs": part, "told": told, "needs": needs, "before": before}


def reads_of_run(row: Row) -> tuple[str, ...]:
    """The notebooks whose files a run reads."""
    images, model = row.params.benchmark, row.params.model
    if runs.of_labels(row.params) or images.data == PACS:
        return ()
    own = not images.each_seed and model in (runs.own_model(row.params), *PAPER_MODELS)
    masks = row.params.masks == "tokencut" and not row.original
    return (*(["00_start"] if own else []), *(["01_masks"] if masks else []))


def unmake_failed(preset: Preset) -> None:
    """Take back the marks of runs that failed, so that they are made again.

    One that diverged would do so again: that is its result.
    """
    for name, reason in failures(preset).items():
        if not diverged(reason):
            (_room(preset) / name / MADE).unlink()


def diverged(reason: str) -> bool:
    """Whether a run has failed in a way that is its result."""
    return reason.startswith(DIVERGED)


def failures(preset: Preset) -> dict[str, str]:
    """The runs that have failed or diverged, with their reasons."""
    marks = {name: _room(preset) / name / MADE for name in grids.of_preset(preset)}
    found = {name: read_json(path)["failed"] for name, path in marks.items() if path.is_file()}
    return {name: reason for name, reason in found.items() if reason}


def _room(preset: Preset) -> Path:
    return project_root() / "outputs" / preset.path.stem / runs.ROOM


def _write(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)

"""How a notebook reaches the files of the stages before it, and their parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relevit.base.files import digest, project_root, run_folder, write_atomically
from relevit.base.results import Kept, read_json
from relevit.choices.messages import shown
from reproduction.params.cells import Params, params_of
from reproduction.params.preset import Pipeline

if TYPE_CHECKING:
    import pandas as pd

EXECUTED = "executed.ipynb"
SUMMARY = "summary.json"
# Environment variable of a notebook's process, and its value where the pipeline runs it.
BY, PIPELINE = "RELEVIT_RUN_BY", "pipeline"
FREE = {"device", "output_root", "preset", "shown"}  # change nothing in a stage's results


def stage_folder(cfg: Params) -> Path:
    """The folder that the notebook with these parameters writes to.

    With other parameters than the preset's it is one of its own, named after them, so that a trial
    by hand never takes the place of what other notebooks read.
    Raises: ValueError for a preset that has no file of parameters, and for a wrong one.
    """
    path = preset_file(cfg.preset)
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml")))
        raise ValueError(
            f"{cfg.notebook}: preset = {cfg.preset!r} has no file {path}; use one of {known}, "
            "or copy params/quick.yaml to it"
        )
    name = cfg.notebook
    if changed_from_preset(cfg):
        name += f".{digest(cfg.model_dump(exclude=FREE))}"
    return run_folder(cfg.preset, name, output_root=cfg.output_root)


def changed_from_preset(cfg: Params) -> dict[str, tuple[Any, Any]]:
    """Of each parameter that is another than in the preset's file, that one's value and its own."""
    path = preset_file(cfg.preset)
    theirs, ours = (
        _one_level(Kept(path, each.model_dump(exclude=FREE)))
        for each in (type(cfg).from_preset(path), cfg)
    )
    return {key: (theirs[key], ours[key]) for key in ours if theirs[key] != ours[key]}


def preset_file(preset: str) -> Path:
    """The file with the parameters of a preset."""
    return project_root() / "params" / f"{preset}.yaml"


def read_pipeline(preset: str) -> Pipeline:
    """What the pipeline of a preset runs. Raises: ValueError, FileNotFoundError."""
    return Pipeline.from_preset(preset_file(preset))


def read_stage(cfg: Params, name: str, **others: Any) -> Params:
    """The parameters of another stage (`params_of`), from its section in the preset of `cfg`.

    What all stages share, device and results folder are those of `cfg`; `others` are changed.
    Raises: FileNotFoundError, ValueError.
    """
    stage, path = params_of(name), preset_file(cfg.preset)
    shared = cfg.model_dump(include=set(Params.model_fields))
    values = stage.values_of_preset(path) | shared | others
    return stage.checked(values, f"{path}: {stage.notebook}")


def results_of(cfg: Params, notebook: str) -> Path:
    """Folder of an earlier stage, with its results.

    Raises: FileNotFoundError, which says what to run, where there are none; ValueError for those
    of before the preset's file was changed.
    """
    folder = run_folder(cfg.preset, notebook, output_root=cfg.output_root)
    if not (folder / SUMMARY).is_file():
        raise FileNotFoundError(
            f"{cfg.notebook}: {folder} has no results yet; run this first: "
            f"python -m reproduction.pipeline {cfg.preset} {notebook}"
        )
    path = preset_file(cfg.preset)
    asked = _one_level(Kept(path, params_of(notebook).from_preset(path).model_dump()))
    made = _one_level(read_summary(folder).values_of("parameters"))
    for key in sorted(made.keys() & asked.keys() - FREE):
        if made[key] != asked[key]:
            raise ValueError(
                f"{folder / SUMMARY}: {key} = {shown(made[key])}, and {path} says "
                f"{shown(asked[key])}; make it again by: "
                f"python -m reproduction.pipeline {cfg.preset} {notebook}"
            )
    return folder


def _one_level(parameters: Kept) -> dict[str, Any]:
    """Those of the benchmark beside the others, each by its own name."""
    inner = parameters.values_of("benchmark") if "benchmark" in parameters else {}
    others = {key: value for key, value in parameters.items() if key != "benchmark"}
    return others | {f"benchmark.{key}": value for key, value in inner.items()}


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Each table as a parquet file for other notebooks, and as a CSV file for people."""
    for name, table in tables.items():
        write_atomically(folder / f"{name}.parquet", table.to_parquet)
        write_atomically(folder / f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))


def write_summary(folder: Path, cfg: Params, **figures: Any) -> None:
    """Write the stage's last file: its parameters and main figures. Marks the stage as done."""
    text = json.dumps({"parameters": cfg.model_dump(), **figures}, indent=2, sort_keys=True)
    write_atomically(folder / SUMMARY, text + "\n")


def read_summary(folder: Path) -> Kept:
    """Read what `write_summary` wrote. Raises: FileNotFoundError; ValueError that names the file,
    when it is damaged or, as soon as it is asked for, lacks a figure.
    """
    found = read_json(folder / SUMMARY)
    found.values_of("parameters")
    return found

"""How a notebook reaches the files of the stages before it, and their parameters."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, TypeVar

from relevit.base import errors
from relevit.base.files import project_root, run_folder, write_atomically
from relevit.base.results import Kept, read_json
from relevit.config import NOTEBOOKS, Params, PipelineParams
from relevit.config.messages import shown

EXECUTED = "executed.ipynb"
SUMMARY = "summary.json"
FREE = {"device", "output_root", "preset", "run", "shown"}  # change nothing in a stage's results

Stage = TypeVar("Stage", bound=Params)


def stage_folder(cfg: Params, run: str = "") -> Path:
    """The folder that the notebook with these parameters writes to.

    Raises: ValueError for a preset that has no folder of parameter files.
    """
    files = preset_folder(cfg.preset)
    if not files.is_dir():
        known = ", ".join(sorted(folder.name for folder in files.parent.iterdir()))
        raise ValueError(
            f"{cfg.notebook}: preset = {cfg.preset!r} has no folder {files}; use one of {known}, "
            "or copy params/quick to it"
        )
    return run_folder(cfg.preset, cfg.notebook, run, cfg.output_root)


def preset_folder(preset: str) -> Path:
    """The folder with the parameter files of a preset."""
    return project_root() / "params" / preset


def read_pipeline(preset: str) -> PipelineParams:
    """What the pipeline of a preset runs. Raises: ValueError, FileNotFoundError."""
    return PipelineParams.from_preset(preset_folder(preset))


def read_stage(cfg: Params, stage: type[Stage], **others: Any) -> Stage:
    """The parameters of another stage, from its file in the preset of `cfg`.

    What all stages share, device and results folder are those of `cfg`; `others` are changed.
    Raises: FileNotFoundError, ValueError.
    """
    folder = preset_folder(cfg.preset)
    shared = cfg.model_dump(include=set(Params.model_fields))
    values = stage.values_of_preset(folder) | shared | others
    return stage.checked(values, str(folder / f"{stage.notebook}.yaml"))


def need_stage(cfg: Params, notebook: str, run: str = "", /, **parameters: Any) -> Path:
    """Folder of an earlier stage, which is run now if it has not been yet.

    In the pipeline the stages come in order and this only returns the folder. A notebook
    started alone gets what it needs: the earlier notebook runs with the parameter files of
    the same preset, exactly as `papermill NOTEBOOK OUT -f COMMON -f FILE` would.
    Raises: FileNotFoundError without a parameter file; papermill's error when the stage fails;
    NotYetError in a report on a run that still goes on; ValueError for a stage that was run with
    other parameters than the preset's, by hand or before its files were changed.
    """
    folder = run_folder(cfg.preset, notebook, run, cfg.output_root)
    if not has_landed(cfg, notebook):
        raise errors.NotYetError(f"{notebook} has no results yet")
    files = preset_folder(cfg.preset)
    if (folder / SUMMARY).is_file():
        if (files / f"{notebook}.yaml").is_file():  # else nothing is asked of it
            _need_as_asked(folder, NOTEBOOKS[notebook], files, parameters)
        return folder
    import papermill  # heavy, and not needed inside the pipeline

    values = NOTEBOOKS[notebook].values_of_preset(files)
    print(f"{notebook} {run} has no results in {cfg.preset!r} yet: running it now ...")
    start = time.perf_counter()
    papermill.execute_notebook(
        project_root() / "notebooks" / f"{notebook}.ipynb",
        folder / EXECUTED,
        parameters=values | {"output_root": cfg.output_root} | parameters,
        engine_name="relevit",
        progress_bar=False,
        kernel_name="python3",
    )
    print(f"... done in {time.perf_counter() - start:.0f} s")
    return folder


def _need_as_asked(
    folder: Path, stage: type[Params], files: Path, parameters: dict[str, Any]
) -> None:
    """Raise ValueError when a stage's results are those of other parameters than it would get."""
    place = f"{files / stage.notebook}.yaml"
    values = stage.checked(stage.values_of_preset(files) | parameters, place).model_dump()
    asked = _one_level(Kept(files, values))
    made = _one_level(read_summary(folder).values_of("parameters"))
    for key in sorted(made.keys() & asked.keys() - FREE):
        if made[key] != asked[key]:
            shared = "seeds.yaml" if key == "seeds" else "common.yaml"
            says = "it is read for" if key in parameters else f"{place} or {shared} says"
            raise ValueError(
                f"{folder / SUMMARY}: {key} = {shown(made[key])}, and {says} "
                f"{shown(asked[key])}; delete "
                f"{folder} to make it again, and give a run of your own another output_root"
            )


def _one_level(parameters: Kept) -> dict[str, Any]:
    """Those of the benchmark beside the others, each by its own name."""
    inner = parameters.values_of("benchmark") if "benchmark" in parameters else {}
    others = {key: value for key, value in parameters.items() if key != "benchmark"}
    return others | {f"benchmark.{key}": value for key, value in inner.items()}


def has_landed(cfg: Params, notebook: str) -> bool:
    """Whether a stage may be read: false only in a report on a run that has not come to it."""
    landed = getattr(cfg, "landed", [])
    return not landed or notebook in landed


def possible_stage(cfg: Params, notebook: str) -> Path:
    """As `need_stage`, but a stage that is still to come, or whose extra is not installed, is
    left as it is.
    """
    without_extra = notebook in errors.NOTEBOOKS_ON_TEXT and bool(errors.absent())
    if without_extra or not has_landed(cfg, notebook):
        return run_folder(cfg.preset, notebook, "", cfg.output_root)
    return need_stage(cfg, notebook)


def write_summary(folder: Path, cfg: Params, **figures: Any) -> None:
    """Write the stage's last file: its parameters and main figures. Marks the stage as done."""
    text = json.dumps({"parameters": cfg.model_dump(), **figures}, indent=2, sort_keys=True)
    write_atomically(
        folder / SUMMARY, lambda target: target.write_text(text + "\n", encoding="utf-8")
    )


def read_summary(folder: Path) -> Kept:
    """Read what `write_summary` wrote. Raises: FileNotFoundError; ValueError that names the file,
    when it is damaged or, as soon as it is asked for, lacks a figure.
    """
    found = read_json(folder / SUMMARY)
    found.values_of("parameters")
    return found

"""Methods to be judged, by name, file or folder of maps, and the table of those that were."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from relevit.attribution import METHODS
from relevit.base.errors import one_line
from relevit.base.files import project_root
from reproduction.measures.judge import (
    MARKS,
    Maps,
    Method,
    Task,
    fitting,
    maps_of,
    marks,
    need_saying,
    record,
    scene_names,
    seconds,
)

MANIFEST = "manifest.csv"
ROWS = Path("docs", "results", "judge")  # below the project
NO_TABLE = f"the rows are not here: they are in {ROWS.as_posix()} of the repository"
HOW = f"""Add a row: write a function (model, images, target) -> maps, and then
  relevit judge my_method.py:explain --out {ROWS.as_posix()}/my_method.json
  make numbers
and make a pull request of both. docs/judge.md says what the columns mean.
"""
SHOWN = ("truth_pct", "same_first_pct", "miou_pct", "erasing_pts")


def judge(
    given: str, name: str, tasks: list[Task], say: Callable[[str], object] = lambda line: None
) -> dict[str, Any]:
    """The record of a method, a mark, or a folder of maps; about how long it takes is said first.

    Raises: as `read_method`, `read_maps` and `maps_of`.
    """
    if given in MARKS:
        return record(name, {task.name: marks(task)[given] for task in tasks}, tasks)
    maps = read_maps(Path(given), tasks) if Path(given).is_dir() else {}
    method = None if maps else read_method(given)
    tasks = [task for task in tasks if method or task.name in maps]
    say(f"{len(tasks[0].target)} scenes, {len(tasks)} models: about {seconds(tasks, method):.0f} s")
    return record(name, maps or {task.name: maps_of(task, method) for task in tasks}, tasks)


def read_method(given: str) -> Method:
    """A method by its name, or what `my_file.py:name` is: a function, or one of captum's classes.

    Raises: FileNotFoundError; ValueError for what is no such name, file or method.
    """
    if given in METHODS:
        return METHODS[given]
    others = f"a folder with maps and {MANIFEST}, or one of {', '.join([*METHODS, *MARKS])}"
    wanted = "(model, images, target) -> maps, or a class of captum's, which is made for each model"
    found = load_callable(given, f"method; give FILE.py:NAME, {others}", wanted)
    return _of_captum(found) if hasattr(getattr(found, "func", found), "attribute") else found


def load_callable(given: str, but: str, wanted: str) -> Callable[..., Any]:
    """What `my_file.py:name` is. `but` is what it is not, and `wanted` what is called there.

    Raises: FileNotFoundError; ValueError for what is no such name, file or function.
    """
    file, colon, name = given.rpartition(":")
    path = Path(file)
    if not colon or path.suffix != ".py":
        raise ValueError(f"judge: {given!r} is no {but}")
    if not path.is_file():
        raise FileNotFoundError(f"judge: the file {path} is missing; check its name")
    found = getattr(_loaded(path), name, None)
    if not callable(found):
        raise ValueError(f"judge: {name!r} in {path} is no function; give one {wanted}")
    return found


def _loaded(path: Path) -> Any:
    """The module of a file, which may import what lies beside it."""
    name = f"judged_{path.stem}"  # which no other module has
    spec = spec_from_file_location(name, path)
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the code of others raises
        raise ValueError(f"judge: {path} cannot be loaded ({one_line(error)}); mend it") from error
    finally:
        sys.path.pop(0)
    return module


def _of_captum(attribution: Any) -> Method:
    return lambda model, images, target: attribution(model).attribute(images, target=target)


# Maps from files


def write_scenes(folder: Path, task: Task) -> None:
    """The scenes as PNG files, for maps that are made elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = task.scenes.whole.images
    for name, pixels in zip(scene_names(len(pictures) // 2), pictures, strict=True):
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(folder / name)


def read_maps(folder: Path, tasks: Iterable[Task]) -> dict[str, Maps]:
    """The maps of each model that the manifest of a folder has, as `relevit explain` writes it.

    Its columns are file (the scene), model and map (an NPY file in the folder).
    Raises: FileNotFoundError; ValueError for a manifest or maps that do not fit.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(f"judge: {path} is missing; it has columns file, model and map")
    rows, found = pd.read_csv(path), {}
    if lost := {"file", "model", "map"} - set(rows):
        raise ValueError(f"judge: {path} has no column {', '.join(sorted(lost))}; add it")
    for task in tasks:
        own = rows[rows["model"] == task.name]
        names = scene_names(len(task.target) // 2)
        if own.empty:
            continue
        if sorted(own["file"]) != sorted(names):
            odd = sorted({*names} ^ {*own["file"]}) or own.loc[own["file"].duplicated(), "file"]
            raise ValueError(
                f"judge: {path} has {len(own)} maps of {task.name}, {next(iter(odd))} not once; "
                f"needed is one for each of {len(names)} scenes, {names[0]} to {names[-1]}"
            )
        files = own.set_index("file").loc[names, "map"]
        maps = [np.load(folder / name, allow_pickle=False) for name in files]
        if len({each.shape for each in maps}) > 1:
            raise ValueError(f"judge: maps of several shapes in {folder}; give one for all")
        found[task.name] = need_saying(fitting(np.stack(maps), task, len(maps)), task)
    if not found:
        known = ", ".join(task.name for task in tasks)
        raise ValueError(f"judge: {path} has no map of {known}; give some of one of them")
    return found


# The table


def kept_in() -> Path:
    """Where the rows are; a folder that is not there without the repository."""
    try:
        return project_root() / ROWS
    except FileNotFoundError:
        return ROWS


def read_records(folder: Path) -> list[dict[str, Any]]:
    """What is kept of all methods.

    Raises: ValueError where they were judged on different scenes or models.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.name] = json.loads(path.read_text("utf-8"))
            table([found[path.name]], "")
            same = comparable(next(iter(found.values())), found[path.name])
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ValueError(f"judge: {path} is no whole record; judge it anew") from None
        if not same:
            raise ValueError(
                f"judge: {path.name} was judged on other scenes or models than "
                f"{next(iter(found))}; judge it anew"
            )
    return list(found.values())


def comparable(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether both were judged on the same scenes and, of those that both have, models."""
    same = one["models"].keys() & other["models"].keys()
    models = all(one["models"][name] == other["models"][name] for name in same)
    return one["scenes"] == other["scenes"] and models


def table(records: Collection[dict[str, Any]], model: str) -> pd.DataFrame:
    """A row a method, the truest first: method, and of each of SHOWN value, low and high.

    `truth_pct`, `truth_low_pct`, `truth_high_pct` and so on. Marks are in brackets.
    """
    rows = {}
    for each in (each for each in records if model in each["scores"]):
        name = f"({each['method']})" if each["method"] in MARKS else each["method"]
        rows[name] = [end for score in SHOWN for end in each["scores"][model][score]]
    columns = [name for score in SHOWN for name in _ends(score)]
    found = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    found = found.sort_values("truth_pct", ascending=False, kind="stable")
    return found.rename_axis("method").reset_index()


def _ends(score: str) -> list[str]:
    stem, unit = score.rsplit("_", 1)
    return [score, f"{stem}_low_{unit}", f"{stem}_high_{unit}"]


def in_words(records: Collection[dict[str, Any]], model: str) -> str:
    """The table for a terminal, numbers with their intervals."""
    shown = table(records, model).set_index("method")
    form = "{:.1f} ({:.1f} to {:.1f})".format
    columns = {score: [form(*row) for row in shown[_ends(score)].to_numpy()] for score in SHOWN}
    return pd.DataFrame(columns, index=shown.index).to_string()


def as_json(record: dict[str, Any]) -> str:
    """A record as it is written, a list in a line: the same numbers are the same bytes."""
    return re.sub(r"\s+(?=[^][{}]*\])", " ", json.dumps(record, indent=1)) + "\n"

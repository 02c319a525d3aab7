"""Is this machine ready for the notebooks? What a teacher asks of each one before the day."""

from __future__ import annotations

import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from relevit.base.device import cores
from relevit.base.errors import one_line
from relevit.base.files import cache_folder, project_root

PYTHONS = ((3, 11), (3, 13))
PACKAGES = ("torch", "timm", "jupyterlab", "ipywidgets", "papermill")
FREE_MB = 1000  # what the quick preset writes, and room to work in
SLOW_S = 10.0  # for one map of the small model: a cell of it takes a second elsewhere
FETCHED = {
    "dinov2_vits14.safetensors": "DINOv2",
    "minilm-l6": "MiniLM",
    "movie_reviews.csv": "film reviews",
}


class Looked(NamedTuple):
    """One thing that was looked at: whether it will do, and what is there or what to do."""

    what: str
    good: bool
    said: str


def ready() -> Iterator[Looked]:
    """Python, packages, room, cores, and a map that is drawn; each as soon as it is known."""
    for what, look in LOOKS.items():
        try:
            yield Looked(what, *look())
        except Exception as error:  # whatever is wrong with an installation
            yield Looked(what, False, f"{one_line(error)}; make setup installs all anew")


def _python() -> tuple[bool, str]:
    here = sys.version_info[:2]
    said = f"{platform.python_version()} on {platform.system()} ({platform.machine()})"
    (low, high) = PYTHONS
    if low <= here <= high:
        return True, said
    return False, f"{said}; 3.11 to 3.13 is needed: make setup PYTHON=python3.12"


def _packages() -> tuple[bool, str]:
    found, lost = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lost.append(name)
    if lost:
        return False, f"{', '.join(lost)} not installed: make setup installs all"
    return True, ", ".join(found)


def _room() -> tuple[bool, str]:
    root = project_root()
    free = shutil.disk_usage(root).free // 2**20
    said = f"{free / 1000:.0f} GB free at {root}" if free >= 10_000 else f"{free} MB free at {root}"
    return free >= FREE_MB, said if free >= FREE_MB else f"{said}; {FREE_MB} MB are needed"


def _cores() -> tuple[bool, str]:
    count = cores()
    said = f"{count}" if count > 1 else "1: notebooks take twice the time that they tell"
    return True, said


def _map() -> tuple[bool, str]:
    import torch

    from relevit import explain, load_model

    start = time.perf_counter()
    model = load_model("tiny")
    heat = explain(model, torch.zeros(1, 3, 112, 112), method="gae")
    seconds = time.perf_counter() - start
    said = f"drawn in {seconds:.1f} s, {tuple(heat.shape[-2:])}"
    slow = f"{said}: this machine is slow or busy; close what else runs"
    return seconds < SLOW_S, said if seconds < SLOW_S else slow


def _downloads() -> tuple[bool, str]:
    lost = [said for name, said in FETCHED.items() if not (cache_folder() / name).exists()]
    need = f"not here: {', '.join(lost)} (make reproduce fetches them; make quick needs none)"
    return True, need if lost else f"{', '.join(FETCHED.values())} are here"


LOOKS: dict[str, Callable[[], tuple[bool, str]]] = {
    "Python": _python,
    "packages": _packages,
    "disk": _room,
    "cores": _cores,
    "a map": _map,
    "downloads": _downloads,
}

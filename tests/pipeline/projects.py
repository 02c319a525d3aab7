"""Copies of the project, with sizes as small as the parameters allow, and runs in them."""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
PRESET = "smallest"
SMALLEST = Path(__file__).with_name(f"{PRESET}.yaml")
# Enough for all that a run does: an original, runs of both kinds of masks, a sweep.
FEW = ("00_start", "01_masks", "02_finetune", "04_cures", "04a_cures")
RUN_S = 900  # limit for a whole run, also on a busy machine


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float


def copy_project(folder: Path) -> Path:
    """A project of its own: what is run and with which parameters, and the smallest preset."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(ROOT / "params", folder / "params")
    shutil.copytree(ROOT / "docs" / "results", folder / "docs" / "results")  # that lessons quote
    shutil.copy2(ROOT / "Snakefile", folder)
    shutil.copy2(SMALLEST, folder / "params")
    return folder


def sections(project: Path) -> dict[str, dict[str, Any]]:
    return yaml.safe_load((project / "params" / SMALLEST.name).read_text())


def edit(project: Path, section: str, **values) -> None:
    """Change values in a section of the smallest preset."""
    found = sections(project)
    found[section] = found.get(section, {}) | values
    (project / "params" / SMALLEST.name).write_text(yaml.safe_dump(found))


def command(*arguments: str) -> list[str]:
    """Two stages side by side, as `make` runs them."""
    return [sys.executable, "-m", "reproduction.pipeline.run", "--jobs", "2", *arguments]


def run(project: Path, *arguments: str) -> Ended:
    """`python -m reproduction.pipeline.run` in a project's folder."""
    start = time.perf_counter()
    done = subprocess.run(command(*arguments), cwd=project, capture_output=True, text=True)
    return Ended(done.returncode, done.stdout, done.stderr, time.perf_counter() - start)


def results(project: Path) -> Path:
    return project / "outputs" / PRESET

"""Clusters: a Snakemake profile says where stages run, and this module how many at once.

A profile describes the machines alone (executor, memory, time, partitions). Cores and the
threads of a stage follow from its `jobs` and `max-threads`, so that no two numbers contradict
each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from relevit.base.paths import project_root

FILE = "config.yaml"
HERE = ("local", "dryrun", "touch")  # Snakemake's own executors
OURS = ("cores", "config", "resources")  # set by the pipeline


@dataclass(frozen=True)
class Cluster:
    """Where stages run: a profile, how many at once, and the processor cores of each."""

    profile: Path
    jobs: int
    threads: int

    def options(self) -> list[str]:
        """Snakemake's options. A stage has its GPU to itself, so that it is the first it sees."""
        cores = ["--jobs", str(self.jobs), "--cores", str(self.jobs * self.threads)]
        settings = ["--config", f"threads={self.threads}", "gpus=0"]
        return ["--profile", str(self.profile), *cores, *settings]


def read_profile(name: str, jobs: int | None = None) -> Cluster:
    """A profile by its folder, below the working folder or the project; `jobs` replaces its own.

    Raises: FileNotFoundError when it is not there; ValueError when it is for no cluster, lacks a
    number, sets what the pipeline sets, or its executor is not installed.
    """
    folder = _find(name)
    path = folder / FILE
    values = _read(path)
    executor = values.get("executor")
    if not isinstance(executor, str) or executor in HERE:
        raise ValueError(
            f"profile: {path}: executor = {executor!r}; a cluster's is needed, like slurm: for "
            "this machine alone leave --profile out and give --jobs"
        )
    if clashing := sorted(set(values) & set(OURS)):
        raise ValueError(
            f"profile: {path}: {clashing} are set by the pipeline, from jobs and max-threads; "
            "leave them out"
        )
    numbers = values | ({} if jobs is None else {"jobs": jobs})
    places, threads = (_number(path, numbers, key) for key in ("jobs", "max-threads"))
    _need_executor(path, executor)
    return Cluster(folder, places, threads)


def _find(name: str) -> Path:
    places = [Path(name).expanduser().resolve(), project_root() / name]
    for folder in places:
        if (folder / FILE).is_file():
            return folder
    shipped = sorted(path.parent.name for path in (project_root() / "profiles").glob(f"*/{FILE}"))
    raise FileNotFoundError(
        f"profile: {places[0] / FILE} is missing; give a folder with {FILE}, like "
        f"{' or '.join(f'profiles/{each}' for each in shipped) or 'profiles/slurm'}"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"profile: {path}: no valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"profile: {path}: needs `name: value` lines, like executor: slurm")
    return values


def _number(path: Path, values: dict[str, Any], key: str) -> int:
    value = values.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        what = {"jobs": "stages at once", "max-threads": "processor cores of one stage"}[key]
        raise ValueError(
            f"profile: {path}: {key} = {value!r}; a whole number above 0 is needed, the {what}"
        )
    return value


def _need_executor(path: Path, executor: str) -> None:
    package = f"snakemake-executor-plugin-{executor}"
    if find_spec(package.replace("-", "_")) is None:
        raise ValueError(
            f"profile: {path}: executor {executor!r} is not installed; add it with: "
            f"pip install {package}"
        )

"""The command that makes a run of 02_finetune on several processes (see `relevit.distributed`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from relevit import distributed, runs
from relevit.config import FinetuneParams
from relevit.distributed import Backend, launched, only_first, process_group, world
from relevit.errors import one_line
from relevit.precision import choose_device
from relevit.stages import stage_folder


def run_params(file: Path, given: Iterable[str] = ()) -> FinetuneParams:
    """A parameter file of 02_finetune with `name=value` changes, values as in YAML.

    Raises: ValueError, FileNotFoundError.
    """
    values, given = FinetuneParams.from_file(file).model_dump(), list(given)
    for text in given:
        name, equals, value = text.partition("=")
        try:
            values[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(f"-p {text}: the value is no YAML: {one_line(error)}") from error
        if not name or not equals:
            raise ValueError(f"-p {text}: give name=value, for example -p seed=1")
    return FinetuneParams.checked(values, " -p ".join([str(file), *given]))


def backend_for(device: str, size: int) -> Backend:
    """The backend for a parameter `device`. Raises: ValueError for one that cannot be shared."""
    found = choose_device(device)
    if size > 1 and (found.type == "mps" or found.index is not None):
        raise ValueError(
            f"distributed: device {device!r} is {found}, one device for {size} processes; give "
            "cuda, where each takes its own, or cpu"
        )
    return "gloo" if found.type == "cpu" else "auto"


def make_run(cfg: FinetuneParams) -> str:
    """Make one run, all processes together; returns what to say about it."""
    with only_first() as first:
        if first:  # makes the stages before it where they are missing; the others find them made
            runs.start(cfg)
    lr, origin = runs.start(cfg)
    folder = stage_folder(cfg, cfg.run_name)
    _, history = runs.finetune_at(cfg, lr, origin, folder, _report)
    return f"weights of epoch {runs.kept_epoch(history, cfg.keep)} are in {folder}"


def _report(row: dict[str, Any]) -> None:
    total = row["validation_loss_total"]
    print(f"epoch {row['epoch']}: validation loss {total:.4f}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message a process and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m relevit.distributed",
        description=distributed.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="for example params/quick/02_finetune.yaml")
    parser.add_argument("-p", action="append", default=[], metavar="NAME=VALUE", dest="given")
    options = parser.parse_args(arguments)
    try:
        cfg = run_params(options.file, options.given)
        with process_group(backend_for(cfg.device, launched()[1])):
            said = make_run(cfg)
            if world()[0] == 0:
                print(said, flush=True)
    except (ValueError, OSError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2
    return 0

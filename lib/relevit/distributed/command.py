"""The command that does a notebook's long work on several processes (see `relevit.distributed`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import yaml

from relevit import distributed
from relevit.base.errors import one_line
from relevit.base.precision import choose_device
from relevit.config import ComparisonParams, FinetuneParams, Params, RobustnessParams
from relevit.distributed import Backend, launched, process_group, world
from relevit.distributed.evaluation import evaluate_models
from relevit.distributed.finetuning import make_run

# What is made of the parameters of a notebook, which are in a file of its name.
WORK: dict[type[Params], Callable[..., str]] = {
    FinetuneParams: make_run,
    RobustnessParams: evaluate_models,
    ComparisonParams: evaluate_models,
}


def read_params(file: Path, given: Iterable[str] = ()) -> Params:
    """A parameter file of one of WORK's notebooks with `name=value` changes, values as in YAML.

    Raises: ValueError, FileNotFoundError.
    """
    known = {params.notebook: params for params in WORK}
    if file.stem not in known:
        raise ValueError(
            f"distributed: {file} has parameters of no notebook that several processes can share; "
            f"give a file named {' or '.join(f'{name}.yaml' for name in known)}"
        )
    params = known[file.stem]
    values, given = params.from_file(file).model_dump(), list(given)
    for text in given:
        name, equals, value = text.partition("=")
        try:
            values[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(f"-p {text}: the value is no YAML: {one_line(error)}") from error
        if not name or not equals:
            raise ValueError(f"-p {text}: give name=value, for example -p seed=1")
    return params.checked(values, " -p ".join([str(file), *given]))


def backend_for(device: str, size: int) -> Backend:
    """The backend for a parameter `device`. Raises: ValueError for one that cannot be shared."""
    found = choose_device(device)
    if size > 1 and (found.type == "mps" or found.index is not None):
        raise ValueError(
            f"distributed: device {device!r} is {found}, one device for {size} processes; give "
            "cuda, where each takes its own, or cpu"
        )
    return "gloo" if found.type == "cpu" else "auto"


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message a process and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m relevit.distributed",
        description=distributed.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="for example params/quick/02_finetune.yaml")
    parser.add_argument("-p", action="append", default=[], metavar="NAME=VALUE", dest="given")
    parser.add_argument("--model", default="", help="evaluate this one alone, by its folder's name")
    options = parser.parse_args(arguments)
    say = partial(print, flush=True)
    try:
        cfg = read_params(options.file, options.given)
        work = WORK[type(cfg)]
        if options.model and work is not evaluate_models:
            raise ValueError(
                f"distributed: --model {options.model!r} with {options.file}, which makes one run; "
                "give it with 03_robustness.yaml or 03_comparison.yaml, or leave it out"
            )
        some = {"only": options.model} if options.model else {}
        with process_group(backend_for(cfg.device, launched()[1])):
            said = work(cfg, say, **some)
            if world()[0] == 0:
                say(said)
    except (ValueError, OSError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2
    return 0

"""The nine sets, answered by one of the models that 03_comparison compares: a job of its own.

On real sets it takes longer to evaluate a run than to make it. The notebook with the same
parameters then finds the answers and compares them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from relevit.base.stages import stage_folder
from relevit.config import ComparisonParams
from relevit.data.benchmark import benchmark
from relevit.evaluate.accuracies import nine_sets
from relevit.finetune.runs import origin_weights
from relevit.finetune.sweep import compared_models, find_runs, sweep_runs
from relevit.training.epochs import WEIGHTS


def models_to_evaluate(cfg: ComparisonParams, only: str = "") -> dict[str, tuple[str, Path]]:
    """The models that the notebook evaluates, by their folders in it: name and weights.

    Finetuned runs that are not there are made; those of the sweep that failed are left out. With
    `only` the one of that folder, or none where it has failed. Raises: ValueError for a folder
    that the notebook does not have.
    """
    _check(only, compared_models(cfg.preset))
    runs = sweep_runs(cfg.preset)
    found, _ = find_runs(cfg, [run for run in runs if only in ("", run.name)])
    models = {run.model for run in found} - {cfg.model}
    originals = {only} & {run.model for run in runs} if only else models
    return {name: (name, origin_weights(cfg, name)) for name in sorted(originals)} | {
        run.name: (run.model, path / WEIGHTS) for run, path in found.items()
    }


def _check(only: str, known: Iterable[str]) -> None:
    if only and only not in (known := list(known)):
        raise ValueError(
            f"answers: --model {only!r} is none that the notebook evaluates; use one of "
            f"{', '.join(known)}, or leave it out for all"
        )


def evaluate_models(cfg: ComparisonParams, only: str = "") -> str:
    """Evaluate all of them, or `only` one; returns what to say about it."""
    models, folder = models_to_evaluate(cfg, only), stage_folder(cfg)
    for name, (model, weights) in models.items():
        nine_sets(
            model,
            weights,
            folder / name,
            images_per_set=cfg.images_per_set,
            precision=cfg.precision,
            device=cfg.device,
            images=benchmark(cfg.preset),
        )
    if only and not models:
        return f"{only} has failed: there is nothing to answer"
    return f"answers of {len(models)} models are in {folder}"


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m relevit.pipeline.answers", description=__doc__)
    parser.add_argument("file", type=Path, help="for example params/paper/03_comparison.yaml")
    parser.add_argument("--device", default="", help="instead of the file's, for example cuda:1")
    parser.add_argument("--model", default="", help="evaluate this one alone, by its folder's name")
    options = parser.parse_args(arguments)
    try:
        values = ComparisonParams.from_file(options.file).model_dump()
        if options.device:
            values["device"] = options.device
        cfg = ComparisonParams.checked(values, str(options.file))
        print(evaluate_models(cfg, options.model), flush=True)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

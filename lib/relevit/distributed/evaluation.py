"""The answers that 03_robustness or 03_comparison compares, by several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from relevit.base.stages import stage_folder
from relevit.config import ComparisonParams, RobustnessParams
from relevit.data.benchmark import benchmark
from relevit.distributed import only_first, tell
from relevit.evaluate.accuracies import nine_sets
from relevit.finetune.runs import compared_weights, origin_weights
from relevit.finetune.sweep import compared_models, find_runs, sweep_runs
from relevit.training.epochs import WEIGHTS

Evaluation = RobustnessParams | ComparisonParams


def models_to_evaluate(cfg: Evaluation, only: str = "") -> dict[str, tuple[str, Path]]:
    """The models that the notebook evaluates, by their folders in it: name and weights.

    Finetuned runs that are not there are made; those of the sweep that failed are left out. With
    `only` the one of that folder, or none where it has failed. Raises: ValueError for a folder
    that the notebook does not have.
    """
    if isinstance(cfg, RobustnessParams):
        found = {run: (cfg.model, path) for run, path in compared_weights(cfg).items()}
        _check(only, found)
        return {run: model for run, model in found.items() if only in ("", run)}
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
            f"distributed: --model {only!r} is none that the notebook evaluates; use one of "
            f"{', '.join(known)}, or leave it out for all"
        )


def evaluate_models(cfg: Evaluation, say: Callable[[str], None], only: str = "") -> str:
    """Evaluate all of them, or `only` one, all processes together; returns what to say about it.

    The notebook with the same parameters then finds the answers and compares them.
    """
    models: dict[str, tuple[str, str]] = {}
    with only_first() as first:
        if first:
            found = models_to_evaluate(cfg, only)
            models = {name: (model, str(path)) for name, (model, path) in found.items()}
    folder, images = stage_folder(cfg), benchmark(cfg.preset)
    for name, (model, weights) in tell(models).items():
        rows = nine_sets(
            model,
            Path(weights),
            folder / name,
            images_per_set=cfg.images_per_set,
            precision=cfg.precision,
            device=cfg.device,
            images=images,
        )
        if first:
            say(f"{name}: {len(rows)} answers")
    if only and not models:
        return f"{only} has failed: there is nothing to answer"
    return f"answers of {len(models)} models are in {folder}"

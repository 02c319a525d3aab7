"""The answers that 03_robustness or 03_comparison compares, by several processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from relevit.accuracies import nine_sets
from relevit.benchmark import benchmark
from relevit.config import ComparisonParams, RobustnessParams
from relevit.distributed import only_first, tell
from relevit.runs import compared_weights, origin_weights
from relevit.stages import stage_folder
from relevit.sweep import find_runs
from relevit.training import WEIGHTS

Evaluation = RobustnessParams | ComparisonParams


def compared_models(cfg: Evaluation) -> dict[str, tuple[str, Path]]:
    """The models that the notebook evaluates, by their folders in it: name and weights.

    Finetuned runs that are not there are made; those of the sweep that failed are left out.
    """
    if isinstance(cfg, RobustnessParams):
        return {run: (cfg.model, path) for run, path in compared_weights(cfg).items()}
    found, _ = find_runs(cfg)
    originals = sorted({run.model for run in found} - {cfg.model})
    return {name: (name, origin_weights(cfg, name)) for name in originals} | {
        run.name: (run.model, path / WEIGHTS) for run, path in found.items()
    }


def evaluate_models(cfg: Evaluation, say: Callable[[str], None]) -> str:
    """Evaluate all of them, all processes together; returns what to say about it.

    The notebook with the same parameters then finds the answers and compares them.
    """
    models: dict[str, tuple[str, str]] = {}
    with only_first() as first:
        if first:
            found = compared_models(cfg)
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
    return f"answers of {len(models)} models are in {folder}"

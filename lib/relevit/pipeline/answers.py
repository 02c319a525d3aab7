"""The nine sets, answered by one of the models that 03_comparison compares: a job of its own.

On real sets it takes longer to evaluate a run than to make it. The notebook with the same
parameters then finds the answers and compares them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from relevit.base.stages import preset_folder, read_pipeline, stage_folder
from relevit.config import ComparisonParams, PipelineParams
from relevit.data.benchmark import open_benchmark
from relevit.evaluate.sets import answer_sets, load_classifier
from relevit.finetune.runs import origin_weights
from relevit.pipeline.sweep import compared_models, find_runs, sweep_runs
from relevit.training.epochs import WEIGHTS


def weights_of(
    cfg: ComparisonParams, pipeline: PipelineParams, name: str
) -> tuple[str, Path] | None:
    """Model and weights behind a folder of the notebook: an original, or a run of the sweep.

    A run that is not there is made; None where it has failed. Raises: ValueError for a folder that
    the notebook does not have.
    """
    if name not in (known := compared_models(pipeline)):
        raise ValueError(
            f"answers: {name!r} is none that 03_comparison evaluates; use one of {', '.join(known)}"
        )
    runs = [run for run in sweep_runs(pipeline) if run.name == name]
    if not runs:
        return name, origin_weights(cfg, name)
    found, _ = find_runs(cfg, runs)
    return next(((run.model, folder / WEIGHTS) for run, folder in found.items()), None)


def answer(cfg: ComparisonParams, pipeline: PipelineParams, name: str) -> str:
    """Evaluate the model of one folder; returns what to say about it. Raises as `weights_of`."""
    model = weights_of(cfg, pipeline, name)
    if model is None:
        return f"{name} has failed: there is nothing to answer"
    bench, folder = open_benchmark(cfg), stage_folder(cfg, name)
    classifier = load_classifier(bench, *model, cfg.precision, cfg.device)
    answer_sets(classifier, model[1], folder, bench, cfg.images_per_set)
    return f"answers of {name} are in {folder}"


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m relevit.pipeline.answers", description=__doc__)
    parser.add_argument("preset", help="folder of params/, for example paper")
    parser.add_argument("model", help="what to evaluate, by its folder's name in 03_comparison")
    parser.add_argument("--device", default="", help="instead of the file's, for example cuda:1")
    options = parser.parse_args(arguments)
    try:
        cfg = ComparisonParams.from_preset(preset_folder(options.preset))
        if options.device:
            given = cfg.model_dump() | {"device": options.device}
            cfg = ComparisonParams.checked(given, "answers")
        print(answer(cfg, read_pipeline(options.preset), options.model), flush=True)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

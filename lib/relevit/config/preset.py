"""What the parameter files of a preset must agree on, checked before any of its stages runs."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from relevit.config import Params, PipelineParams, SweepGrid
from relevit.config.words import IMAGENET, SHIPPED, ModelName, PaperModelName

LOSS_TERMS = ("relevance", "classification", "background", "foreground")


def check_agreement(folder: Path, pipeline: PipelineParams, stages: dict[str, Params]) -> None:
    """What the stages share must be the same in all files."""
    models = {name: params.model for name, params in stages.items()}
    for name, params in {"pipeline": pipeline, **stages}.items():
        for key, needed in (
            ("preset", folder.name),
            ("model", models["00_original"]),
            ("seeds", pipeline.seeds),
            ("output_root", "outputs"),  # the Snakefile's; another one is for notebooks by hand
            ("run", ""),
        ):
            value = getattr(params, key, needed)
            if value != needed:
                raise ValueError(
                    f"{folder / name}.yaml: {key} = {value!r}, but the rest of the preset has "
                    f"{needed!r}; give all files of a preset the same"
                )


def check_own_runs(path: Path, pipeline: PipelineParams, stages: dict[str, Params]) -> None:
    """The preset's own runs are the method's, and the base of its sweep; they are compared."""
    own, folder = stages["02_finetune"], path.parent
    fixed: dict[str, object] = {"method": "relevance", "masks": "annotated"}
    if pipeline.sweep:  # a value given here would also be that of the baselines
        fixed |= dict.fromkeys(("lr", *(f"weight_{term}" for term in LOSS_TERMS)))
    for key, needed in fixed.items():
        value = getattr(own, key)
        if value != needed:
            raise ValueError(
                f"{folder}/02_finetune.yaml: {key} = {value!r}, but the preset's own runs and the "
                f"base of its sweep need {needed!r}; other methods and masks belong under sweep in "
                f"{path.name}, other values in a run by hand"
            )
    seen, compared = (stages[n].images_per_set for n in ("03_robustness", "03_comparison"))
    if compared > seen:
        raise ValueError(
            f"{folder}/03_comparison.yaml: images_per_set = {compared}, but 03_robustness answers "
            f"{seen} of each set, with which they are compared: give at most as many"
        )


def check_sweep(path: Path, pipeline: PipelineParams, stages: dict[str, Params]) -> None:
    """Every run of the sweep needs an original to start from, and masks and a rate for it."""
    masked = stages["01_masks"].seeds
    for i, grid in enumerate(pipeline.sweep):
        _check_origin_and_rate(path, i, grid, stages, pipeline.data)
        if "tokencut" in grid.masks and not set(grid.seeds) <= set(masked):
            raise ValueError(
                f"{path}: sweep.{i}.seeds = {grid.seeds} with masks tokencut, but 01_masks.yaml "
                f"makes masks for seeds {masked}: give both the same"
            )


def check_data(path: Path, pipeline: PipelineParams, stages: dict[str, Params]) -> None:
    """Real data need a folder; every model of a preset answers with the classes of its data."""
    real = pipeline.data == IMAGENET
    if real and not pipeline.data_root:
        raise ValueError(
            f"{path}: data {pipeline.data!r} without data_root; give the folder that holds the "
            "sets, see docs/paper_preset.md, or data: cutouts, which needs none"
        )
    known = get_args(PaperModelName) if real else get_args(ModelName)
    swept = [model for grid in pipeline.sweep for model in grid.models]
    named = [("pipeline", "sweep", list(dict.fromkeys(swept)))] + [
        (name, key, getattr(params, key))
        for name, params in stages.items()
        for key in ("model", "compared_model", "method_model", "method_models", "others")
        if hasattr(params, key)
    ]
    for name, key, models in named:
        if set([models] if isinstance(models, str) else models) - set(known):
            raise ValueError(
                f"{path.parent}/{name}.yaml: {key} = {models!r}, but {path.name} has data "
                f"{pipeline.data!r}, whose models are {', '.join(known)}"
            )


def _check_origin_and_rate(
    path: Path, i: int, grid: SweepGrid, stages: dict[str, Params], data: str
) -> None:
    main, others = stages["00_original"].model, stages["00_original"].others
    there = others if data == IMAGENET else SHIPPED
    unknown = sorted(set(grid.models) - {main, *there})
    if unknown:
        listed = ", ".join(there)
        kind = "one of others in 00_original.yaml" if data == IMAGENET else "a shipped one"
        raise ValueError(
            f"{path}: sweep.{i}.models = {grid.models}: {unknown} has no original here; use "
            f"the preset's own {main!r} or {kind}, {listed}"
        )
    if data == IMAGENET:
        return  # their rates are the papers', see `runs.rate`
    searched = {main} if set(grid.methods) == {"relevance"} else set()
    searched.add(stages["02_baselines"].compared_model)
    if not set(grid.models) <= searched:
        raise ValueError(
            f"{path}: sweep.{i}.models = {grid.models} with methods {grid.methods}, but rates "
            f"are searched for {sorted(searched)} alone: change compared_model in "
            "02_baselines.yaml, or leave the others out"
        )


def check_iav(folder: Path, stages: dict[str, Params]) -> None:
    """07_iav reads the models that 07_pretraining makes."""
    made, read = stages["07_pretraining"], stages["07_iav"]
    for key in ("models", "model_seeds"):
        lacking = [value for value in getattr(read, key) if value not in getattr(made, key)]
        if lacking:
            raise ValueError(
                f"{folder}/07_iav.yaml: {key} = {getattr(read, key)!r}, but 07_pretraining.yaml "
                f"makes {getattr(made, key)!r}: add {lacking} there, or leave them out here"
            )
    for key in ("data", "data_root"):
        if getattr(made, key) != getattr(read, key):
            raise ValueError(
                f"{folder}/07_iav.yaml: {key} = {getattr(read, key)!r}, but 07_pretraining.yaml "
                f"has {getattr(made, key)!r}: give both the same"
            )

"""A whole preset: its file, read and checked as a whole before any of its stages runs.

What stages share stands once (`Common`). What is left here are relations between stages: one reads
what another makes, or is compared with it. That the arms of a notebook are settings of 02_finetune
is seen where the table of runs is made (`reproduction.runs.grids`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, Self, get_args

from pydantic import Field

from relevit.choices.checked import Checked
from relevit.choices.messages import short
from relevit.choices.numbers import Count, Seed, Some
from relevit.choices.words import (
    HABITATS,
    IMAGENET,
    SHIPPED,
    AnyModelName,
    MaskSource,
    Method,
    ModelName,
    PaperModelName,
    Protocol,
)
from reproduction.params.cells import Params, params_of, values_of
from reproduction.params.common import Common
from reproduction.params.order import NOTEBOOKS
from reproduction.params.words import Name

# Parameters that name models.
OF_MODELS = ("compared_model", "method_model", "method_models", "others")


class SweepGrid(Checked):
    """Finetuning runs: every combination of these is one."""

    models: Some[AnyModelName]
    methods: Some[Method] = Field(["relevance"])
    protocols: Some[Protocol] = Field(["published"])
    masks: Some[MaskSource] = Field(["annotated"])
    seeds: Some[Seed]


class Pipeline(Common):
    """The section `pipeline`: what runs, not how."""

    preset: Name
    notebooks: list[Literal[NOTEBOOKS]] = Field([], description="of the preset; empty: all")
    runs_alone: bool = Field(False, description="their runs are made, and no notebook is run")
    sweep: list[SweepGrid] = Field([], description="runs beside those of the preset's own model")
    disk_mb: Count[1, 10**9] = Field(500, description="free space that a run needs")
    gpu_mb: Count[1, 10**6] = Field(2000, description="of a GPU's memory, that a stage needs")

    @classmethod
    def from_preset(cls, path: Path) -> Self:
        """As a preset's file has it. Raises: as `values_of`."""
        return cls.checked(values_of("pipeline", path, cls.model_fields), f"{path}: pipeline")


class Preset(NamedTuple):
    """The parameters of a preset's pipeline and of its stages, by notebook."""

    path: Path
    pipeline: Pipeline
    stages: dict[str, Params]

    def refuse(self, name: str, given: str, but: str) -> None:
        """Raise ValueError for what a section gives."""
        raise ValueError(f"{self.path}: {name}: {short(given)}, but {short(but, 1000)}")


def read_preset(path: Path) -> Preset:
    """All sections of a preset's file, checked one by one and against each other.

    Raises: ValueError, FileNotFoundError.
    """
    pipeline = Pipeline.from_preset(path)
    named = [name for name in NOTEBOOKS if name in pipeline.notebooks or not pipeline.notebooks]
    stages = {name: params_of(name).from_preset(path) for name in named}
    preset = Preset(path, pipeline, stages)
    for needed, check in CHECKS:
        if set(needed) <= set(stages):
            check(preset)
    return preset


def _places(preset: Preset) -> None:
    """Stages find each other's results where the Snakefile has them."""
    for name, params in preset.stages.items():
        if params.output_root != "outputs":
            but = "the pipeline needs 'outputs'; another one is for notebooks by hand"
            preset.refuse(name, f"output_root = {params.output_root!r}", but)


def _models(preset: Preset) -> None:
    """Every model of a preset answers with the classes of its data."""
    data = preset.pipeline.benchmark.data
    known = get_args({IMAGENET: PaperModelName, HABITATS: ModelName}.get(data, AnyModelName))
    swept = dict.fromkeys(model for grid in preset.pipeline.sweep for model in grid.models)
    named = [("common", "model", preset.pipeline.model), ("pipeline", "sweep", list(swept))]
    named += [
        (name, key, getattr(params, key))
        for name, params in preset.stages.items()
        for key in OF_MODELS
        if key in type(params).model_fields
    ]
    for name, key, models in named:
        if set([models] if isinstance(models, str) else models) - set(known):
            but = f"common has data {data!r}, whose models are {', '.join(known)}"
            preset.refuse(name, f"{key} = {models!r}", but)


def _shipped(preset: Preset) -> None:
    """The models that come with the package have learned from the preset's images."""
    images, shares = preset.pipeline.benchmark, preset.stages["03_robustness"].home_shares
    if many := images.original_images:
        but = "that is of worlds of 04_cures; of the preset's own original it is training_images"
        preset.refuse("common", f"benchmark.original_images = {many}", but)
    if images.data != HABITATS and shares:
        but = f"common has data {images.data!r}, whose classes have no homes: give habitats"
        preset.refuse("03_robustness", f"home_shares = {shares}", but)
    if images.data != HABITATS:
        return
    try:
        here = SHIPPED[images.learned]
        but = f"for data {images.data!r} of common there are shipped {', '.join(here)} alone"
    except ValueError as error:
        here, but = (), f"common has other images: {error}"
    original = preset.stages["00_start"]
    if original.source == "shipped" and preset.pipeline.model not in here:
        preset.refuse("00_start", "source = 'shipped'", but)
    named = [
        (name, key, getattr(params, key))
        for name, params in preset.stages.items()
        for key in OF_MODELS
        if key in type(params).model_fields
    ]
    named += [("pipeline", "sweep", [m for grid in preset.pipeline.sweep for m in grid.models])]
    feature_model = preset.stages["01_masks"].feature_model
    if feature_model != "dinov2-s":  # that one as it was pretrained
        named += [("01_masks", "feature_model", feature_model)]
    for name, key, models in named:
        asked = {models} if isinstance(models, str) else set(models)
        if lacking := sorted(asked - {preset.pipeline.model, *here}):
            preset.refuse(name, f"{key} = {lacking}", but)


def _own_runs(preset: Preset) -> None:
    """The preset's own runs are the method's, and the base of its sweep."""
    own = preset.stages["02_finetune"]
    fixed: dict[str, object] = {"method": "relevance", "masks": "annotated"}
    if preset.pipeline.sweep:  # it would also be that of other models and of the baselines
        fixed["lr"] = None
    for key, needed in fixed.items():
        value = getattr(own, key)
        if value != needed:
            but = (
                f"the preset's own runs and the base of its sweep need {needed!r}; other methods "
                "and masks belong under sweep in pipeline, other values in a run by hand"
            )
            preset.refuse("02_finetune", f"{key} = {value!r}", but)


def _variants(preset: Preset) -> None:
    """No variant of 05_ablations repeats the full method."""
    own = preset.stages["02_finetune"].class_term
    same = {"confidence": "confidence", "label": "ground_truth"}[own]
    variants = preset.stages["05_ablations"].variants
    if same in variants:
        but = f"02_finetune has class_term {own!r}, so that {same!r} is 'full': leave it out"
        preset.refuse("05_ablations", f"variants = {variants}", but)


def _sweep(preset: Preset) -> None:
    """Every run of the sweep needs an original to start from, and masks."""
    main, others = preset.pipeline.model, preset.stages["00_start"].others
    real, masked = preset.pipeline.benchmark.data != HABITATS, preset.stages["01_masks"].seeds
    for i, grid in enumerate(preset.pipeline.sweep):
        if real and (unknown := sorted(set(grid.models) - {main, *others})):
            but = (
                f"{unknown} has no original here; use the preset's own {main!r} or one of others "
                f"in 00_start, {', '.join(others)}"
            )
            preset.refuse("pipeline", f"sweep.{i}.models = {grid.models}", but)
        if "tokencut" in grid.masks and not set(grid.seeds) <= set(masked):
            but = f"01_masks makes masks for seeds {masked}, those of seeds: give both the same"
            preset.refuse("pipeline", f"sweep.{i}.seeds = {grid.seeds} with masks tokencut", but)


def _baselines(preset: Preset) -> None:
    """04a_cures sets baselines beside our method, on one model."""
    own, model = preset.pipeline.model, preset.stages["04a_cures"].compared_model
    methods = {m for grid in preset.pipeline.sweep if model in grid.models for m in grid.methods}
    if "relevance" not in methods | {"relevance" * (model == own)} or methods <= {"relevance"}:
        but = "sweep in pipeline has not both our method and a baseline on it: add a line there"
        preset.refuse("04a_cures", f"compared_model = {model!r}", but)


def _prices(preset: Preset) -> None:
    """Arms with automatic masks have the seeds that 01_masks makes masks for."""
    cures, masked = preset.stages["04_cures"], preset.stages["01_masks"].seeds
    seeds = cures.arm_seeds or cures.seeds
    if "tokencut" in cures.prices and not set(seeds) <= set(masked):
        but = f"01_masks makes masks for seeds {masked} alone: give both the same"
        preset.refuse("04_cures", f"prices = {cures.prices} with seeds {seeds}", but)


# Each with the stages that it reads: a preset may have some of the notebooks alone.
CHECKS: tuple[tuple[tuple[str, ...], Callable[[Preset], None]], ...] = (
    ((), _places),
    ((), _models),
    (("00_start", "01_masks", "03_robustness"), _shipped),
    (("02_finetune",), _own_runs),
    (("02_finetune", "05_ablations"), _variants),
    (("00_start", "01_masks"), _sweep),
    (("04a_cures",), _baselines),
    (("01_masks", "04_cures"), _prices),
)

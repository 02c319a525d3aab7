"""Parameters of the pipeline: `params/<preset>/pipeline.yaml`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from relevit.config.base import Checked, Name, Seeds
from relevit.config.words import (
    AnyModelName,
    Corrupted,
    MaskSource,
    Method,
    Preprocessing,
    Protocol,
)
from relevit.config.words import DataName as Data


class SweepGrid(Checked):
    """Finetuning runs: every combination of these is one."""

    models: list[AnyModelName] = Field(min_length=1)
    methods: list[Method] = Field(["relevance"], min_length=1)
    protocols: list[Protocol] = Field(["published"], min_length=1)
    masks: list[MaskSource] = Field(["annotated"], min_length=1)
    seeds: Seeds


class PipelineParams(Checked):
    """What runs, not how."""

    preset: Name
    seeds: Seeds
    sweep: list[SweepGrid] = Field([], description="runs beside those of the preset's own model")
    disk_mb: int = Field(500, ge=1, description="free space that a run needs")
    data: Data = Field("cutouts", description="the images of all stages (relevit.data.benchmark)")
    data_root: str = Field("", description="folder with the real sets, for imagenet")
    preprocessing: Preprocessing = Field(
        "published", description="of real pictures: the papers' code (B5), or the model's own"
    )
    ways: Literal[200, 1000] = Field(1000, description="classes that answer -A and -R (B6)")
    objectnet: Protocol = Field(
        "published", description="first label and whole picture, or any label without border (B7)"
    )
    corrupted: Corrupted = Field(
        "error", description="what a picture that cannot be read does to an evaluation"
    )
    segmentation_set: Literal["imagenet_s", "gtsegs"] = Field(
        "gtsegs",
        description="pictures with masks that maps are tested on: the papers' own, or "
        "ImageNet-S validation",
    )
    finetuned_classes: int = Field(500, ge=2, le=913, description="classes of ImageNet-S in A")

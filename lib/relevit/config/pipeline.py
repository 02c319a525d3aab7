"""Parameters of the pipeline: `params/<preset>/pipeline.yaml`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from relevit.config.base import Checked, ModelName, Name, Seeds
from relevit.config.robustvit import MaskSource, Method


class SweepGrid(Checked):
    """Finetuning runs: every combination of these is one."""

    models: list[ModelName] = Field(min_length=1)
    methods: list[Method] = Field(["relevance"], min_length=1)
    protocols: list[Literal["published", "described"]] = Field(["published"], min_length=1)
    masks: list[MaskSource] = Field(["annotated"], min_length=1)
    seeds: Seeds


class PipelineParams(Checked):
    """What runs, not how."""

    preset: Name
    seeds: Seeds
    sweep: list[SweepGrid] = Field([], description="runs beside those of the preset's own model")
    disk_mb: int = Field(500, ge=1, description="free space that a run needs")

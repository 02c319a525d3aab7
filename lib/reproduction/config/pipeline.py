"""Parameters of the pipeline: the section `pipeline` of `params/<preset>.yaml`."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from relevit.choices.words import AnyModelName, MaskSource, Method, Protocol
from reproduction.config.base import Checked, Common, Seeds


class SweepGrid(Checked):
    """Finetuning runs: every combination of these is one."""

    models: list[AnyModelName] = Field(min_length=1)
    methods: list[Method] = Field(["relevance"], min_length=1)
    protocols: list[Protocol] = Field(["published"], min_length=1)
    masks: list[MaskSource] = Field(["annotated"], min_length=1)
    seeds: Seeds


class PipelineParams(Common):
    """What runs, not how."""

    notebook: ClassVar[str] = "pipeline"

    seeds: Seeds = Field([0, 1], description="the preset's own finetuning runs")
    notebooks: list[str] = Field([], description="of the preset, by name; empty: all")
    sweep: list[SweepGrid] = Field([], description="runs beside those of the preset's own model")
    disk_mb: int = Field(500, ge=1, le=10**9, description="free space that a run needs")
    gpu_mb: int = Field(2000, ge=1, le=10**6, description="of a GPU's memory, that a stage needs")

"""Parameters of the notebooks: one frozen model each, checked before any work starts.

It imports nothing heavy, so that a wrong parameter is reported within seconds.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from relevit.choices.own import OwnChoices
from reproduction.config.attribution import AttributionParams, SegmentationParams
from reproduction.config.base import BenchmarkParams, Common, Params, Seeds
from reproduction.config.iav import IavParams
from reproduction.config.pipeline import PipelineParams
from reproduction.config.robustvit import (
    AblationsParams,
    CuresParams,
    FinetuneNotebookParams,
    FinetuneParams,
    MasksParams,
    RobustnessParams,
    StartParams,
)
from reproduction.config.text import TextParams
from reproduction.config.your_own import OwnParams


class ReportParams(Params):
    """99_report: everything on one page."""

    notebook: ClassVar[str] = "99_report"

    seeds: Seeds = Field([0, 1], description="finetuning runs to report")


# In the order of the pipeline.
NOTEBOOKS: dict[str, type[Params]] = {
    cls.notebook: cls
    for cls in (
        StartParams,
        MasksParams,
        FinetuneNotebookParams,
        RobustnessParams,
        CuresParams,
        AttributionParams,
        SegmentationParams,
        IavParams,
        AblationsParams,
        TextParams,
        OwnParams,
        ReportParams,
    )
}

"""Parameters of the notebooks: one frozen model each, checked before any work starts.

It imports nothing heavy, so that a wrong parameter is reported within seconds.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from relevit.choices.own import OwnChoices
from relevit.choices.words import HABITATS
from reproduction.config.attribution import (
    AttributionParams,
    MoreAttributionParams,
    SegmentationAppendixParams,
    SegmentationParams,
)
from reproduction.config.base import BenchmarkParams, Common, Params, Seeds
from reproduction.config.iav import ClassifierParams, IavFiguresParams, IavParams
from reproduction.config.pipeline import PipelineParams
from reproduction.config.robustvit import (
    AblationsParams,
    BaselinesParams,
    CuresParams,
    FinetuneNotebookParams,
    FinetuneParams,
    MapsParams,
    MasksParams,
    RobustnessAppendixParams,
    RobustnessParams,
    StartParams,
)
from reproduction.config.text import TextParams, TextTablesParams
from reproduction.config.your_own import OwnParams


class ReportParams(Params):
    """99_report: everything on one page."""

    notebook: ClassVar[str] = "99_report"

    seeds: Seeds = Field([0, 1], description="finetuning runs to report")


# In the order of the pipeline. An appendix, such as 03a_robustness, is for what a referee asks.
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
        RobustnessAppendixParams,
        BaselinesParams,
        SegmentationAppendixParams,
        MapsParams,
        MoreAttributionParams,
        IavFiguresParams,
        TextTablesParams,
        ReportParams,
    )
}

# Of each, the notebooks whose files it reads. What it reads of finetuning runs is another table
# (`reproduction.runs.table`).
READS: dict[str, list[str]] = {
    "00_start": [],
    "01_masks": [],
    "02_finetune": ["00_start"],
    "03_robustness": ["00_start"],
    "04_cures": ["00_start"],
    "04a_cures": ["00_start", "04_cures"],
    "06_attribution": ["00_start"],
    "07_segmentation": ["00_start"],
    "08_iav": [],
    "08a_iav": ["00_start", "08_iav"],
    "05_ablations": ["00_start"],
    "09_text": [],
    "09a_text": ["09_text"],
    "10_your_own": [],
    "03a_robustness": ["00_start"],
    "07a_segmentation": ["00_start", "07_segmentation"],
    "05a_ablations": ["00_start"],
    "06a_attribution": ["00_start"],
}
READS["99_report"] = [name for name in NOTEBOOKS if name != "99_report"]


def reads(notebook: str, data: str) -> list[str]:
    """The notebooks whose files one reads; of real sets, 01_masks asks the models of 00_start."""
    return ["00_start"] if notebook == "01_masks" and data != HABITATS else READS[notebook]


def notebook_file(notebook: str) -> str:
    """Where it is below the project: `notebooks/appendix/03a_robustness.ipynb`."""
    folder = "notebooks/appendix" if notebook[2:3] == "a" else "notebooks"
    return f"{folder}/{notebook}.ipynb"

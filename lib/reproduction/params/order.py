"""The notebooks in the order of the pipeline, and of each those whose files it reads.

What a notebook reads of finetuning runs is another table (`reproduction.runs.grids`). An appendix,
such as 03a_robustness, is for what a referee asks.
"""

from __future__ import annotations

from relevit.choices.words import HABITATS

READS: dict[str, list[str]] = {
    "00_start": [],
    "01_masks": [],
    "02_finetune": ["00_start"],
    "03_robustness": ["00_start"],
    "04_cures": ["00_start"],
    "06_attribution": ["00_start"],
    "07_segmentation": ["00_start"],
    "08_iav": [],
    "05_ablations": ["00_start"],
    "09_text": [],
    "10_your_own": [],
    "03a_robustness": ["00_start"],
    "04a_cures": ["00_start", "04_cures"],
    "07a_segmentation": ["00_start"],
    "05a_ablations": ["00_start", "05_ablations"],
    "06a_attribution": ["00_start"],
    "08a_iav": ["00_start", "08_iav"],
    "09a_text": ["09_text"],
}
READS["99_report"] = [*READS]
NOTEBOOKS = (*READS,)


def reads(notebook: str, data: str) -> list[str]:
    """The notebooks whose files one reads; of real sets, 01_masks asks the models of 00_start."""
    return ["00_start"] if notebook == "01_masks" and data != HABITATS else READS[notebook]


def notebook_file(notebook: str) -> str:
    """Where it is below the project: `notebooks/appendix/03a_robustness.ipynb`."""
    folder = "notebooks/appendix" if notebook[2:3] == "a" else "notebooks"
    return f"{folder}/{notebook}.ipynb"

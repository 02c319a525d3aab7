"""What every room stands on: files and folders, stages, devices, downloads, seeds.

It imports the parameters (`relevit.config`) and no other room. Importing it loads no torch.
"""

from relevit.base.device import choose_device, choose_precision
from relevit.base.files import write_atomically
from relevit.base.results import read_rows, read_table
from relevit.base.stages import (
    read_pipeline,
    read_stage,
    read_summary,
    results_of,
    stage_folder,
    write_summary,
)

__all__ = [
    "choose_device",
    "choose_precision",
    "read_pipeline",
    "read_rows",
    "read_stage",
    "read_summary",
    "read_table",
    "results_of",
    "stage_folder",
    "write_atomically",
    "write_summary",
]

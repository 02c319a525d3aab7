"""Draw what a preset's runs will ask for: `python -m reproduction.pipeline.pictures workshop`.

The pipeline starts it beside its first stage, with less right to the processor. What a stage asks
for before it is drawn it draws itself.
"""

from __future__ import annotations

import multiprocessing
import os
import sys

from relevit.base.device import cores
from reproduction.params.preset import read_preset
from reproduction.runs import pictures, table
from reproduction.stages import preset_file

NICE = 10


def main(preset: str) -> None:
    """Draw it on all cores. Its processes do not load the suite again, where that can be had."""
    os.nice(NICE)
    parts = pictures.parts(table.of_preset(read_preset(preset_file(preset))).values())
    with multiprocessing.get_context("fork").Pool(cores()) as pool:
        for _ in pool.imap_unordered(pictures.draw, parts):
            pass


if __name__ == "__main__":
    main(sys.argv[1])

"""How many stages compute at once on this machine, and which GPU each of them sees.

A stage of a small model takes little of a GPU's memory and less of its time, so that several share
one. How much is free is asked of `nvidia-smi`: it opens nothing on the card, and takes no torch.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

from relevit.base.device import cores

ON_PROCESSOR = 2  # stages at once without a GPU: each takes all of its share of the cores
ASKED = ["nvidia-smi", "--query-gpu=index,uuid,memory.free", "--format=csv,noheader,nounits"]
PATIENCE_S = 20.0  # for its answer
VISIBLE = "CUDA_VISIBLE_DEVICES"


class Places(NamedTuple):
    """Stages side by side, and the room for them on each GPU, by its name in VISIBLE."""

    at_once: int
    gpus: Mapping[str, int]

    @property
    def threads(self) -> int:
        """The processor cores of each stage."""
        return max(1, cores() // self.at_once)


def places(jobs: int | None, free_mb: Mapping[str, int | None], need_mb: int) -> Places:
    """As many as are asked for, or half of the cores, as far as the GPUs have room.

    `free_mb` is the free memory of each GPU by its name, None where nobody says: that has room for
    one stage. Without any GPU it is `jobs`, or two.
    Raises: ValueError where no GPU has room for a stage.
    """
    if not free_mb:
        return Places(jobs or min(ON_PROCESSOR, cores()), {})
    rooms = {name: 1 if free is None else free // need_mb for name, free in free_mb.items()}
    rooms = {name: room for name, room in rooms.items() if room}
    if not rooms:
        raise ValueError(
            f"device: {max(filter(None, free_mb.values()), default=0)} MB of the GPU's memory are "
            f"free, and a stage needs {need_mb} (gpu_mb of pipeline): end what else uses it, or "
            f"compute on the processor: set {VISIBLE} to nothing"
        )
    return Places(min(jobs or max(1, cores() // 2), sum(rooms.values())), rooms)


def free_mb(count: int) -> dict[str, int | None]:
    """The free memory of the `count` GPUs that torch sees, in MiB, by their names in VISIBLE.

    None for one that `nvidia-smi` does not tell of: a part of a GPU (MIG), or another maker's.
    """
    visible = os.environ.get(VISIBLE)
    named = visible.split(",") if visible else [str(number) for number in range(count)]
    try:
        done = subprocess.run(ASKED, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        rows = [line.split(", ") for line in done.stdout.splitlines()]
        told = {index: (uuid, int(free)) for index, uuid, free in rows if free.isdecimal()}
    except (OSError, subprocess.SubprocessError, ValueError):
        told = {}
    if not visible and len(told) == count:  # by number CUDA may mean another one
        return dict(told.values())
    known = {name: free for index, (uuid, free) in told.items() for name in (index, uuid)}
    return {name: known.get(name) for name in named[:count]}

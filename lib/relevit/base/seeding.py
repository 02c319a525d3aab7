"""Random numbers from a seed, without a trace in the generators that others draw from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

CPU = torch.device("cpu")


@contextmanager
def seeded(seed: int, device: torch.device = CPU) -> Iterator[None]:
    """Draw from `seed` on the CPU and on `device`; afterwards both go on where they were.

    `torch.manual_seed` would start the generators of all CUDA devices anew, and `fork_rng` puts
    back those alone that it is told of.
    """
    cuda, mps = device.type == "cuda", device.type == "mps"
    state = torch.mps.get_rng_state() if mps else None
    with torch.random.fork_rng(devices=[device] if cuda else []):
        torch.default_generator.manual_seed(seed)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        if mps:
            torch.mps.manual_seed(seed)
        try:
            yield
        finally:
            if state is not None:
                torch.mps.set_rng_state(state)

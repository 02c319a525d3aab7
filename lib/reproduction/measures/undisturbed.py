"""A method that cannot move what comes after it, and what it would have left behind.

Each call meets a fresh copy of the model and the same random state. What it has changed in that
copy, or in what all code of a process shares, is told, and the latter put back.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from relevit.base.seeding import seeded
from relevit.models.dinov2 import fingerprint

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def undisturbed(
    model: nn.Module, method: Callable[..., Any], left: set[str]
) -> Callable[[Tensor, Tensor | None], Any]:
    """`method` of images and their classes, on a copy each time; `left` gets what it leaves."""

    def rule(images: Tensor, target: Tensor | None) -> Any:
        alone = copy.deepcopy(model)
        before = state_of(alone)
        with seeded(0, images.device), shared_kept(left):
            found = method(alone, images, target)
        left.update(name for name, value in state_of(alone).items() if value != before[name])
        return found

    return rule


def state_of(model: nn.Module) -> dict[str, Any]:
    """What of a model changes what it answers, or what others see of it, by what people call it."""
    parts = list(model.modules())
    return {
        "weights": fingerprint({key: value.cpu() for key, value in model.state_dict().items()}),
        "hooks": [len(vars(part).get(name) or ()) for part in parts for name in HOOKS],
        "train or eval mode": [part.training for part in parts],
        "frozen weights": [weights.requires_grad for weights in model.parameters()],
        "another forward": ["forward" in vars(part) for part in parts],
        "other parts": [type(part).__name__ for part in parts],
        "switches of attention": [getattr(part, "fused_attn", None) for part in parts],
    }  # fmt: skip


@contextmanager
def shared_kept(left: set[str]) -> Iterator[None]:
    """Whatever the block changes of what a process shares is put back, and told."""
    numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002, what others draw from
    switches = {
        "the gradient switch": (torch.is_grad_enabled, torch.set_grad_enabled),
        "the default type": (torch.get_default_dtype, torch.set_default_dtype),
        "the number of threads": (torch.get_num_threads, torch.set_num_threads),
        "deterministic algorithms": (
            torch.are_deterministic_algorithms_enabled,
            torch.use_deterministic_algorithms,
        ),
    }
    before = {name: read() for name, (read, _) in switches.items()}
    torchs = torch.get_rng_state()
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    seeds = _drawn()
    try:
        yield
    finally:
        for name, (read, put) in switches.items():
            if read() != before[name]:
                left.add(name)
                put(before[name])
        if not torch.equal(torchs, torch.get_rng_state()) or _drawn() != seeds:
            left.add("the random state")
        np.random.set_state(numpys)  # noqa: NPY002
        random.setstate(pythons)


def _drawn() -> tuple[bytes, int]:
    """How far numpy's random numbers have gone. (Python's go on by checks of types, too.)"""
    state = np.random.get_state()  # noqa: NPY002
    return state[1].tobytes(), state[2]

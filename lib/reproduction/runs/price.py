"""What a step of training costs, in seconds and in memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from copy import deepcopy
from time import perf_counter

import numpy as np
import pandas as pd
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from relevit.data.batch import Batch
from relevit.finetune.augmenting import augmented, backgrounds
from relevit.finetune.loop import only, train_step
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import make_optimizer
from relevit.models.spec import ModelSpec


def step_price(
    network: nn.Module, spec: ModelSpec, train: Batch, settings: FinetuneSettings, steps: int = 3
) -> dict[str, float]:
    """What a step of training costs: `seconds`, the median of some, and `memory_mib`.

    The memory is what autograd keeps for the backward pass, each storage once: nearly all that a
    step needs beside weights and optimiser. `network` is left as it is.
    """
    network, others = deepcopy(network).train(), backgrounds(train, settings.augmentation)
    optimizer, kept, taken = make_optimizer(network, settings), {}, []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()  # held, as a place that is free is used again
        kept[storage.data_ptr()] = storage
        return tensor

    weights = {weight.untyped_storage().data_ptr() for weight in network.parameters()}
    batch = train.select(range(len(train))[: settings.batch_size])
    with only(network, optimizer.param_groups[0]["params"]):
        for step in range(steps + 1):
            begun, rng = perf_counter(), np.random.default_rng(step)
            changed = augmented(batch, settings.augmentation, others, rng)
            with saved_tensors_hooks(keep, lambda kept: kept) if step == 0 else nullcontext():
                train_step(network, spec, optimizer, changed, rng, settings)
            taken.append(perf_counter() - begun)
    used = sum(part.nbytes() for place, part in kept.items() if place not in weights)
    return {"seconds": float(np.median(taken[1:])), "memory_mib": used / 2**20}


def step_prices(
    network: nn.Module,
    spec: ModelSpec,
    train: Batch,
    arms: Mapping[str, FinetuneSettings],
    rounds: int = 3,
) -> pd.DataFrame:
    """What a step of each arm costs: one row an arm, with the columns of `step_price`.

    Arms that differ in the rate or in the images' backgrounds alone are one computation, measured
    once, and have one price: pasting takes less than a millisecond of a step. All computations are
    measured in turn, `rounds` times, and the least of each counts: other work on the machine can
    only add to it.
    """
    kinds: dict[str, tuple[FinetuneSettings, list[str]]] = {}
    for arm, settings in arms.items():
        same = settings.changed(lr=1e-6, augmentation="none")
        kinds.setdefault(repr(same), (same, []))[1].append(arm)
    turns = [
        [step_price(network, spec, train, settings, steps=1) for settings, _ in kinds.values()]
        for _ in range(rounds)
    ]
    found = {}
    for place, (_, names) in enumerate(kinds.values()):
        least = min((turn[place] for turn in turns), key=lambda price: price["seconds"])
        found |= dict.fromkeys(names, least)
    return pd.DataFrame(found).T.loc[list(arms)]

"""What a step of training costs, in seconds and in memory."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy
from time import perf_counter

import numpy as np
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from relevit.data.batch import Batch
from relevit.finetune.augmenting import augmented, backgrounds
from relevit.finetune.epochs import read
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
                read([train_step(network, spec, optimizer, changed, rng, settings)])
            taken.append(perf_counter() - begun)
    used = sum(part.nbytes() for place, part in kept.items() if place not in weights)
    return {"seconds": float(np.median(taken[1:])), "memory_mib": used / 2**20}

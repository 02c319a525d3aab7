"""A training that the first process leads and the others follow, epoch by epoch.

The first process alone has the files: checkpoints, log, validation. It says which epoch comes
next, and all take part in it; weights and optimiser go out once, before the first epoch, after
which equal gradients keep them equal.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress

import torch
import torch.distributed as dist
from timm.layers import DropPath, PatchDropout
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.optim import Optimizer

from relevit.base.errors import one_line
from relevit.distributed import broadcast_bytes, tell, world
from relevit.training.epochs import History

TrainEpoch = Callable[[int], dict[str, float]]


def in_lockstep(
    model: nn.Module,
    optimizer: Optimizer,
    train_epoch: TrainEpoch,
    lead: Callable[..., History],
) -> History:
    """`lead(train_epoch=...)` by the first process, whose every epoch all processes train.

    Afterwards the model of each process holds the first one's weights; all return its history.
    With one process it is `lead(train_epoch=train_epoch)`.
    Raises: what `lead` raises; in the other processes then RuntimeError with its text. An error
    in the middle of an epoch cannot be told: its process must end, and torchrun ends the others.
    """
    rank, size = world()
    if size == 1:
        return lead(train_epoch=train_epoch)
    check_images_apart(model)
    if rank > 0:
        return _follow(model, optimizer, train_epoch)
    return _Leader(model, optimizer, train_epoch).run(lead)


class _Leader:
    def __init__(self, model: nn.Module, optimizer: Optimizer, train_epoch: TrainEpoch) -> None:
        self.model, self.optimizer, self.train_epoch = model, optimizer, train_epoch
        self.started = self.training = False

    def run(self, lead: Callable[..., History]) -> History:
        try:
            history = lead(train_epoch=self.epoch)
        except BaseException as error:
            if not self.training:  # else the others wait for gradients, not for a message
                with suppress(RuntimeError):  # they are gone: the error itself is what counts
                    tell({"stop": one_line(error)})
            raise
        tell({"history": history})
        share_weights(self.model)
        return history

    def epoch(self, epoch: int) -> dict[str, float]:
        tell({"train": epoch, "state": not self.started})
        self.training = True
        if not self.started:
            share_state(self.model, self.optimizer)
            self.started = True
        figures = self.train_epoch(epoch)
        self.training = False
        return figures


def _follow(model: nn.Module, optimizer: Optimizer, train_epoch: TrainEpoch) -> History:
    while True:
        order = tell(None)
        if "stop" in order:
            raise RuntimeError(f"training: the first process stopped: {order['stop']}")
        if "history" in order:
            share_weights(model)
            return order["history"]
        if order["state"]:
            share_state(model, optimizer)
        train_epoch(order["train"])


def share_weights(model: nn.Module) -> None:
    """Give every process the first one's weights and buffers."""
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)


def share_state(model: nn.Module, optimizer: Optimizer) -> None:
    """Give every process the first one's weights and optimiser state."""
    share_weights(model)
    buffer, first = io.BytesIO(), world()[0] == 0
    if first:
        torch.save(optimizer.state_dict(), buffer)
    data = broadcast_bytes(buffer.getvalue())
    if not first:
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        optimizer.load_state_dict(state)


def check_images_apart(model: nn.Module) -> None:
    """Raise ValueError for a model in which the loss of a batch is no sum over its images.

    Batch norm mixes the images of a batch, and dropout draws other numbers in every process:
    with either, several processes have another gradient than one.
    """
    for name, module in model.named_modules():
        dropped = (
            (isinstance(module, _DropoutNd) and module.p)
            or (isinstance(module, DropPath) and module.drop_prob)
            or (isinstance(module, PatchDropout) and module.prob)
        )
        if dropped or isinstance(module, _BatchNorm):
            raise ValueError(
                f"training: {name or 'the model'} is {module}, whose result depends on the other "
                "images of the batch or on chance; several processes would not train what one "
                "does: take a model without it, or one process"
            )

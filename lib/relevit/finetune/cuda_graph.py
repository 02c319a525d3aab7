"""A step of training as one CUDA graph: recorded once, and started again for other images.

A step of a ViT-B is a thousand kernels. To start them one by one takes a processor longer than a
GPU works on them; a graph is started as a whole.
"""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim import Optimizer

from relevit.base.errors import one_line
from relevit.finetune.epochs import Losses

Step = Callable[..., Losses]  # of tensors; it does not read any (`epochs.descend`)

PLAIN = 3  # steps before: the optimiser makes its state in them, libraries choose their kernels


class Recorded:
    """Takes steps of one kind on a GPU: PLAIN of them as they are, then out of a graph.

    A step on inputs of other shapes, such as an epoch's last, is taken as it is, and so are all
    where none can be recorded, which is said once. The learning rates may change from step to step.
    """

    def __init__(
        self, optimizer: Optimizer, record: Callable[[Step, Sequence[Tensor]], Step] | None = None
    ) -> None:
        self.optimizer, self._record = optimizer, record or self._graph
        self._plain: Counter[tuple[torch.Size, ...]] = Counter()  # steps taken, by shapes
        self._shapes: tuple[torch.Size, ...] = ()  # of the graph
        self._replay: Step | None = None
        self._possible = True

    def __call__(self, step: Step, *inputs: Tensor) -> Losses:
        """`step(*inputs)`; it has to be the same each time. Raises: as the step."""
        shapes = tuple(each.shape for each in inputs)
        if self._possible and self._replay is None and self._plain[shapes] >= PLAIN:
            self._try(step, inputs, shapes)
        if self._replay is not None and shapes == self._shapes:
            return self._replay(*inputs)
        self._plain[shapes] += 1
        with _beside(inputs[0].device):
            return step(*inputs)

    def _try(self, step: Step, inputs: Sequence[Tensor], shapes: tuple[torch.Size, ...]) -> None:
        try:
            self._replay, self._shapes = self._record(step, inputs), shapes
        except RuntimeError as error:
            self._possible = False
            warnings.warn(
                f"training: a step cannot be recorded as a CUDA graph ({one_line(error)}); its "
                "kernels are started one by one, which takes longer",
                stacklevel=4,
            )

    def _graph(self, step: Step, inputs: Sequence[Tensor]) -> Step:
        """The step as a graph of its own memory. To record it computes nothing."""
        device, groups = inputs[0].device, self.optimizer.param_groups
        static = [each.clone() for each in inputs]
        kind = {"dtype": torch.float32, "device": device}  # as the fused optimiser reads it
        rates = [torch.full((), group["lr"], **kind) for group in groups]
        plain = [{name: group[name] for name in ("lr", "capturable")} for group in groups]
        graph, found = torch.cuda.CUDAGraph(), {}
        gc.collect()  # what is left of steps before holds on to their stream
        try:
            for group, rate in zip(groups, rates, strict=True):
                group |= {"lr": rate, "capturable": True}
            # By this thread alone: others may read pictures meanwhile.
            how = {"stream": _stream(device), "capture_error_mode": "thread_local"}
            with torch.cuda.graph(graph, **how):
                found = step(*static)
                told = torch.stack(list(found.values()))
        finally:
            for group, own in zip(groups, plain, strict=True):
                group |= own
        names = list(found)

        def replay(*given: Tensor) -> Losses:
            for kept, new in zip(static, given, strict=True):
                kept.copy_(new, non_blocking=True)
            for rate, group in zip(rates, groups, strict=True):
                rate.fill_(group["lr"])
            graph.replay()
            return dict(zip(names, told.clone().unbind(), strict=True))

        return replay


_streams: dict[torch.device, torch.cuda.Stream] = {}


def _stream(device: torch.device) -> torch.cuda.Stream:
    return _streams.setdefault(device, torch.cuda.Stream(device))


@contextmanager
def _beside(device: torch.device) -> Iterator[None]:
    """On the stream that records, as what gradients gather in belongs to the stream it began on."""
    if device.type != "cuda":
        yield
        return
    own, side = torch.cuda.current_stream(device), _stream(device)
    side.wait_stream(own)
    with torch.cuda.stream(side):
        yield
    own.wait_stream(side)

"""Several processes that work as one: a small layer over torch.distributed, and its command.

    torchrun --nproc-per-node 2 -m relevit.distributed params/quick/02_finetune.yaml -p seed=1

makes a run of 02_finetune on two processes, in the folder and with the identity of the notebook,
which then finds it finished and shows it. Each process takes its part of every batch, and the
gradients of the parts are added: the sum is the gradient that one process has, but for rounding.

    torchrun --nproc-per-node 2 -m relevit.distributed params/quick/03_robustness.yaml

classifies what 03_robustness compares, with Cutouts or real sets alike; so it is with
03_comparison and the whole sweep. Each process reads and answers its own batches, and the answers
are those of one process.

Why not DistributedDataParallel: a relevance map is made by an `autograd.grad` inside the forward
pass, and `protocol="described"` differentiates through it. DistributedDataParallel's hooks fire
where a gradient arrives in a backward pass of its own, support no `autograd.grad`, and average,
where the terms of a loss are means over parts of different sizes, or sums (differences B11).

Without torchrun there is one process, and everything here does nothing.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
from torch import Tensor, nn

from relevit.base.errors import one_line

Backend = Literal["auto", "gloo", "nccl"]
BUCKET_MB = 25  # of gradients that travel together
TIMEOUT = timedelta(hours=2)  # longest wait for a process that lives: its validation, a stage


def launched() -> tuple[int, int, int]:
    """Rank, number of processes, and rank on this machine, from torchrun's variables.

    Without torchrun: 0, 1, 0. Raises: ValueError when some of them are missing or no numbers.
    """
    if "WORLD_SIZE" not in os.environ:
        return 0, 1, 0
    found = {name: os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    if not all(value.isdecimal() for value in found.values()):
        raise ValueError(
            f"distributed: the environment has {found}; start the processes with torchrun, which "
            "sets all three, or unset WORLD_SIZE"
        )
    rank, size, local = map(int, found.values())
    return rank, size, local


@contextmanager
def process_group(backend: Backend = "auto", timeout: timedelta = TIMEOUT) -> Iterator[None]:
    """Join the processes that torchrun started; the group ends with the context, also in an error.

    `auto` takes nccl where there is CUDA, each process on the device of its number, and gloo
    elsewhere; messages between processors go by gloo in any case. Inside another group's context
    it is that group. `timeout` is for processes that hang: when one ends, torchrun ends the rest.
    Raises: ValueError for an unknown backend, or with more processes on a machine than devices.
    """
    _, size, local = launched()
    if size == 1 or dist.is_initialized():
        yield
        return
    if backend not in ("auto", "gloo", "nccl"):
        raise ValueError(f"process_group: backend {backend!r} is unknown; use auto, gloo or nccl")
    if backend == "auto":
        backend = "nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    devices = torch.cuda.device_count()
    if backend == "nccl" and local >= devices:
        raise ValueError(
            f"process_group: process {local} of this machine has no CUDA device of its own, there "
            f"are {devices}; start {devices} with --nproc-per-node, or give device cpu"
        )
    with torch.cuda.device(local) if backend == "nccl" else nullcontext():
        kinds = "cpu:gloo,cuda:nccl" if backend == "nccl" else "gloo"
        dist.init_process_group(kinds, timeout=timeout)
        try:
            yield
        finally:
            dist.destroy_process_group()


def world() -> tuple[int, int]:
    """This process's number, from 0, and how many there are."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def part(count: int) -> slice:
    """Which of `count` things this process takes: neighbours, as many as others or one more.

    With fewer things than processes it is empty for some.
    """
    rank, size = world()
    return slice(count * rank // size, count * (rank + 1) // size)


def share(rows: Any) -> Any:
    """This process's part of a tensor, a list or a range."""
    return rows[part(len(rows))]


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Add up the gradients of all processes, on all of them, in flat buckets.

    A parameter without gradient in one process counts as zero there. Without one in any process
    it stays without, so that an optimiser passes it over as in one process.
    """
    if world()[1] == 1:
        return
    trained = [p for p in parameters if p.requires_grad]
    reached = torch.tensor([p.grad is not None for p in trained], dtype=torch.int32)
    dist.all_reduce(reached, dist.ReduceOp.MAX)
    wanted = [p for p, any_gradient in zip(trained, reached.tolist(), strict=True) if any_gradient]
    for bucket in _buckets(wanted):
        flat = torch.cat(
            [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket]
        )
        dist.all_reduce(flat)
        for p, gradient in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            p.grad = gradient.view_as(p)


def _buckets(parameters: list[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Neighbours of one type and device, up to BUCKET_MB; all processes cut them alike."""
    bucket: list[nn.Parameter] = []
    for p in parameters:
        full = sum(q.nbytes for q in bucket) + p.nbytes > BUCKET_MB * 2**20
        if bucket and (full or (p.dtype, p.device) != (bucket[0].dtype, bucket[0].device)):
            yield bucket
            bucket = []
        bucket.append(p)
    if bucket:
        yield bucket


def sum_numbers(numbers: dict[str, float]) -> dict[str, float]:
    """Add up named numbers of all processes, which must have the same names in the same order."""
    if world()[1] == 1:
        return numbers
    totals = torch.tensor(list(numbers.values()), dtype=torch.float64)
    dist.all_reduce(totals)
    return dict(zip(numbers, totals.tolist(), strict=True))


def all_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of all processes, on all of them, in the original order.

    The index of `frame` holds each row's place in the whole, from 0; the result is numbered anew.
    A process without rows gives an empty frame. Types and numbers come through unchanged.
    Raises: ValueError unless every place occurs once.
    """
    parts = [frame]
    if world()[1] > 1:
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=True)
        parts = [pd.read_parquet(io.BytesIO(data)) for data in _gather(buffer.getvalue())]
    whole = pd.concat([p for p in parts if len(p)] or [frame]).sort_index()
    if not np.array_equal(whole.index, np.arange(len(whole))):
        raise ValueError(
            f"all_rows: {len(whole)} rows of {len(parts)} processes have the places "
            f"{whole.index.tolist()[:10]} ...; each of 0 to {len(whole) - 1} must occur once: "
            "index the rows by their place in the whole"
        )
    return whole.reset_index(drop=True)


@contextmanager
def only_first() -> Iterator[bool]:
    """True in the first process, False in the others, who wait until the first has left.

    For files: `with only_first() as first: if first: write()`. When the first fails, the others
    raise RuntimeError with the text of its error instead of going on without the file.
    """
    first = world()[0] == 0
    try:
        yield first
    except BaseException as error:
        if first:
            tell(one_line(error))
        raise
    why = tell("")
    if why:
        raise RuntimeError(f"distributed: the first process failed, and the others with it: {why}")


def tell(message: Any) -> Any:
    """What the first process says, in all of them; `message` is anything that JSON can hold."""
    return json.loads(broadcast_bytes(json.dumps(message).encode()))


def each(message: Any) -> list[Any]:
    """What every process says, in their order, in all of them; anything that JSON can hold."""
    said = json.dumps(message).encode()
    return [json.loads(text) for text in (_gather(said) if world()[1] > 1 else [said])]


def broadcast_bytes(data: bytes) -> bytes:
    """The first process's bytes, in all of them; what the others give is not looked at."""
    rank, size = world()
    if size == 1:
        return data
    length = torch.tensor([len(data)])
    dist.broadcast(length, 0)
    values = _as_tensor(data) if rank == 0 else torch.empty(int(length), dtype=torch.uint8)
    dist.broadcast(values, 0)
    return values.numpy().tobytes()


def _gather(data: bytes) -> list[bytes]:
    """The bytes of every process, in the order of the processes."""
    size = world()[1]
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(data)]))
    longest = max(int(length) for length in lengths)
    padded = [torch.empty(longest, dtype=torch.uint8) for _ in range(size)]
    dist.all_gather(padded, _as_tensor(data.ljust(longest, b"\0")))
    pairs = zip(padded, lengths, strict=True)
    return [values[: int(length)].numpy().tobytes() for values, length in pairs]


def _as_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)

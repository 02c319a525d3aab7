"""The machine: its cores and devices, their number formats, and which of them to use.

torch is loaded by the functions that need it, since the pipeline reads this before any stage does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relevit.choices.words import Precision, PrecisionChoice

if TYPE_CHECKING:
    import torch

TF32_FROM = (8, 0)  # CUDA's number of the generation
MEMORY_GIB = 16  # of a GPU's memory for each time that `at_once` takes the images of a processor


def cores() -> int:
    """The processor cores that this process may use, fewer than all in some containers.

    In a job of Slurm those that it asked for: not every cluster keeps it to them.
    """
    if asked := os.environ.get("SLURM_CPUS_PER_TASK"):
        return int(asked)
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def choose_device(name: str) -> torch.device:
    """`auto` is the first of CUDA, Apple MPS and CPU that is there.

    Raises: ValueError for an unknown device or one that this machine lacks.
    """
    import torch

    there = [f"cuda:{n}" for n in range(torch.cuda.device_count() * torch.cuda.is_available())]
    there += [*(["mps"] if torch.backends.mps.is_available() else []), "cpu"]
    if name == "auto":
        name = there[0].partition(":")[0]
    if name not in (*there, *(["cuda"] if "cuda:0" in there else [])):
        raise ValueError(
            f"device {name!r} is unknown, or not on this machine: use auto or one of {there}"
        )
    return torch.device(name)


@contextmanager
def autocast(device: torch.device | str, precision: Precision) -> Iterator[None]:
    """Forward passes in this format: mixed precision for bfloat16, and `tensor_float32`."""
    import torch

    kind, mixed = torch.device(device).type, precision == "bfloat16"
    with (
        tensor_float32(device, precision == "tf32"),
        torch.autocast(kind, dtype=torch.bfloat16, enabled=mixed),
    ):
        yield


@contextmanager
def tensor_float32(device: torch.device | str, on: bool = True) -> Iterator[None]:
    """Let CUDA round to ten bits of mantissa (TF32) before it multiplies float32 matrices.

    Several times faster on its tensor cores, and 8 times more exact than bfloat16. Not `on`: it
    does not, in convolutions neither, where it would by default. The switches are those of the
    whole process, and put back at the end. Other devices have none.
    """
    import torch

    if torch.device(device).type != "cuda":
        yield
        return
    matrices, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if on else "highest")
    torch.backends.cudnn.allow_tf32 = on
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matrices)
        torch.backends.cudnn.allow_tf32 = convolutions


def fast_bfloat16(device: torch.device | str) -> bool:
    """Whether the device is a processor with instructions for bfloat16.

    They alone decide: a time that is measured is another beside other work, and so would be the
    numbers. Where bfloat16 is slower all the same, `relevit doctor` says so.
    """
    import torch

    if torch.device(device).type != "cpu":
        return False
    flags = getattr(torch.cpu, "get_capabilities", dict)()  # newer than torch 2.6
    return any(flags.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def has_tensor_float32(device: torch.device | str) -> bool:
    """Whether the device multiplies in TF32: NVIDIA's from Ampere on."""
    import torch

    device = torch.device(device)
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= TF32_FROM


def at_once(images: int, device: torch.device | str) -> int:
    """So many images in one pass on a processor, and up to four times as many on a GPU.

    As many times as it has MEMORY_GIB: a small one is as busy with few. What comes out does not
    depend on it beyond rounding.
    """
    import torch

    device = torch.device(device)
    if device.type != "cuda":
        return images
    memory = torch.cuda.get_device_properties(device).total_memory / 2**30
    return images * max(1, min(4, int(memory / MEMORY_GIB)))


def sent(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The same on the device. A GPU fetches them when their turn comes, and is not waited for."""
    if device.type != "cuda" or values.is_cuda:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def choose_precision(choice: PrecisionChoice, device: torch.device | str) -> Precision:
    """`auto` becomes what the device has: bfloat16 on some processors, tf32 on GPUs, else float32.

    A GPU has one format for all: bfloat16 would be a third more kernels to start a step.

    Raises: ValueError for an unknown choice, which would run as float32.
    """
    if choice not in ("auto", "float32", "bfloat16"):
        raise ValueError(f"precision {choice!r} is unknown; use auto, float32 or bfloat16")
    if choice != "auto":
        return choice
    if has_tensor_float32(device):
        return "tf32"
    return "bfloat16" if fast_bfloat16(device) else "float32"

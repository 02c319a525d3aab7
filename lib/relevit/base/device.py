"""The machine: its cores and devices, their number formats, and which of them to use.

torch is loaded by the functions that need it, since the pipeline reads this before any stage does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from relevit.choices.words import Precision, PrecisionChoice

if TYPE_CHECKING:
    import torch

WORTH_IT, ROUNDS = 1.2, 7  # least gain for which a number format is changed; products timed


def cores() -> int:
    """The processor cores that this process may use, fewer than all in some containers."""
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


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[None]:
    """Mixed precision on `device` when `precision` is bfloat16; nothing otherwise."""
    import torch

    enabled = precision == "bfloat16"
    return torch.autocast(torch.device(device).type, dtype=torch.bfloat16, enabled=enabled)


@contextmanager
def tensor_float32(device: torch.device | str) -> Iterator[None]:
    """Let CUDA round to ten bits of mantissa (TF32) before it multiplies float32 matrices.

    Several times faster on its tensor cores, and 8 times more exact than bfloat16. The switch is
    one for the whole process, and put back at the end. Other devices have none.
    """
    import torch

    if torch.device(device).type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def fast_bfloat16(device: torch.device | str) -> bool:
    """Whether the device multiplies bfloat16 in hardware, and that saves time.

    Having the instructions is not enough: one processor with `avx512_bf16` was 2.8 times as fast
    with them, another took twice as long. So a product is timed, too.
    """
    import torch

    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if kind == "cpu":
        flags = getattr(torch.cpu, "get_capabilities", dict)()  # newer than torch 2.6
        there = flags.get("avx512_bf16") or flags.get("amx_bf16") or flags.get("bf16")
        return bool(there) and bfloat16_gain() > WORTH_IT
    return False


@cache
def bfloat16_gain() -> float:
    """How many times as fast this processor multiplies in bfloat16, by a layer of a ViT-S."""
    import torch

    def seconds(x: torch.Tensor, weight: torch.Tensor) -> float:
        def once() -> float:
            start = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            return time.perf_counter() - start

        return min(once() for _ in range(ROUNDS))

    with torch.inference_mode():
        x, weight = torch.ones(1040, 384), torch.ones(1536, 384)
        return seconds(x, weight) / seconds(x.bfloat16(), weight.bfloat16())


def choose_precision(choice: PrecisionChoice, device: torch.device | str) -> Precision:
    """`auto` becomes bfloat16 where the hardware has it, float32 elsewhere.

    Raises: ValueError for an unknown choice.
    """
    if choice not in ("auto", "float32", "bfloat16"):
        raise ValueError(f"precision {choice!r} is unknown; use auto, float32 or bfloat16")
    if choice != "auto":
        return choice
    return "bfloat16" if fast_bfloat16(device) else "float32"

"""Cores, devices and number formats: what is chosen, what is said when it cannot be had."""

from __future__ import annotations

import re
from contextlib import suppress
from types import SimpleNamespace

import pytest
import torch

from relevit.base import device
from relevit.base.device import (
    at_once,
    autocast,
    choose_device,
    choose_precision,
    cores,
    fast_bfloat16,
    tensor_float32,
)


@pytest.fixture
def machine(monkeypatch):
    """Pretend to be a machine with so many CUDA devices and with or without an Apple GPU."""

    def pretend(cuda=0, mps=False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


@pytest.mark.parametrize(
    ("has", "name", "chosen"),
    [
        ({}, "auto", "cpu"),
        ({"mps": True}, "auto", "mps"),
        ({"cuda": 1, "mps": True}, "auto", "cuda"),
        ({"cuda": 2}, "cpu", "cpu"),
        ({"cuda": 2}, "cuda", "cuda"),
        ({"cuda": 2}, "cuda:1", "cuda:1"),
        ({"mps": True}, "mps", "mps"),
        ({}, "cuda", ["cpu"]),
        ({"cuda": 2}, "cuda:2", ["cuda:0", "cuda:1", "cpu"]),
        ({"mps": True}, "gpu", ["mps", "cpu"]),
        ({}, "meta", ["cpu"]),
    ],
)
def test_device(machine, has, name, chosen):
    machine(**has)
    if isinstance(chosen, str):
        assert choose_device(name) == torch.device(chosen)
        return
    said = f"device {name!r} is unknown, or not on this machine: use auto or one of {chosen}"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        choose_device(name)


@pytest.mark.parametrize("fast", [True, False])
def test_precision(monkeypatch, fast):
    monkeypatch.setattr(device, "fast_bfloat16", lambda device: fast)
    chosen = [choose_precision(name, "cpu") for name in ("auto", "float32", "bfloat16")]
    assert chosen == ["bfloat16" if fast else "float32", "float32", "bfloat16"]


@pytest.mark.parametrize(
    ("flags", "fast"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, True),
        ({"amx_bf16": True}, True),
        ({"bf16": True}, True),
        ({"avx512_f": True, "avx512_bf16": False}, False),
        ({}, False),
    ],
)
def test_bfloat16_is_for_processors_with_its_instructions_however_busy(monkeypatch, flags, fast):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags, raising=False)
    monkeypatch.setattr("time.perf_counter", None)  # a time would be chance
    found = [fast_bfloat16(name) for name in ("cpu", "cuda:0", "mps")]
    assert found == [fast, False, False]


def test_autocast():
    layer = torch.nn.Linear(2, 2)
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        with autocast("cpu", name):
            assert layer(torch.ones(1, 2)).dtype == dtype
    assert layer(torch.ones(1, 2)).dtype == torch.float32


def test_a_job_of_slurm_has_the_cores_that_it_asked_for(monkeypatch):
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert cores() == 3


def switches():
    return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(
    ("device", "on", "inside"),
    [("cuda:1", True, ("high", True)), ("cuda", False, ("highest", False)), ("cpu", True, None)],
)
def test_tensor_float32_is_for_cuda_and_for_the_block_alone(device, on, inside):
    before = switches()
    with suppress(KeyError), tensor_float32(torch.device(device), on):
        assert switches() == (inside or before)
        raise KeyError
    assert switches() == before


@pytest.mark.parametrize(
    ("generation", "gib", "precision", "images"),
    [((9, 0), 80, "tf32", 80), ((8, 9), 12, "tf32", 20), ((8, 6), 47, "tf32", 40),
     ((7, 5), 15, "float32", 20), ((10, 0), 180, "tf32", 80)],
)  # fmt: skip
def test_a_gpu_has_the_format_of_its_generation_and_batches_by_its_memory(
    monkeypatch, generation, gib, precision, images
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: generation)
    about = SimpleNamespace(total_memory=gib * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: about)
    assert choose_precision("auto", "cuda") == precision
    assert choose_precision("bfloat16", "cuda") == "bfloat16"
    assert (at_once(20, "cuda"), at_once(20, "cpu"), at_once(20, "mps")) == (images, 20, 20)


def test_a_format_that_nobody_has_is_refused_and_not_taken_for_float32():
    with pytest.raises(ValueError, match="'fp16' is unknown; use auto, float32 or bfloat16"):
        choose_precision("fp16", "cpu")

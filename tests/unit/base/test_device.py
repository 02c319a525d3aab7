"""Cores, devices and number formats: what is chosen, what is said when it cannot be had."""

from __future__ import annotations

import pytest
import torch

from relevit.base import device
from relevit.base.device import (
    autocast,
    choose_device,
    choose_precision,
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
        ({"cuda": 1}, "auto", "cuda"),
        ({"cuda": 1, "mps": True}, "auto", "cuda"),
        ({"cuda": 2}, "cpu", "cpu"),
        ({"cuda": 2}, "cuda", "cuda"),
        ({"cuda": 2}, "cuda:1", "cuda:1"),
        ({"mps": True}, "mps", "mps"),
    ],
)
def test_device(machine, has, name, chosen):
    machine(**has)
    assert choose_device(name) == torch.device(chosen)


@pytest.mark.parametrize(
    ("has", "name", "text"),
    [
        ({}, "cuda", "device 'cuda': this machine has no CUDA device; use auto or cpu"),
        ({}, "cuda:0", "device 'cuda:0': this machine has no CUDA device; use auto or cpu"),
        ({"cuda": 2}, "cuda:2", "device 'cuda:2': this machine has 2 CUDA devices, counted from 0"),
        ({}, "mps", "device 'mps': this machine has no Apple GPU; use auto or cpu"),
        ({}, "gpu", "device 'gpu' is unknown; use auto, cpu, cuda, cuda:N or mps"),
        ({}, "", "device '' is unknown; use auto, cpu, cuda, cuda:N or mps"),
        ({}, "cuda:one", "device 'cuda:one' is unknown; use auto"),
        ({}, "meta", "device 'meta' is not supported; use auto, cpu, cuda, cuda:N or mps"),
    ],
)
def test_device_that_cannot_be_had_is_an_error(machine, has, name, text):
    machine(**has)
    with pytest.raises(ValueError, match=text):
        choose_device(name)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        ("auto", {True: "bfloat16", False: "float32"}),
        ("float32", "float32"),
        ("bfloat16", "bfloat16"),
    ],
)
def test_precision(monkeypatch, fast, choice, chosen):
    monkeypatch.setattr(device, "fast_bfloat16", lambda device: fast)
    wanted = chosen if isinstance(chosen, str) else chosen[fast]
    assert choose_precision(choice, torch.device("cpu")) == wanted


@pytest.mark.parametrize(
    ("flags", "gain", "fast"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, 2.8, True),
        ({"avx512_bf16": True, "amx_bf16": False}, 0.5, False),
        ({"amx_bf16": True}, 2.0, True),
        ({"bf16": True}, 2.0, True),
        ({"avx512_f": True, "avx512_bf16": False}, 2.0, False),
        ({}, 2.0, False),
    ],
)
def test_bfloat16_in_the_processor(monkeypatch, flags, gain, fast):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags, raising=False)
    monkeypatch.setattr(device, "bfloat16_gain", lambda: gain)
    assert fast_bfloat16("cpu") is fast
    assert fast_bfloat16(torch.device("cpu")) is fast


@pytest.mark.parametrize("supported", [True, False])
def test_bfloat16_in_cuda_is_asked_of_the_hardware(monkeypatch, supported):
    def is_bf16_supported(including_emulation=True):
        return True if including_emulation else supported

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_bf16_supported)
    assert fast_bfloat16("cuda:0") is supported
    assert fast_bfloat16("mps") is False


@pytest.mark.parametrize(
    ("name", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)]
)
@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_autocast(name, dtype, device):
    layer = torch.nn.Linear(2, 2)
    with autocast(device, name):
        assert layer(torch.ones(1, 2)).dtype == dtype
    assert layer(torch.ones(1, 2)).dtype == torch.float32


@pytest.mark.parametrize(("device", "inside"), [("cuda:1", "high"), ("cpu", "highest")])
def test_tensor_float32_is_for_cuda_and_for_the_block_alone(device, inside):
    assert torch.get_float32_matmul_precision() == "highest"
    with tensor_float32(torch.device(device)):
        assert torch.get_float32_matmul_precision() == inside
    assert torch.get_float32_matmul_precision() == "highest"

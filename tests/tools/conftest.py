"""What the tests of the tools share, and what they leave as it was."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "tools" / "bench.py"
TINY = ("--model-scale=tiny", "--repeats=2", "--threads=1")


@pytest.fixture
def bench(monkeypatch) -> ModuleType:
    """The script as a module, which finds those beside it."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return importlib.import_module("bench")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The models here are too small for threads to help, and the benchmarks set their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

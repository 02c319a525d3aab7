"""Habitats, a benchmark with exact masks: drawings of animals in homes, and the nine sets.

`open_benchmark` gives it, or the papers' own data sets by the same calls (`real`); `corpora` are
texts. Imports `relevit` alone. Nothing is loaded before it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from habitats.benchmark import open_benchmark

__all__ = ["open_benchmark"]


def __getattr__(name: str) -> Any:
    if name != "open_benchmark":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from habitats.benchmark import open_benchmark

    return open_benchmark

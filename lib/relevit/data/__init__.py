"""Images with masks: the embedded benchmark Habitats, and the papers' data sets.

Habitats is drawn here, the others are read in `data.real`; `open_benchmark` gives either by the
same calls. Imports models (how each wants its pictures), `relevit.base` and `relevit.config`.
Nothing is loaded before it is asked for, so that `relevit doctor` starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relevit.data.benchmark import open_benchmark
    from relevit.data.inputs import model_input

__all__ = ["model_input", "open_benchmark"]
_FILES = {"model_input": "relevit.data.inputs", "open_benchmark": "relevit.data.benchmark"}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FILES[name]), name)

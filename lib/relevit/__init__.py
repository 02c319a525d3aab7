"""RelEViT: relevance maps of Vision Transformers, and training on them.

The suite reproduces three papers: RobustViT (Chefer et al. 2022), Beyond Intuition (Chen et
al. 2023) and IAV (Park and Choi). Importing this package loads nothing heavy: the names below are
looked up when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_ROOMS = {
    "load_model": "relevit.models",
    "model_input": "relevit.data",
    "explain": "relevit.attribution",
    "METHODS": "relevit.attribution",
    "gae": "relevit.attribution",
    "to_heatmap": "relevit.attribution",
    "step_losses": "relevit.finetune",
    "ia_scores": "relevit.iav",
    "tokencut": "relevit.masks",
}
__all__ = list(_ROOMS)


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_ROOMS]

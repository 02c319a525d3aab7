"""Pictures with labels and masks, as a model wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relevit.data.inputs import model_input

__all__ = ["model_input"]


def __getattr__(name: str) -> Any:
    if name != "model_input":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from relevit.data.inputs import model_input

    return model_input

"""Your own model and photographs: what is in them, does the model lean, a cure, where it looks.

`relevit` is tensors in, tensors out, and knows nothing of this package, which opens people's files
and writes reports. In the order of reading: `table` (a data set as one table), `outlines` (masks),
`check` (what is in it), `images` (what each image is for), `audit` (does the model lean?),
`finetune` (a cure beside its control), `explaining` (where it looks), `reports`, and `cli`, the
command.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FILES = {
    "OwnChoices": "choices",
    "audit_folder": "audit",
    "explain_file": "explaining",
    "finetune_folder": "finetune",
}
__all__ = list(_FILES)


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_FILES]

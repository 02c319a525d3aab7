"""Model weights in safetensors files: written whole or not at all, checked when read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from relevit.base.errors import one_line
from relevit.base.files import write_atomically
from relevit.choices.messages import shown

FACTS = "relevit"  # the metadata entry that holds what the suite knows of the weights
HALVES = (torch.float16, torch.bfloat16)


def save_weights(path: Path | str, model: nn.Module, architecture: str, **facts: str) -> None:
    """Write the state of `model` with its architecture and further `facts` as metadata."""
    state = {key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()}
    # One entry, because safetensors writes several in a random order: same run, same bytes.
    facts_text = json.dumps({"architecture": architecture, **facts}, sort_keys=True)
    write_atomically(
        Path(path), lambda target: save_file(state, target, metadata={FACTS: facts_text})
    )


def read_tensors(path: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of a safetensors file.

    Raises: FileNotFoundError when it is missing; ValueError when it is cut short or damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"weights: {path} is missing; check its name, or run its stage")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            return tensors, dict(json.loads((file.metadata() or {}).get(FACTS, "{}")))
    except (SafetensorError, OSError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"weights: {path} is cut short or damaged ({one_line(error)}); "
            "copy it again, or delete it and run the stage that writes it, if one does"
        ) from error


def load_weights(path: Path | str, model: nn.Module, architecture: str) -> dict[str, str]:
    """Fill `model` from a file of `save_weights`; return the file's metadata.

    Raises: as `read_tensors`; ValueError when the file was made for another architecture, or does
    not fit (`need_sound`). The model is unchanged after an error.
    """
    tensors, metadata = read_tensors(path)
    written_for = metadata.get("architecture", "(none given)")
    if written_for != architecture:
        raise ValueError(
            f"weights: {path} is for model {shown(written_for)}, not {architecture!r}; "
            "choose that model or another file"
        )
    state = model.state_dict()
    try:
        if odd := sorted(state.keys() ^ tensors.keys()):
            raise ValueError(f"{odd[0]} is in one of them alone ({len(odd)} in all)")
        need_sound(tensors, state)
    except ValueError as error:
        raise ValueError(f"weights: {path} does not fit {architecture!r}: {error}") from None
    model.load_state_dict(tensors)
    return metadata


def need_sound(tensors: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless tensors are numbers of the sizes and types of a model's `state`.

    Half precision may fill single.
    """
    for key, value in tensors.items():
        size, into = tuple(state[key].shape), state[key].dtype
        if tuple(value.shape) != size:
            raise ValueError(
                f"size mismatch for {key}: {tuple(value.shape)} in the file, {size} in the model"
            )
        # A number of half precision is one of single precision, too; other casts lose digits.
        if value.dtype != into and not (value.dtype in HALVES and into == torch.float32):
            raise ValueError(
                f"{value.dtype} in {key!r}, where the model has {into}; save them as that type "
                "(into float32, float16 and bfloat16 may be loaded as well)"
            )
        if not torch.isfinite(value).all():
            raise ValueError(
                f"NaN or infinity in {key!r}; the run that wrote it diverged: lower its learning "
                "rate and run it again"
            )

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
from relevit.config.messages import shown

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

    Raises: FileNotFoundError when it is missing; ValueError when it is cut short or damaged, or
    its metadata are not the suite's.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"weights: {path} is missing; run the stage that writes it")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            return tensors, _facts(path, (file.metadata() or {}).get(FACTS, "{}"))
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"weights: {path} is cut short or damaged ({one_line(error)}); "
            "delete it and run the stage that writes it again"
        ) from error


def _facts(path: Path, text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or not isinstance(facts.get("architecture", ""), str):
        raise ValueError(
            f"weights: {path} has metadata under {FACTS!r} that are no JSON object with the name "
            f"of a model ({text[:40]!r}); delete it and run the stage that writes it again"
        )
    return facts


def load_weights(path: Path | str, model: nn.Module, architecture: str) -> dict[str, str]:
    """Fill `model` from a file of `save_weights`; return the file's metadata.

    Raises: FileNotFoundError, ValueError when the file is damaged, was made for another
    architecture, holds another type of numbers (half precision may fill single), or NaN or
    infinity. The model is unchanged after an error.
    """
    tensors, metadata = read_tensors(path)
    written_for = metadata.get("architecture", "(none given)")
    if written_for != architecture:
        raise ValueError(
            f"weights: {path} is for model {shown(written_for)}, not {architecture!r}; "
            "choose that model or another file"
        )
    state = model.state_dict()
    expected = {key: tuple(value.shape) for key, value in state.items()}
    found = {key: tuple(value.shape) for key, value in tensors.items()}
    odd = sorted(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
    if odd:
        raise ValueError(
            f"weights: {path} does not fit model {architecture!r} at {odd[0]!r} "
            f"(file {found.get(odd[0])}, model {expected.get(odd[0])}; {len(odd)} in all); "
            "use a file written by this version for this model"
        )
    try:
        need_sound(tensors, state)
    except ValueError as error:
        raise ValueError(f"weights: {path} holds {error}") from None
    model.load_state_dict(tensors)
    return metadata


def need_sound(tensors: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Raise ValueError, for words before it, unless tensors are numbers as a model's `state` has.

    Half precision may fill single.
    """
    for key, value in tensors.items():
        into = state[key].dtype
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

"""The epoch loop shared by all trainings: a checkpoint each epoch and exact resume.

An epoch's random choices come from (seed, epoch) alone, so weights and optimiser are the whole
state: a run that was killed and started again ends with the same bytes.
"""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.optim import Optimizer

from relevit.base.errors import one_line
from relevit.base.files import need_disk_space, write_atomically
from relevit.base.results import read_rows
from relevit.models.checkpoints import load_weights, read_tensors, save_weights

History = list[dict[str, Any]]
WEIGHTS, LOG, CHECKPOINT, EPOCHS = "weights.safetensors", "log.jsonl", "checkpoint.pt", "epochs"


def run_epochs(
    model: nn.Module,
    optimizer: Optimizer,
    folder: Path,
    *,
    architecture: str,
    identity: dict[str, Any],
    epochs: int,
    train_epoch: Callable[[int], dict[str, float]],
    validate: Callable[[], dict[str, float]],
    criterion: str | None = None,
    validated: Collection[int] | None = None,
    keep_epochs: bool = False,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
) -> History:
    """Train for `epochs`, resuming what `folder` holds of the same `identity`.

    Writes `weights.safetensors` and `log.jsonl` (one row an epoch; row 0 is before training).
    `criterion` names the validation figure whose lowest value, the latest of equals, decides
    which epoch's weights are kept (differences A13, F11); None keeps the last epoch's. `validated`
    are the rows with figures `validation_...`, None for all; others need no `criterion`. A run that
    lacks some begins anew, with those that it had, too. The model holds the kept weights after it.
    `keep_epochs=True` leaves all epochs' in `epoch_file(folder, epoch)`. `on_epoch` sees each row.
    Raises: FloatingPointError when a loss is not finite (the last checkpoint stays), OSError
    without room for the checkpoints. A file that cannot be read is named in a warning.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    name = json.dumps({"architecture": architecture, **identity}, sort_keys=True)
    kept = [epoch_file(folder, epoch) for epoch in range(epochs + 1) if keep_epochs]
    done, validated = _finished(folder, model, architecture, name, kept, validated)
    if done is not None:
        (folder / CHECKPOINT).unlink(missing_ok=True)  # killed before it was removed
        return done
    need_disk_space(folder, megabytes=50 + (10 + len(kept)) * _size_mb(model))

    def figures(epoch: int) -> dict[str, float]:
        return validate() if validated is None or epoch in validated else {}

    history, best = _resumed(folder, model, optimizer, name, kept, validated)
    if not history:
        (folder / WEIGHTS).unlink(missing_ok=True)  # of another run, as the log is from here on
        shutil.rmtree(folder / EPOCHS, ignore_errors=True)
        history = [{"epoch": 0} | figures(0)]
        _keep(kept, 0, model, architecture)
        on_epoch(history[0])
    for epoch in range(len(history), epochs + 1):
        row = {"epoch": epoch} | train_epoch(epoch) | figures(epoch)
        _need_finite(row, folder)
        history.append(row)
        if criterion is None or row[criterion] <= min(r[criterion] for r in history[1:]):
            best = {key: value.detach().cpu().clone() for key, value in model.state_dict().items()}
        _keep(kept, epoch, model, architecture)
        _save_checkpoint(folder, model, optimizer, best=best, identity=name, history=history)
        on_epoch(row)
    model.load_state_dict(best)
    _write_log(folder, history)
    save_weights(folder / WEIGHTS, model, architecture, identity=name)
    (folder / CHECKPOINT).unlink()
    return history


def epoch_file(folder: Path, epoch: int) -> Path:
    """Where `run_epochs` with `keep_epochs=True` leaves the weights of an epoch; 0 is before."""
    return folder / EPOCHS / f"epoch_{epoch:04d}.safetensors"


def epoch_plan(
    count: int, batch_size: int, seed: int, epoch: int
) -> list[tuple[Int[Tensor, " rows"], np.random.Generator]]:
    """The batches of one epoch in a random order, each with its own random generator.

    Everything follows from (seed, epoch), so that a resumed run draws the same; runs of the
    published code cannot be repeated (differences A15).
    """
    order = torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(count))
    batches = order.split(batch_size)
    return [(rows, np.random.default_rng([seed, epoch, i])) for i, rows in enumerate(batches)]


def loss_figures(losses: list[float]) -> dict[str, Any]:
    """The mean of an epoch's losses, and the means of at most twenty parts of it (`curve`)."""
    curve = [float(np.mean(part)) for part in np.array_split(losses, min(20, len(losses)))]
    return {"train_loss": float(np.mean(losses)), "curve": curve}


def _finished(
    folder: Path,
    model: nn.Module,
    architecture: str,
    name: str,
    kept: list[Path],
    validated: Collection[int] | None,
) -> tuple[History | None, Collection[int] | None]:
    """Load the weights of this run where it is finished and all of it is there.

    None where something is missing. The second are the rows to validate: those that are asked for,
    and of a run that only lacks some of them those that it has validated.
    """
    if not all(path.is_file() for path in (folder / WEIGHTS, folder / LOG, *kept)):
        return None, validated
    try:
        if read_tensors(folder / WEIGHTS)[1].get("identity") != name:
            return None, validated
        history = read_rows(folder / LOG)
        if _lacks_figures(history, validated):
            had = (row["epoch"] for row in history if _has_figures(row))
            return None, None if validated is None else {*validated, *had}
        load_weights(folder / WEIGHTS, model, architecture)
    except ValueError as error:
        _warn(folder, error)
        return None, validated
    return history, validated


def _has_figures(row: dict[str, Any]) -> bool:
    return any(key.startswith("validation_") for key in row)


def _lacks_figures(history: History, validated: Collection[int] | None) -> bool:
    """Whether a row is asked for validation figures, and has none."""
    asked = (row for row in history if validated is None or row["epoch"] in validated)
    return not all(_has_figures(row) for row in asked)


def _resumed(
    folder: Path,
    model: nn.Module,
    optimizer: Optimizer,
    name: str,
    kept: list[Path],
    validated: Collection[int] | None,
) -> tuple[History, dict[str, Tensor]]:
    """What the checkpoint of this run holds, put in place; nothing when there is none."""
    if not (folder / CHECKPOINT).is_file():
        return [], {}
    try:
        state = torch.load(folder / CHECKPOINT, map_location="cpu", weights_only=True)
        history = state["history"] if state["identity"] == name else []
    except Exception as error:  # of torch's, zipfile's and pickle's own, of many kinds
        _warn(folder / CHECKPOINT, error)
        return [], {}
    lost = not all(path.is_file() for path in kept[: len(history)])
    if not history or lost or _lacks_figures(history, validated):
        return [], {}
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return history, state["best"]


def _save_checkpoint(folder: Path, model: nn.Module, optimizer: Optimizer, **others: Any) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), **others}
    write_atomically(folder / CHECKPOINT, lambda path: torch.save(state, path))
    _write_log(folder, others["history"])


def _sweep(folder: Path) -> None:
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink()  # a write that was killed


def _warn(path: Path, error: Exception) -> None:
    said = f"training: {path} cannot be used ({one_line(error)}); the run begins anew"
    warnings.warn(said, stacklevel=4)


def _keep(kept: list[Path], epoch: int, model: nn.Module, architecture: str) -> None:
    if kept:
        kept[epoch].parent.mkdir(exist_ok=True)
        save_weights(kept[epoch], model, architecture)


def _need_finite(row: dict[str, Any], folder: Path) -> None:
    for key, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise FloatingPointError(
                f"training: {key} is {value} in epoch {row['epoch']} of {folder.name}; "
                "lower the learning rate (the checkpoint of the epoch before is kept)"
            )


def _write_log(folder: Path, history: History) -> None:
    text = "".join(json.dumps(row) + "\n" for row in history)
    write_atomically(folder / LOG, lambda target: target.write_text(text, encoding="utf-8"))


def _size_mb(model: nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters()) // 2**20

"""The epoch loop shared by all trainings: a checkpoint each epoch and exact resume.

An epoch's random choices come from (seed, epoch) alone, so weights and optimiser are the
whole state: a run that was killed and started again ends with the same bytes. So does one whose
files were damaged: it goes back to the last whole checkpoint, or begins anew.
"""

from __future__ import annotations

import json
import math
import os
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

from relevit.base.files import file_fingerprint, full_disk_said, need_disk_space, write_atomically
from relevit.base.results import read_rows
from relevit.models.checkpoints import load_weights, read_tensors, save_weights

History = list[dict[str, Any]]
WEIGHTS, LOG, CHECKPOINT, EPOCHS = "weights.safetensors", "log.jsonl", "checkpoint", "epochs"
# What a checkpoint holds, and the file that tells whether all of it is as it was written.
KEPT, OPTIMIZER, STATE, SUMS = "kept.safetensors", "optimizer.pt", "state.json", "sums.json"


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
    are the rows that have validation figures, None for all; others need no `criterion`. The model
    holds the kept weights afterwards. A damaged file is told in a warning, and its run made again
    from the last checkpoint that is whole. `keep_epochs=True` leaves every epoch's weights in
    `epoch_file(folder, epoch)` as well. `on_epoch` sees each row as it is made.
    Raises: FloatingPointError when a loss is not finite (the last checkpoint stays), OSError
    without room for the checkpoints.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink()  # a write that was killed
    name = json.dumps({"architecture": architecture, **identity}, sort_keys=True)
    kept = range(epochs + 1) if keep_epochs else range(0)
    done = _finished(folder, model, architecture, name, kept)
    if done is not None:
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)  # killed while it was removed
        return done
    need_disk_space(folder, megabytes=50 + (10 + len(kept)) * _size_mb(model))

    def figures(epoch: int) -> dict[str, float]:
        return validate() if validated is None or epoch in validated else {}

    history = _resume(folder, model, optimizer, architecture, name, kept)
    if not history:
        shutil.rmtree(folder / EPOCHS, ignore_errors=True)  # of another run, or not all there
        history = [{"epoch": 0} | figures(0)]
        if keep_epochs:
            (folder / EPOCHS).mkdir(exist_ok=True)
            save_weights(epoch_file(folder, 0), model, architecture)
        on_epoch(history[0])
    for epoch in range(len(history), epochs + 1):
        row = {"epoch": epoch} | train_epoch(epoch) | figures(epoch)
        _need_finite(row, folder)
        history.append(row)
        best = criterion is None or row[criterion] <= min(r[criterion] for r in history[1:])
        newest = _save(folder / CHECKPOINT, model, optimizer, architecture, name, history, best)
        if keep_epochs:
            _link_or_copy(newest / WEIGHTS, epoch_file(folder, epoch))
        _write_log(folder, history)
        on_epoch(row)
    return _finish(folder, model, architecture, name, history)


def _need_finite(row: dict[str, Any], folder: Path) -> None:
    for key, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise FloatingPointError(
                f"training: {key} is {value} in epoch {row['epoch']} of {folder.name}; "
                "lower the learning rate (the checkpoint of the epoch before is kept)"
            )


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
    folder: Path, model: nn.Module, architecture: str, name: str, kept: range
) -> History | None:
    """Load the weights of this run where it is finished and whole."""
    needed = [folder / WEIGHTS, folder / LOG, *(epoch_file(folder, epoch) for epoch in kept)]
    if not all(path.is_file() for path in needed):
        return None
    try:
        facts = read_tensors(folder / WEIGHTS)[1]
        if facts.get("identity") != name:
            return None
        if facts.get("log") != file_fingerprint(folder / LOG):
            if not (folder / CHECKPOINT).exists():  # else a later run, since stopped, wrote its own
                _warn(folder / LOG, "is not as this run wrote it")
            return None
        load_weights(folder / WEIGHTS, model, architecture)
    except ValueError as error:
        _warn(folder / WEIGHTS, f"cannot be used ({error})")
        return None
    return read_rows(folder / LOG)


def _resume(
    folder: Path, model: nn.Module, optimizer: Optimizer, architecture: str, name: str, kept: range
) -> History:
    """Load the newest whole checkpoint of this run; an empty history when there is none."""
    checkpoint = folder / CHECKPOINT
    for leftover in checkpoint.glob(".*"):
        shutil.rmtree(leftover)  # an interrupted write or removal
    for newest in sorted(checkpoint.glob("epoch_*"), reverse=True):
        if damaged := _damaged(newest):
            _warn(newest / damaged, "is missing or not as it was written")
            _remove(newest)
            continue
        state = json.loads((newest / STATE).read_text(encoding="utf-8"))
        if state["identity"] != name:
            break
        history = state["history"]
        if kept:  # it may have been killed between the checkpoint and its copy
            _link_or_copy(newest / WEIGHTS, epoch_file(folder, history[-1]["epoch"]))
            if not all(epoch_file(folder, row["epoch"]).is_file() for row in history):
                break
        load_weights(newest / WEIGHTS, model, architecture)
        optimizer.load_state_dict(torch.load(newest / OPTIMIZER, weights_only=True))
        return history
    for other in checkpoint.glob("epoch_*"):
        _remove(other)
    return []


def _damaged(checkpoint: Path) -> str | None:
    """The name of a file that is not as it was written, if there is one."""
    try:
        sums = dict(json.loads((checkpoint / SUMS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return SUMS
    found = _sums(checkpoint)
    return next((name for name, now in found.items() if now is None or now != sums.get(name)), None)


def _sums(checkpoint: Path) -> dict[str, str | None]:
    paths = [checkpoint / name for name in (WEIGHTS, KEPT, OPTIMIZER, STATE)]
    return {path.name: file_fingerprint(path) if path.is_file() else None for path in paths}


def _warn(path: Path, what: str) -> None:
    warnings.warn(
        f"training: {path} {what}; the run goes on from its last whole checkpoint, or begins anew",
        stacklevel=4,
    )


def _remove(folder: Path) -> None:
    """Hide a checkpoint with one rename, then delete it: it is never seen half deleted."""
    hidden = folder.with_name(f".{folder.name}.old")
    os.replace(folder, hidden)
    shutil.rmtree(hidden)


def _save(
    checkpoint: Path,
    model: nn.Module,
    optimizer: Optimizer,
    architecture: str,
    name: str,
    history: History,
    best: bool,
) -> Path:
    """Write one epoch's folder under a hidden name, show it with one rename, drop older ones."""
    epoch = history[-1]["epoch"]
    older = sorted(checkpoint.glob("epoch_*"))
    hidden = checkpoint / f".epoch_{epoch:04d}"
    hidden.mkdir(parents=True)
    shown = checkpoint / f"epoch_{epoch:04d}"
    with full_disk_said(shown):
        save_weights(hidden / WEIGHTS, model, architecture)
        torch.save(optimizer.state_dict(), hidden / OPTIMIZER)
        kept = hidden / WEIGHTS if best or not older else older[-1] / KEPT
        _link_or_copy(kept, hidden / KEPT)
        state = {"identity": name, "history": history}
        (hidden / STATE).write_text(json.dumps(state), encoding="utf-8")
        (hidden / SUMS).write_text(json.dumps(_sums(hidden)), encoding="utf-8")
    os.replace(hidden, shown)
    for folder in older:
        _remove(folder)
    return shown


def _link_or_copy(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # a disk without hard links
        shutil.copyfile(source, target)


def _finish(
    folder: Path, model: nn.Module, architecture: str, name: str, history: History
) -> History:
    newest = max((folder / CHECKPOINT).glob("epoch_*"))
    load_weights(newest / KEPT, model, architecture)
    _write_log(folder, history)
    log = file_fingerprint(folder / LOG)
    save_weights(folder / WEIGHTS, model, architecture, identity=name, log=log)
    for checkpoint in (folder / CHECKPOINT).glob("epoch_*"):
        _remove(checkpoint)
    shutil.rmtree(folder / CHECKPOINT)
    return history


def _write_log(folder: Path, history: History) -> None:
    text = "".join(json.dumps(row) + "\n" for row in history)
    write_atomically(folder / LOG, lambda target: target.write_text(text, encoding="utf-8"))


def _size_mb(model: nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters()) // 2**20

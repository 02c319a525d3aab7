"""The loop of all trainings: batches, steps, rows of a log, checkpoints, exact resume.

An epoch's random choices come from (seed, epoch) alone, so weights and optimiser are the whole
state: a run that was killed and started again ends with the same bytes.
"""

from __future__ import annotations

import json
import math
import shutil
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim import Optimizer

from relevit.base.errors import one_line
from relevit.base.files import need_disk_space, write_atomically
from relevit.base.results import read_rows
from relevit.models.checkpoints import load_weights, read_tensors, save_weights

Row = dict[str, Any]
History = list[Row]
Losses = dict[str, Float[Tensor, ""] | float]  # those of a step by name, where they are
Numbers = dict[str, float]  # the same, read
WEIGHTS, LOG, CHECKPOINT, EPOCHS = "weights.safetensors", "log.jsonl", "checkpoint.pt", "epochs"
# Between two checkpoints: three times a model's size, which many short epochs would write anew.
CHECKPOINT_S = 60.0


def descend(optimizer: Optimizer, losses: Mapping[str, Float[Tensor, ""]]) -> Losses:
    """One step down the last of these losses; all of them, out of the graph.

    They are not read: that would make a GPU wait in every step (`read`).
    """
    optimizer.zero_grad(set_to_none=True)
    list(losses.values())[-1].backward()
    optimizer.step()
    return {name: value.detach() for name, value in losses.items()}


def read(steps: Sequence[Losses]) -> list[Numbers]:
    """The losses of steps as plain numbers; a GPU is waited for once."""
    tensors = [v for losses in steps for v in losses.values() if isinstance(v, Tensor)]
    found = iter(torch.stack(tensors).tolist() if tensors else ())
    return [
        {name: next(found) if isinstance(value, Tensor) else value for name, value in row.items()}
        for row in steps
    ]


def means(rows: Sequence[Numbers]) -> Row:
    """The mean of each loss, as `train_<name>`, over the steps in which it was computed."""
    names = dict.fromkeys(key for row in rows for key in row)
    return {
        f"train_{key}": float(np.mean([row[key] for row in rows if key in row])) for key in names
    }


def curve(rows: Sequence[Numbers]) -> Row:
    """The means, and those of `loss` in at most twenty parts of the epoch (`curve`)."""
    parts = np.array_split([row["loss"] for row in rows], min(20, len(rows)))
    return means(rows) | {"curve": [float(np.mean(part)) for part in parts]}


def train_epochs(
    model: nn.Module,
    optimizer: Optimizer,
    batches: Callable[[int], Sequence[Any]],
    step: Callable[[Any], Losses],
    epochs: Iterable[int],
    *,
    rate: Callable[[int, int, int], float] | None = None,
    summary: Callable[[Sequence[Numbers]], Row] = means,
    on_step: Callable[[int, int, int, Losses], object] = lambda *done: None,
) -> Iterator[Row]:
    """Train an epoch for each row that is asked for: its number and the `summary` of its steps.

    `batches(epoch)` are the epoch's, of any kind, and `step(batch)` takes one and tells its losses
    (`descend`). `rate` is the share of each group's own learning rate, of the epoch (from 1), the
    step in it (from 0) and how many there are; `on_step` hears of the steps done (from 1).
    """
    peaks = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
    for epoch in epochs:
        model.train()
        plan, rows = batches(epoch), []
        for place, batch in enumerate(plan):
            if rate is not None:
                share = rate(epoch, place, len(plan))
                for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                    group["lr"] = share * peak
            rows.append(step(batch))
            on_step(epoch, place + 1, len(plan), rows[-1])
        yield {"epoch": epoch} | summary(read(rows))


def fit(
    model: nn.Module,
    optimizer: Optimizer,
    folder: Path,
    batches: Callable[[int], Sequence[Any]],
    step: Callable[[Any], Losses],
    *,
    architecture: str,
    identity: dict[str, Any],
    epochs: int,
    validate: Callable[[], Row],
    criterion: str | None = None,
    validated: Collection[int] | None = None,
    keep_epochs: bool = False,
    on_epoch: Callable[[Row], None] = lambda row: None,
    **how: Any,
) -> History:
    """Train for `epochs` (`train_epochs`), resuming what `folder` holds of the same `identity`.

    Writes `weights.safetensors` and `log.jsonl` (one row an epoch; row 0 is before training).
    `criterion` names the validation figure whose lowest value, the latest of equals, decides
    which epoch's weights are kept (differences A13, F11); None keeps the last epoch's. `validated`
    are the rows with figures `validation_...`, None for all; others need no `criterion`. A run that
    lacks some begins anew, with those that it had, too. The model holds the kept weights after it,
    in eval mode. `keep_epochs=True` leaves all epochs' in `epoch_file(folder, epoch)`. `on_epoch`
    sees each row; `how` are the options of `train_epochs`.
    Raises: FloatingPointError when a loss is not finite (the last checkpoint stays), OSError
    without room for the checkpoints. A file that cannot be read is named in a warning.
    """
    name = json.dumps({"architecture": architecture, **identity}, sort_keys=True)
    kept = [epoch_file(folder, epoch) for epoch in range(epochs + 1) if keep_epochs]
    run = _Run(folder, model, optimizer, architecture, name, kept)
    history, validated = run.finished(validated)
    if history:
        return history

    def figures(epoch: int) -> Row:
        model.eval()
        return validate() if validated is None or epoch in validated else {}

    history, best = run.resumed(validated)
    if not history:
        run.forget_another()
        history = [{"epoch": 0} | figures(0)]
        run.keep(0)
        on_epoch(history[0])
    for row in train_epochs(
        model, optimizer, batches, step, range(len(history), epochs + 1), **how
    ):
        row |= figures(row["epoch"])
        _need_finite(row, folder)
        history.append(row)
        if criterion is None or row[criterion] <= min(r[criterion] for r in history[1:]):
            best = {key: value.detach().clone() for key, value in model.state_dict().items()}
        run.keep(row["epoch"])
        run.save(history, best)
        on_epoch(row)
    run.finish(history, best)
    return history


def epoch_file(folder: Path, epoch: int) -> Path:
    """Where `fit` with `keep_epochs=True` leaves the weights of an epoch; 0 is before."""
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


@dataclass
class _Run:
    """The files of a run. `name` is all that it is made of, `kept` are its epochs' weights."""

    folder: Path
    model: nn.Module
    optimizer: Optimizer
    architecture: str
    name: str
    kept: list[Path]
    saved: float = field(default_factory=lambda: time.monotonic())

    def finished(self, validated: Collection[int] | None) -> tuple[History, Collection[int] | None]:
        """The log, the weights loaded, where the run is finished and all of it is there.

        Nothing where something is missing. The second are the rows to validate: those that are
        asked for, and of a run that only lacks some of them those that it has validated.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for leftover in self.folder.glob(".*.tmp"):
            leftover.unlink()  # a write that was killed
        weights, log = self.folder / WEIGHTS, self.folder / LOG
        if not all(path.is_file() for path in (weights, log, *self.kept)):
            return [], validated
        try:
            if read_tensors(weights)[1].get("identity") != self.name:
                return [], validated
            history = read_rows(log)
            if _lacks_figures(history, validated):
                had = (row["epoch"] for row in history if _has_figures(row))
                return [], None if validated is None else {*validated, *had}
            load_weights(weights, self.model, self.architecture)
        except ValueError as error:
            _warn(self.folder, error)
            return [], validated
        (self.folder / CHECKPOINT).unlink(missing_ok=True)  # killed before it was removed
        self.model.eval()
        return history, validated

    def resumed(self, validated: Collection[int] | None) -> tuple[History, dict[str, Tensor]]:
        """What the checkpoint of this run holds, put in place; nothing when there is none.

        Raises: OSError without room for what is to come.
        """
        size_mb = sum(p.numel() * p.element_size() for p in self.model.parameters()) // 2**20
        need_disk_space(self.folder, megabytes=50 + (10 + len(self.kept)) * size_mb)
        path = self.folder / CHECKPOINT
        if not path.is_file():
            return [], {}
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            history = state["history"] if state["identity"] == self.name else []
        except Exception as error:  # of torch's, zipfile's and pickle's own, of many kinds
            _warn(path, error)
            return [], {}
        lost = not all(path.is_file() for path in self.kept[: len(history)])
        if not history or lost or _lacks_figures(history, validated):
            return [], {}
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return history, state["best"]

    def forget_another(self) -> None:
        """Remove what another run has left here, whose the log is no longer."""
        (self.folder / WEIGHTS).unlink(missing_ok=True)
        shutil.rmtree(self.folder / EPOCHS, ignore_errors=True)

    def save(self, history: History, best: dict[str, Tensor]) -> None:
        """Write the log, and where it is time the checkpoint, which is the older one by a kill."""
        if time.monotonic() - self.saved >= CHECKPOINT_S:
            self.save_checkpoint(history, best)
            self.saved = time.monotonic()
        self.write_log(history)

    def save_checkpoint(self, history: History, best: dict[str, Tensor]) -> None:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        state |= {"best": best, "identity": self.name, "history": history}
        write_atomically(self.folder / CHECKPOINT, lambda path: torch.save(state, path))

    def write_log(self, history: History) -> None:
        text = "".join(json.dumps(row) + "\n" for row in history)
        write_atomically(self.folder / LOG, text)

    def finish(self, history: History, best: dict[str, Tensor]) -> None:
        self.model.load_state_dict(best)
        self.model.eval()
        self.write_log(history)
        save_weights(self.folder / WEIGHTS, self.model, self.architecture, identity=self.name)
        (self.folder / CHECKPOINT).unlink(missing_ok=True)

    def keep(self, epoch: int) -> None:
        if self.kept:
            self.kept[epoch].parent.mkdir(exist_ok=True)
            save_weights(self.kept[epoch], self.model, self.architecture)


def _has_figures(row: Row) -> bool:
    return any(key.startswith("validation_") for key in row)


def _lacks_figures(history: History, validated: Collection[int] | None) -> bool:
    """Whether a row is asked for validation figures, and has none."""
    asked = (row for row in history if validated is None or row["epoch"] in validated)
    return not all(_has_figures(row) for row in asked)


def _warn(path: Path, error: Exception) -> None:
    said = f"training: {path} cannot be used ({one_line(error)}); the run begins anew"
    warnings.warn(said, stacklevel=4)


def _need_finite(row: Row, folder: Path) -> None:
    for key, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise FloatingPointError(
                f"training: {key} is {value} in epoch {row['epoch']} of {folder.name}; "
                "lower the learning rate (its last checkpoint is kept)"
            )

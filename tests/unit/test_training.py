"""Checkpoints and resume on a linear model: stopped anywhere, a run ends with the same bytes."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from relevit import checkpoints, paths, training
from relevit.training import CHECKPOINT, LOG, WEIGHTS, run_epochs

EPOCHS = 4
IDENTITY = {"kind": "linear", "lr": 0.1}


class Stop(BaseException):
    """Ends a run at once, like a kill; not an Exception, so that nothing catches it."""


class Run:
    """A linear model with AdamW; every epoch's data come from its number alone."""

    def __init__(self, folder, seed=0, **options):
        torch.manual_seed(seed)
        self.model = nn.Linear(3, 2)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.folder = folder
        self.options = {"identity": IDENTITY, "epochs": EPOCHS, "architecture": "linear"} | options
        self.trained = []
        self.seen = []

    def train_epoch(self, epoch):
        self.trained.append(epoch)
        random = np.random.default_rng([7, epoch])
        losses = []
        for _ in range(3):
            x = torch.from_numpy(random.normal(size=(4, 3))).float()
            loss = (self.model(x) - x[:, :2]).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return {"train_loss": float(np.mean(losses))}

    def validate(self):
        with torch.no_grad():
            return {"validation_loss": float(self.model(torch.eye(3)).square().mean())}

    def run(self, **callbacks):
        calls = {"train_epoch": self.train_epoch, "validate": self.validate,
                 "on_epoch": self.seen.append}  # fmt: skip
        return run_epochs(
            self.model, self.optimizer, self.folder, **(calls | self.options | callbacks)
        )

    def weights(self):
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])


def result(folder):
    """The bytes that a finished run leaves, and nothing else may lie beside them."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(found) == {WEIGHTS, LOG}
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    run = Run(folder)
    history = run.run()
    return run, history, result(folder)


# One run


def test_log_holds_one_row_an_epoch_and_row_zero_before(undisturbed):
    run, history, files = undisturbed
    assert run.trained == [1, 2, 3, 4]
    assert [row["epoch"] for row in history] == [0, 1, 2, 3, 4]
    assert set(history[0]) == {"epoch", "validation_loss"}
    assert all(set(row) == {"epoch", "train_loss", "validation_loss"} for row in history[1:])
    assert [json.loads(line) for line in files[LOG].decode().splitlines()] == history
    assert run.seen == history


def test_same_run_same_bytes(undisturbed, tmp_path):
    """Several times, for a random order inside a file would often come out equal."""
    for i in range(6):
        Run(tmp_path / f"run{i}").run()
        assert result(tmp_path / f"run{i}") == undisturbed[2]


def test_training_moved_the_weights(undisturbed, tmp_path):
    assert (Run(tmp_path).weights() - undisturbed[0].weights()).abs().min() > 0.01


def test_checkpoint_of_each_epoch_replaces_the_one_before(tmp_path):
    def look(row):
        if row["epoch"]:
            names = [path.name for path in (tmp_path / CHECKPOINT).iterdir()]
            assert names == [f"epoch_{row['epoch']:04d}"]
            assert len((tmp_path / LOG).read_text().splitlines()) == row["epoch"] + 1

    Run(tmp_path).run(on_epoch=look)
    assert not (tmp_path / CHECKPOINT).exists()


# Which epoch is kept


def kept_epoch(tmp_path, values, criterion):
    """Train while the validation figures are `values`; return the epoch whose weights stay."""
    figures = iter([100.0, *values])
    run = Run(tmp_path, epochs=len(values), criterion=criterion)
    states = []

    def train_epoch(epoch):
        row = Run.train_epoch(run, epoch)
        states.append(run.weights().clone())
        return row

    run.run(train_epoch=train_epoch, validate=lambda: {"loss": next(figures)})
    load = Run(tmp_path, seed=5)
    checkpoints.load_weights(tmp_path / WEIGHTS, load.model, "linear")
    assert torch.equal(load.weights(), run.weights()), "the model holds other weights"
    (epoch,) = (i + 1 for i, state in enumerate(states) if torch.equal(state, run.weights()))
    return epoch


@pytest.mark.parametrize(
    ("values", "criterion", "epoch"),
    [
        ([5.0, 3.0, 4.0], None, 3),
        ([5.0, 3.0, 4.0], "loss", 2),
        ([3.0, 4.0, 5.0], "loss", 1),
        ([5.0, 4.0, 3.0], "loss", 3),
        ([5.0, 3.0, 3.0, 4.0], "loss", 3),  # the latest of equals
        ([200.0, 150.0, 300.0], "loss", 2),  # the state before training (100) is left out
    ],
)
def test_kept_epoch(tmp_path, values, criterion, epoch):
    assert kept_epoch(tmp_path, values, criterion) == epoch


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_kept_epoch_survives_a_stop(tmp_path, stop):
    """The best epoch came before the stop, its weights from before are what is kept."""
    values = {0: 9.0, 1: 1.0, 2: 3.0, 3: 2.0}

    def run_once(folder, stop_at):
        run = Run(folder, epochs=3, criterion="loss")
        state = {"epoch": 0}

        def train_epoch(epoch):
            state["epoch"] = epoch
            row = run.train_epoch(epoch)
            if epoch == stop_at:
                raise Stop
            return row

        # A stopped run starts again in a new process: the epoch is known from the training.
        run.run(train_epoch=train_epoch, validate=lambda: {"loss": values[state["epoch"]]})

    run_once(tmp_path / "whole", None)
    with pytest.raises(Stop):
        run_once(tmp_path / "stopped", stop)
    run_once(tmp_path / "stopped", None)
    assert result(tmp_path / "stopped") == result(tmp_path / "whole")


# Stopped and started again


def stop_at(monkeypatch, number, when):
    """Let the `number`th call that touches the disk end the run; return the list of calls.

    `when`: before the call, after it, or halfway (a file cut in two, a folder half deleted).
    """
    calls = []

    def watch(owner, name, halfway):
        original = getattr(owner, name)

        def watched(*args, **kwargs):
            calls.append(name)
            if len(calls) != number:
                return original(*args, **kwargs)
            if when == "halfway":
                halfway(original, *args, **kwargs)
            if when == "after":
                original(*args, **kwargs)
            raise Stop

        monkeypatch.setattr(owner, name, watched)

    def cut_file(original, state, path, *args, **kwargs):
        original(state, path, *args, **kwargs)
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) // 2)

    def cut_text(original, path, text):
        original(path, text[: len(text) // 2])

    def delete_half(original, folder, *args, **kwargs):
        for path in sorted(folder.rglob("*.json")):
            path.unlink()

    def nothing(original, *args, **kwargs):
        return None

    watch(os, "replace", nothing)
    watch(os, "link", nothing)
    watch(shutil, "rmtree", delete_half)
    watch(torch, "save", cut_file)
    watch(checkpoints, "save_file", cut_file)
    watch(Path, "write_text", cut_text)
    return calls


def count_disk_calls(folder):
    with pytest.MonkeyPatch.context() as patch:
        calls = stop_at(patch, 0, "never")
        Run(folder).run()
    return len(calls)


@pytest.mark.parametrize("when", ["before", "halfway", "after"])
def test_run_stopped_at_any_disk_access_ends_with_the_same_bytes(undisturbed, tmp_path, when):
    total = count_disk_calls(tmp_path / "count")
    assert total >= 6 * EPOCHS
    for number in range(1, total + 1):
        folder = tmp_path / str(number)
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, number, when)
            with pytest.raises(Stop):
                Run(folder).run()
        again = Run(folder)
        history = again.run()
        assert history == undisturbed[1], f"stopped at call {number}"
        assert torch.equal(again.weights(), undisturbed[0].weights()), f"stopped at call {number}"
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)  # the final clean-up was stopped
        assert result(folder) == undisturbed[2], f"stopped at call {number}"


@pytest.mark.parametrize("when", ["before", "halfway", "after"])
def test_another_run_starts_after_one_that_was_stopped_anywhere(undisturbed, tmp_path, when):
    """Whatever a killed run left behind must not end a run with other settings."""
    total = count_disk_calls(tmp_path / "count")
    for number in range(1, total + 1):
        folder = tmp_path / str(number)
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, number, when)
            with pytest.raises(Stop):
                Run(folder, identity={"kind": "another"}).run()
        again = Run(folder)
        assert again.run() == undisturbed[1], f"stopped at call {number}"
        assert again.trained == [1, 2, 3, 4]
        assert result(folder) == undisturbed[2], f"stopped at call {number}"


def test_every_access_can_be_stopped_on_the_way_back_too(undisturbed, tmp_path):
    """Stopped in the middle, then stopped again at each access of the second start."""
    number = 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        with pytest.raises(Stop):
            Run(folder).run(on_epoch=lambda row: stop_if(row["epoch"] == 2))
        with pytest.MonkeyPatch.context() as patch:
            calls = stop_at(patch, number, "halfway")
            try:
                Run(folder).run()
            except Stop:
                pass
            else:
                break
        Run(folder).run()
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
        assert result(folder) == undisturbed[2], f"stopped at call {number}"
    assert number > len(calls) > 10


def stop_if(condition):
    if condition:
        raise Stop


def test_resumed_run_trains_only_what_is_missing(undisturbed, tmp_path):
    with pytest.raises(Stop):
        Run(tmp_path).run(on_epoch=lambda row: stop_if(row["epoch"] == 3))
    again = Run(tmp_path)
    assert again.run() == undisturbed[1]
    assert again.trained == [4] and [row["epoch"] for row in again.seen] == [4]


# Finished before


def test_finished_run_is_not_computed_again(undisturbed, tmp_path):
    Run(tmp_path).run()
    before = result(tmp_path)
    again = Run(tmp_path, seed=9)

    def never(*args):
        raise AssertionError("computed again")

    assert again.run(train_epoch=never, validate=never) == undisturbed[1]
    assert torch.equal(again.weights(), undisturbed[0].weights())
    assert result(tmp_path) == before


def test_another_identity_starts_afresh(undisturbed, tmp_path):
    Run(tmp_path, identity={"kind": "another"}, epochs=2).run()
    with pytest.raises(Stop):
        Run(tmp_path, identity={"kind": "third"}).run(
            on_epoch=lambda row: stop_if(row["epoch"] == 2)
        )
    again = Run(tmp_path)
    assert again.run() == undisturbed[1]
    assert again.trained == [1, 2, 3, 4]
    assert result(tmp_path) == undisturbed[2]


def test_first_run_is_not_finished_by_the_log_of_another(undisturbed, tmp_path):
    """Run A ends, run B in the same folder is stopped: A's weights lie beside B's log."""
    Run(tmp_path).run()
    with pytest.raises(Stop):
        Run(tmp_path, identity={"kind": "another"}).run(
            on_epoch=lambda row: stop_if(row["epoch"] == 1)
        )
    again = Run(tmp_path)
    assert again.run() == undisturbed[1]
    assert torch.equal(again.weights(), undisturbed[0].weights())
    assert result(tmp_path) == undisturbed[2]


def test_weights_without_log_are_no_finished_run(undisturbed, tmp_path):
    Run(tmp_path).run()
    (tmp_path / LOG).unlink()
    Run(tmp_path).run()
    assert result(tmp_path) == undisturbed[2]


def test_damaged_result_is_an_error(tmp_path):
    Run(tmp_path).run()
    path = tmp_path / WEIGHTS
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"weights\.safetensors is cut short or damaged.*delete"):
        Run(tmp_path).run()


# Losses that are no numbers, disks that are full


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("key", ["train_loss", "validation_loss"])
def test_loss_that_is_not_finite_names_its_epoch(tmp_path, key, value):
    run = Run(tmp_path / "run7")

    def train_epoch(epoch):
        row = run.train_epoch(epoch)
        return row | ({key: value} if epoch == 3 and key == "train_loss" else {})

    def validate():
        row = run.validate()
        return row | ({key: value} if run.trained[-1:] == [3] and key != "train_loss" else {})

    text = f"training: {key} is {value} in epoch 3 of run7; lower the learning rate .*is kept"
    with pytest.raises(FloatingPointError, match=text):
        run.run(train_epoch=train_epoch, validate=validate)
    assert [path.name for path in (tmp_path / "run7" / CHECKPOINT).iterdir()] == ["epoch_0002"]
    assert len((tmp_path / "run7" / LOG).read_text().splitlines()) == 3
    again = Run(tmp_path / "run7")
    again.run()
    assert again.trained == [3, 4]


def test_full_disk_is_an_error_before_any_work(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=3 * 2**20)
    monkeypatch.setattr(paths.shutil, "disk_usage", lambda folder: usage)
    run = Run(tmp_path)
    with pytest.raises(OSError, match=r"disk: 3 MB are free at .*; this step writes up to \d+ MB"):
        run.run()
    assert run.trained == [] and run.seen == []


def test_stop_at_really_stops(tmp_path):
    """The tests above would be worth nothing if the run did not notice."""
    with pytest.MonkeyPatch.context() as patch:
        calls = stop_at(patch, 3, "before")
        with pytest.raises(Stop):
            Run(tmp_path).run()
    assert len(calls) == 3
    assert training.shutil is shutil and training.os is os

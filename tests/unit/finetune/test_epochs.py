"""The loop of all trainings on a linear model: what is logged, kept and resumed, what ends it."""

from __future__ import annotations

import itertools
import math
import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from relevit.finetune import epochs
from relevit.finetune.epochs import (
    CHECKPOINT,
    EPOCHS,
    LOG,
    WEIGHTS,
    descend,
    epoch_file,
    epoch_plan,
    fit,
    train_epochs,
)
from relevit.models import checkpoints

LAST = 4  # epochs of a run
FIGURE = "validation_loss"


class Stop(BaseException):
    """Ends a run at once, like a kill; not an Exception, so that nothing catches it."""


class Run:
    """A linear model with AdamW; every epoch's data come from its number alone."""

    def __init__(self, folder, seed=0, **options):
        torch.manual_seed(seed)
        self.model = nn.Linear(3, 2)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.folder, self.trained = folder, []
        self.options = {"identity": {"lr": 0.1}, "epochs": LAST, "architecture": "linear"} | options

    def batches(self, epoch):
        self.trained.append(epoch)
        random = np.random.default_rng([7, epoch])
        return [torch.from_numpy(random.normal(size=(4, 3))).float() for _ in range(3)]

    def step(self, x):
        return descend(self.optimizer, {"loss": (self.model(x) - x[:, :2]).square().mean()})

    def validate(self):
        with torch.no_grad():
            return {FIGURE: float(self.model(torch.eye(3)).square().mean())}

    def run(self, **callbacks):
        options = {"validate": self.validate, "rate": lambda e, p, n: 0.9 ** (3 * e + p)}
        options |= self.options | callbacks
        return fit(self.model, self.optimizer, self.folder, self.batches, self.step, **options)

    def stop(self, epoch, **callbacks):
        """Run and be stopped behind this epoch's checkpoint."""

        def on_epoch(row):
            if row["epoch"] == epoch:
                raise Stop

        with pytest.raises(Stop):
            self.run(on_epoch=on_epoch, **callbacks)

    def weights(self):
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def stored(path):
    load = Run(None, seed=5)
    checkpoints.load_weights(path, load.model, "linear")
    return load.weights()


def result(folder, kept=False):
    """The bytes that a finished run leaves, and nothing else may lie beside them."""
    assert {path.name for path in folder.iterdir()} == {WEIGHTS, LOG, *([EPOCHS] if kept else ())}
    epochs = [epoch_file(folder, epoch) for epoch in range(LAST + 1)] if kept else []
    assert not kept or sorted((folder / EPOCHS).iterdir()) == epochs
    return {path.name: path.read_bytes() for path in (folder / WEIGHTS, folder / LOG, *epochs)}


@pytest.fixture(autouse=True)
def a_checkpoint_each_epoch(monkeypatch):
    monkeypatch.setattr(epochs, "CHECKPOINT_S", 0.0)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Runs that nothing disturbed, the second with the weights of every epoch."""
    runs = []
    for kept in (False, True):
        run = Run(tmp_path_factory.mktemp("undisturbed"), keep_epochs=kept)
        runs.append((run, run.run(), result(run.folder, kept)))
    return runs


# What is logged and kept


@pytest.mark.parametrize(
    ("values", "criterion", "epoch"),
    [
        ([5.0, 3.0, 4.0, 6.0], None, 4),
        ([5.0, 3.0, 3.0, 4.0], FIGURE, 3),  # the latest of equals
        ([200.0, 150.0, 300.0, 400.0], FIGURE, 2),  # the state before training (100) is left out
    ],
)
@pytest.mark.parametrize("stop", [None, 1, 3])
def test_kept_epoch(undisturbed, tmp_path, values, criterion, epoch, stop):
    """Its weights are in the file and the model, beside every epoch's, also after a stop."""
    for stopped in [stop, None] if stop else [None]:
        run = Run(tmp_path, criterion=criterion, keep_epochs=True)
        figures = iter([100.0, *values] if stopped or not stop else values[stop:])
        how = {"validate": lambda figures=figures: {FIGURE: next(figures)}}
        run.stop(stopped, **how) if stopped else run.run(**how)
    every = undisturbed[True][0].folder
    for path in (tmp_path / WEIGHTS, epoch_file(tmp_path, epoch), epoch_file(every, epoch)):
        assert torch.equal(stored(path), run.weights())
    assert not run.model.training


def test_losses_are_means_over_the_steps_that_have_them_and_rates_shares_of_the_groups_own():
    run, rates = Run(None), []
    run.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))], "lr": 8.0})

    def step(x):
        rates.append([group["lr"] for group in run.optimizer.param_groups])
        return {"rare": 7.0, "loss": 1.0} if len(rates) == 2 else {"loss": 4.0}

    how = {"rate": lambda epoch, place, steps: epoch + place / steps}
    first, second = train_epochs(run.model, run.optimizer, run.batches, step, [1, 2], **how)
    assert first == {"epoch": 1, "train_loss": 3.0, "train_rare": 7.0}
    assert second == {"epoch": 2, "train_loss": 4.0}
    shares = [1, 4 / 3, 5 / 3, 2, 7 / 3, 8 / 3]
    assert rates == [pytest.approx([0.1 * share, 8 * share]) for share in shares]


@pytest.mark.parametrize(
    ("key", "value"), [("train_loss", math.nan), ("validation_loss", math.inf)]
)
def test_loss_that_is_not_finite_names_its_epoch(tmp_path, key, value):
    run = Run(tmp_path / "run7")

    def spoilt(numbers, name):
        return numbers | ({name: value} if name in key and run.trained[-1:] == [3] else {})

    real, run.step = run.step, lambda x: spoilt(real(x), "loss" if "train" in key else "no loss")
    text = f"training: {key} is {value} in epoch 3 of run7; lower the learning rate .*is kept"
    with pytest.raises(FloatingPointError, match=text):
        run.run(validate=lambda: spoilt(run.validate(), FIGURE))
    assert len((tmp_path / "run7" / LOG).read_text().splitlines()) == 3
    again = Run(tmp_path / "run7")
    again.run()
    assert again.trained == [3, 4]


def test_epoch_plan_is_the_same_each_time_and_differs_by_epoch_and_seed():
    def plan(*args):
        return [(rows.tolist(), rng.random()) for rows, rng in epoch_plan(10, 4, *args)]

    assert plan(0, 1) == plan(0, 1)
    plans = [plan(0, 1), plan(0, 2), plan(1, 1), plan(1, 2)]
    for i in range(2):  # the order of the images, and the random numbers of the batches
        drawn = {tuple(map(str, (batch[i] for batch in batches))) for batches in plans}
        assert len(drawn) == 4
    for batches in plans:
        assert [len(rows) for rows, _ in batches] == [4, 4, 2]
        assert sorted(row for rows, _ in batches for row in rows) == list(range(10))
        assert len({draw for _, draw in batches}) == 3, "batches share their random numbers"


# Stopped anywhere


def watch_disk(monkeypatch, number):
    """Let the `number`th call that touches the disk end the run halfway: a file cut in two, a
    folder half deleted."""
    calls = []

    def watch(owner, name, halfway):
        original = getattr(owner, name)

        def watched(*args, **options):
            calls.append(name)
            if len(calls) != number:
                return original(*args, **options)
            halfway(original, *args, **options)
            raise Stop

        monkeypatch.setattr(owner, name, watched)

    def cut_file(original, state, path, *args, **options):
        original(state, path, *args, **options)
        cut(path)

    def cut_text(original, path, text, **options):
        original(path, text[: len(text) // 2], **options)

    def delete_half(original, folder, *args, **options):
        for path in sorted(folder.rglob("*1.safetensors")):
            path.unlink()

    def nothing(original, *args, **options):
        return None

    watch(os, "replace", nothing)
    watch(shutil, "rmtree", delete_half)
    watch(torch, "save", cut_file)
    watch(checkpoints, "save_file", cut_file)
    watch(Path, "write_text", cut_text)
    watch(Path, "unlink", nothing)


@pytest.mark.filterwarnings("error")  # a kill damages no file
@pytest.mark.parametrize(
    ("kept", "other"),
    [
        (False, {}),
        (True, {}),
        (True, {"identity": {"kind": "another"}, "seed": 3, "epochs": LAST + 1}),
    ],
)
def test_run_stopped_at_any_disk_access_ends_with_the_same_bytes(
    undisturbed, tmp_path, kept, other
):
    """Also where another run in the folder of a finished one was stopped."""
    run, history, files = undisturbed[kept]
    options, number, stopped = {"keep_epochs": kept} | other, 0, True
    while stopped:
        number, stopped = number + 1, False
        folder = tmp_path / str(number)
        if other:
            shutil.copytree(run.folder, folder)
        with pytest.MonkeyPatch.context() as patch:
            watch_disk(patch, number)
            try:
                Run(folder, **options).run()
            except Stop:
                stopped = True
        again = Run(folder, keep_epochs=kept)
        assert again.run() == history, f"stopped at call {number}"
        assert torch.equal(again.weights(), run.weights()), f"stopped at call {number}"
        assert result(folder, kept) == files, f"stopped at call {number}"
    assert number > 4 * LAST


@pytest.mark.parametrize(("stop", "trained"), [(2, [1, 2, 3, 4]), (3, [4]), (4, [4])])
def test_checkpoints_are_a_minute_apart_and_a_run_goes_on_from_the_last(
    undisturbed, tmp_path, monkeypatch, stop, trained
):
    clock = itertools.count(step=25)  # seconds from one look at it to the next: an epoch each
    monkeypatch.setattr(epochs, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(epochs, "CHECKPOINT_S", 60.0)
    Run(tmp_path).stop(stop)
    again = Run(tmp_path)
    assert again.run() == undisturbed[0][1] and again.trained == trained
    assert result(tmp_path) == undisturbed[0][2]


# Finished before, another run, or files that are damaged or gone


def no_number(path):
    """What one bit can make of a weight, and the file is whole all the same."""
    path.write_bytes(path.read_bytes()[:-4] + bytes.fromhex("0000c07f"))


FIRST, FINAL = (epoch_file(Path(), epoch) for epoch in (0, LAST))
FOUND = [  # where a run has stopped (None: finished), what was done to which file, epochs trained
    (None, None, None, []),
    (2, None, None, [3, 4]),
    (2, cut, CHECKPOINT, [1, 2, 3, 4]),
    (None, cut, WEIGHTS, [1, 2, 3, 4]),
    (None, no_number, WEIGHTS, [1, 2, 3, 4]),
    (None, cut, LOG, [1, 2, 3, 4]),
    (None, Path.unlink, LOG, [1, 2, 3, 4]),
    (LAST, Path.unlink, LOG, []),
    *((at, Path.unlink, one, [1, 2, 3, 4]) for at in (None, LAST) for one in (FIRST, FINAL)),
]


@pytest.mark.parametrize(("stop", "damage", "name", "trained"), FOUND)
def test_a_run_goes_on_from_what_is_whole_and_names_what_does_not_load(
    undisturbed, tmp_path, stop, damage, name, trained
):
    run, history, files = undisturbed[True]
    begun = Run(tmp_path, keep_epochs=True)
    begun.stop(stop) if stop else begun.run()
    if damage:
        damage(tmp_path / name)
    again = Run(tmp_path, keep_epochs=True)
    told = rf"training: .*{name}.*; the run begins anew"
    with pytest.warns(UserWarning, match=told) if damage in (cut, no_number) else nullcontext():
        assert again.run() == history
    assert again.trained == trained and torch.equal(again.weights(), run.weights())
    assert result(tmp_path, kept=True) == files


@pytest.mark.parametrize("stop", [None, 1])
@pytest.mark.parametrize(
    "other",
    [
        {"identity": {"kind": "another"}},
        {"architecture": "linear-2"},
        {"identity": {}, "epochs": 2},
    ],
)
def test_another_run_starts_afresh(undisturbed, tmp_path, other, stop):
    before = Run(tmp_path, **other)
    before.stop(stop) if stop else before.run()
    again = Run(tmp_path)
    assert again.run() == undisturbed[0][1] and again.trained == [1, 2, 3, 4]
    assert result(tmp_path) == undisturbed[0][2]


@pytest.mark.parametrize("stop", [2, 3])
def test_a_stopped_run_that_is_asked_for_more_figures_begins_anew(undisturbed, tmp_path, stop):
    Run(tmp_path, validated=(1,)).stop(stop - 1)
    less = Run(tmp_path, validated=(1, 4))
    assert [sorted(row) for row in less.run()][::4] == [["epoch"], sorted(undisturbed[0][1][4])]
    assert less.trained == list(range(stop, 5)), "what is there is enough"
    more = Run(tmp_path)
    assert more.run() == undisturbed[0][1] and more.trained == [1, 2, 3, 4]
    assert result(tmp_path) == undisturbed[0][2]


def test_a_finished_run_that_is_asked_for_more_figures_gets_them(undisturbed, tmp_path):
    """With those that it had, too: a run may be asked by two."""
    plain = Run(tmp_path, validated=()).run()
    assert not any(FIGURE in row for row in plain)
    logs = [Run(tmp_path, validated=asked).run() for asked in ((1,), (0, 3), (0, 1), None)]
    had = [[row["epoch"] for row in log if FIGURE in row] for log in logs]
    assert had == [[1], [0, 1, 3], [0, 1, 3], [0, 1, 2, 3, 4]]
    assert result(tmp_path) == undisturbed[0][2]

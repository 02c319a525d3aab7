"""Training of a linear model: what is logged, which epoch is kept, what ends a run."""

from __future__ import annotations

import math

import pytest
import torch

from relevit.models import checkpoints
from relevit.training.epochs import LOG, WEIGHTS, epoch_file, epoch_plan

from ..linear_run import Run, Stop, result, stop_if, undisturbed_run


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed") / "run")


# Every epoch kept


def test_weights_of_every_epoch_are_kept_on_request(undisturbed, tmp_path):
    run, states = Run(tmp_path, keep_epochs=True), []
    start = run.weights().clone()

    def train_epoch(epoch):
        row = run.train_epoch(epoch)
        states.append(run.weights().clone())
        return row

    history = run.run(train_epoch=train_epoch)
    assert history == undisturbed[1]
    files = result(tmp_path, kept=True)
    assert {name: files[name] for name in undisturbed[2]} == undisturbed[2], "only more is written"
    for epoch, state in enumerate([start, *states]):
        load = Run(tmp_path, seed=5)
        checkpoints.load_weights(epoch_file(tmp_path, epoch), load.model, "linear")
        assert torch.equal(load.weights(), state), epoch


# Which epoch is kept

FIGURE = "validation_loss"


@pytest.mark.parametrize(
    ("values", "criterion", "epoch"),
    [
        ([5.0, 3.0, 4.0], None, 3),
        ([5.0, 3.0, 4.0], FIGURE, 2),
        ([3.0, 4.0, 5.0], FIGURE, 1),
        ([5.0, 4.0, 3.0], FIGURE, 3),
        ([5.0, 3.0, 3.0, 4.0], FIGURE, 3),  # the latest of equals
        ([200.0, 150.0, 300.0], FIGURE, 2),  # the state before training (100) is left out
    ],
)
def test_kept_epoch(tmp_path, values, criterion, epoch):
    """Its weights are in the file and in the model, and those of every epoch beside it."""
    figures = iter([100.0, *values])
    run = Run(tmp_path, epochs=len(values), criterion=criterion, keep_epochs=True)
    run.run(validate=lambda: {FIGURE: next(figures)})
    for path in (tmp_path / WEIGHTS, epoch_file(tmp_path, epoch)):
        load = Run(tmp_path, seed=5)
        checkpoints.load_weights(path, load.model, "linear")
        assert torch.equal(load.weights(), run.weights())


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_kept_epoch_survives_a_stop(tmp_path, stop):
    """The best epoch came before the stop, its weights from before are what is kept."""
    values = {0: 9.0, 1: 1.0, 2: 3.0, 3: 2.0}

    def run_once(folder, stop_at):
        run = Run(folder, epochs=3, criterion=FIGURE)
        state = {"epoch": 0}

        def train_epoch(epoch):
            state["epoch"] = epoch
            row = run.train_epoch(epoch)
            if epoch == stop_at:
                raise Stop
            return row

        # A stopped run starts again in a new process: the epoch is known from the training.
        run.run(train_epoch=train_epoch, validate=lambda: {FIGURE: values[state["epoch"]]})

    run_once(tmp_path / "whole", None)
    with pytest.raises(Stop):
        run_once(tmp_path / "stopped", stop)
    run_once(tmp_path / "stopped", None)
    assert result(tmp_path / "stopped") == result(tmp_path / "whole")


@pytest.mark.parametrize("stop", [2, 3])
def test_a_stopped_run_that_is_asked_for_more_figures_begins_anew(undisturbed, tmp_path, stop):
    run = Run(tmp_path, validated=(1,))

    def train_epoch(epoch):
        stop_if(epoch == stop)
        return run.train_epoch(epoch)

    with pytest.raises(Stop):
        run.run(train_epoch=train_epoch)
    less = Run(tmp_path, validated=(1, 4))
    assert [sorted(row) for row in less.run()][::4] == [["epoch"], sorted(undisturbed[1][4])]
    assert less.trained == list(range(stop, 5)), "what is there is enough"
    more = Run(tmp_path)
    assert more.run() == undisturbed[1] and more.trained == [1, 2, 3, 4]
    assert result(tmp_path) == undisturbed[2]


# Losses that are no numbers, disks that are full


@pytest.mark.parametrize(
    ("key", "value"), [("train_loss", math.nan), ("validation_loss", math.inf)]
)
def test_loss_that_is_not_finite_names_its_epoch(tmp_path, key, value):
    run = Run(tmp_path / "run7")

    def spoilt(row):
        return row | ({key: value} if key in row and run.trained[-1:] == [3] else {})

    text = f"training: {key} is {value} in epoch 3 of run7; lower the learning rate .*is kept"
    with pytest.raises(FloatingPointError, match=text):
        run.run(
            train_epoch=lambda epoch: spoilt(run.train_epoch(epoch)),
            validate=lambda: spoilt(run.validate()),
        )
    assert len((tmp_path / "run7" / LOG).read_text().splitlines()) == 3
    again = Run(tmp_path / "run7")
    again.run()
    assert again.trained == [3, 4]


# The order of the images


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

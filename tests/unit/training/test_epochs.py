"""Runs that keep the weights of every epoch: stopped anywhere, they end with the same bytes."""

from __future__ import annotations

import shutil

import pytest
import torch

from relevit.training.epochs import CHECKPOINT, epoch_file, epoch_plan

from ..linear_run import (
    EPOCHS,
    Run,
    Stop,
    count_disk_calls,
    refuse_links,
    result,
    stop_at,
    stop_if,
    undisturbed_run,
)


@pytest.fixture(scope="module")
def with_epochs(tmp_path_factory):
    """A run that keeps the weights of every epoch."""
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed") / "run", kept=True)


@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
def test_epochs_of_a_run_stopped_anywhere_are_the_same_bytes(
    with_epochs, tmp_path, monkeypatch, links
):
    """A stop between an epoch's checkpoint and its copy is among them."""
    if not links:
        refuse_links(monkeypatch)
    total = count_disk_calls(tmp_path / "count", keep_epochs=True)
    for number in range(1, total + 1):
        folder = tmp_path / str(number)
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, number, "halfway")
            with pytest.raises(Stop):
                Run(folder, keep_epochs=True).run()
        again = Run(folder, keep_epochs=True)
        assert again.run() == with_epochs[1], f"stopped at call {number}"
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)  # the final clean-up was stopped
        assert result(folder, kept=True) == with_epochs[2], f"stopped at call {number}"


def test_epochs_of_another_run_never_pass_for_those_of_a_finished_one(with_epochs, tmp_path):
    """Run A ends, a longer run B in its folder is stopped anywhere, A is asked for again."""
    other = {"identity": {"kind": "another"}, "seed": 3, "keep_epochs": True, "epochs": EPOCHS + 1}
    total = count_disk_calls(tmp_path / "count", **other)
    for number in range(1, total + 1):
        folder = tmp_path / str(number)
        shutil.copytree(with_epochs[0].folder, folder)
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, number, "halfway")
            with pytest.raises(Stop):
                Run(folder, **other).run()
        assert Run(folder, keep_epochs=True).run() == with_epochs[1], f"stopped at call {number}"
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
        assert result(folder, kept=True) == with_epochs[2], f"stopped at call {number}"


def test_finished_run_with_its_epochs_is_not_computed_again(with_epochs, tmp_path):
    shutil.copytree(with_epochs[0].folder, tmp_path / "run")
    again = Run(tmp_path / "run", seed=9, keep_epochs=True)
    assert again.run() == with_epochs[1] and again.trained == []
    assert torch.equal(again.weights(), with_epochs[0].weights())


@pytest.mark.parametrize("lost", [[0], [2], [EPOCHS], range(EPOCHS + 1)])
def test_run_whose_epochs_were_deleted_is_made_again(with_epochs, tmp_path, lost):
    folder = tmp_path / "run"
    shutil.copytree(with_epochs[0].folder, folder)
    for epoch in lost:
        epoch_file(folder, epoch).unlink()
    again = Run(folder, keep_epochs=True)
    assert again.run() == with_epochs[1] and again.trained == [1, 2, 3, 4]
    assert result(folder, kept=True) == with_epochs[2]


@pytest.mark.parametrize(("lost", "trained"), [(1, [1, 2, 3, 4]), (2, [3, 4])])
def test_stopped_run_goes_on_only_if_its_epochs_are_all_there(with_epochs, tmp_path, lost, trained):
    """The newest one is in the checkpoint, too."""
    with pytest.raises(Stop):
        Run(tmp_path, keep_epochs=True).run(on_epoch=lambda row: stop_if(row["epoch"] == 2))
    epoch_file(tmp_path, lost).unlink()
    again = Run(tmp_path, keep_epochs=True)
    assert again.run() == with_epochs[1] and again.trained == trained
    assert result(tmp_path, kept=True) == with_epochs[2]


@pytest.mark.parametrize("stopped", [False, True])
def test_epochs_can_be_asked_for_later(with_epochs, tmp_path, stopped):
    try:
        Run(tmp_path).run(on_epoch=lambda row: stop_if(stopped and row["epoch"] == 2))
    except Stop:
        assert stopped
    again = Run(tmp_path, keep_epochs=True)
    assert again.run() == with_epochs[1] and again.trained == [1, 2, 3, 4]
    assert result(tmp_path, kept=True) == with_epochs[2]


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

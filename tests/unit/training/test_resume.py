"""Checkpoints and resume on a linear model: stopped anywhere, a run ends with the same bytes."""

from __future__ import annotations

import os
import shutil

import pytest
import torch

from relevit.training import epochs as training
from relevit.training.epochs import CHECKPOINT, LOG, WEIGHTS

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
def undisturbed(tmp_path_factory):
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed") / "run")


# Stopped and started again


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


def test_resumed_run_trains_only_what_is_missing(undisturbed, tmp_path):
    with pytest.raises(Stop):
        Run(tmp_path).run(on_epoch=lambda row: stop_if(row["epoch"] == 3))
    again = Run(tmp_path)
    assert again.run() == undisturbed[1]
    assert again.trained == [4] and [row["epoch"] for row in again.seen] == [4]


def test_stop_at_really_stops(tmp_path):
    """The tests above would be worth nothing if the run did not notice."""
    with pytest.MonkeyPatch.context() as patch:
        calls = stop_at(patch, 3, "before")
        with pytest.raises(Stop):
            Run(tmp_path).run()
    assert len(calls) == 3
    assert training.shutil is shutil and training.os is os


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


# What a kill leaves beside the run


def test_cut_off_writes_are_removed(tmp_path, undisturbed):
    (tmp_path / f".{WEIGHTS}.4321.tmp").write_bytes(b"half")
    assert Run(tmp_path).run() == undisturbed[1]
    assert result(tmp_path) == undisturbed[2]


def test_rest_of_a_checkpoint_beside_a_finished_run_is_removed(tmp_path, undisturbed):
    Run(tmp_path).run()
    (tmp_path / CHECKPOINT / ".epoch_0004.old").mkdir(parents=True)
    again = Run(tmp_path)
    assert again.run() == undisturbed[1] and again.trained == []
    assert result(tmp_path) == undisturbed[2]


def test_disk_without_hard_links(tmp_path, undisturbed, monkeypatch):
    refuse_links(monkeypatch)
    Run(tmp_path).run()
    assert result(tmp_path) == undisturbed[2]


def test_another_architecture_is_another_run(tmp_path):
    Run(tmp_path).run()
    other = Run(tmp_path, architecture="linear-2")
    other.run()
    assert other.trained == list(range(1, EPOCHS + 1))

"""Checkpoints and resume on a linear model: stopped anywhere, a run ends with the same bytes."""

from __future__ import annotations

import os
import shutil

import pytest
import torch

from relevit.training.epochs import CHECKPOINT, LOG, WEIGHTS, epoch_file

from ..linear_run import (
    EPOCHS,
    Run,
    Stop,
    count_disk_calls,
    result,
    stop_at,
    stop_if,
    undisturbed_run,
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Runs that nothing disturbed, the second with the weights of every epoch."""
    return [
        undisturbed_run(tmp_path_factory.mktemp("undisturbed") / "run", kept)
        for kept in (False, True)
    ]


def stopped_at_each_call(tmp_path, when, before=None, **options):
    """Folders of runs, each stopped at another access to the disk; `before` lies in them."""
    for number in range(1, count_disk_calls(tmp_path / "count", **options) + 1):
        folder = tmp_path / str(number)
        if before is not None:
            shutil.copytree(before, folder)
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, number, when)
            with pytest.raises(Stop):
                Run(folder, **options).run()
        yield folder


def stopped_run(folder, epoch, **options):
    with pytest.raises(Stop):
        Run(folder, **options).run(on_epoch=lambda row: stop_if(row["epoch"] == epoch))


# Stopped and started again


@pytest.mark.filterwarnings("error")  # a kill damages no file
@pytest.mark.parametrize(("when", "kept"), [("halfway", False), ("halfway", True), ("after", True)])
def test_run_stopped_at_any_disk_access_ends_with_the_same_bytes(undisturbed, tmp_path, when, kept):
    run, history, files = undisturbed[kept]
    stops = 0
    for folder in stopped_at_each_call(tmp_path, when, keep_epochs=kept):
        stops += 1
        again = Run(folder, keep_epochs=kept)
        assert again.run() == history, f"stopped at call {folder.name}"
        assert torch.equal(again.weights(), run.weights()), f"stopped at call {folder.name}"
        assert result(folder, kept) == files, f"stopped at call {folder.name}"
    assert stops >= 4 * EPOCHS


@pytest.mark.parametrize("when", ["halfway"])
def test_another_run_stopped_anywhere_never_passes_for_a_finished_one(undisturbed, tmp_path, when):
    """Run A ends, a longer run B in its folder is stopped anywhere, A is asked for again."""
    run, history, files = undisturbed[True]
    other = {"identity": {"kind": "another"}, "seed": 3, "keep_epochs": True, "epochs": EPOCHS + 1}
    for folder in stopped_at_each_call(tmp_path, when, run.folder, **other):
        assert Run(folder, keep_epochs=True).run() == history, f"stopped at call {folder.name}"
        assert result(folder, kept=True) == files, f"stopped at call {folder.name}"


# Finished before, or another run


@pytest.mark.parametrize("kept", [False, True])
def test_finished_run_is_not_computed_again(undisturbed, tmp_path, kept):
    run, history, files = undisturbed[kept]
    shutil.copytree(run.folder, tmp_path / "run")
    again = Run(tmp_path / "run", seed=9, keep_epochs=kept)
    assert again.run() == history and again.trained == []
    assert torch.equal(again.weights(), run.weights())
    assert result(tmp_path / "run", kept) == files


@pytest.mark.parametrize(
    "other", [{"identity": {"kind": "another"}}, {"architecture": "linear-2"}, {"epochs": 2}]
)
@pytest.mark.parametrize("finished", [True, False])
def test_another_run_starts_afresh(undisturbed, tmp_path, other, finished):
    if finished:
        Run(tmp_path, **other).run()
    else:
        stopped_run(tmp_path, 1, **other)
    again = Run(tmp_path, identity={"kind": "linear", "lr": 0.1, "epochs": EPOCHS})
    again.run()
    assert again.trained == [1, 2, 3, 4]
    assert result(tmp_path)[LOG] == undisturbed[0][2][LOG]


# Files that are damaged or gone


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path):
    path.write_bytes(b"")


def no_number(path):
    """What one bit can make of a weight, and the file is whole all the same."""
    path.write_bytes(path.read_bytes()[:-4] + bytes.fromhex("0000c07f"))


@pytest.mark.parametrize(
    ("name", "damage"),
    [(CHECKPOINT, cut), (CHECKPOINT, emptied), (WEIGHTS, cut), (WEIGHTS, no_number), (LOG, cut)],
)
def test_a_file_that_does_not_load_is_named_and_its_run_made_again(
    undisturbed, tmp_path, name, damage
):
    run, history, files = undisturbed[0]
    if name == CHECKPOINT:
        stopped_run(tmp_path, 2)
    else:
        Run(tmp_path).run()
    damage(tmp_path / name)
    again = Run(tmp_path)
    with pytest.warns(UserWarning, match=rf"training: .*{name}.*; the run begins anew"):
        assert again.run() == history
    assert again.trained == [1, 2, 3, 4]
    assert torch.equal(again.weights(), run.weights())
    assert result(tmp_path) == files


@pytest.mark.parametrize("lost", [(LOG,), (0,), (EPOCHS,), range(EPOCHS + 1)])
@pytest.mark.parametrize("finished", [True, False])
def test_run_whose_files_were_deleted_is_made_again(undisturbed, tmp_path, lost, finished):
    _, history, files = undisturbed[True]
    folder = tmp_path / "run"
    if finished:
        shutil.copytree(undisturbed[True][0].folder, folder)
    else:
        stopped_run(folder, EPOCHS, keep_epochs=True)
    for entry in lost:
        (folder / LOG if entry == LOG else epoch_file(folder, entry)).unlink()
    again = Run(folder, keep_epochs=True)
    assert again.run() == history
    assert again.trained == ([] if lost == (LOG,) and not finished else [1, 2, 3, 4])
    assert result(folder, kept=True) == files

"""Checkpoints and resume on a linear model: stopped anywhere, a run ends with the same bytes."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch

from relevit.base.files import file_fingerprint
from relevit.training import epochs as training
from relevit.training.epochs import (
    CHECKPOINT,
    KEPT,
    LOG,
    OPTIMIZER,
    STATE,
    SUMS,
    WEIGHTS,
    epoch_file,
)

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

FILES = (WEIGHTS, KEPT, OPTIMIZER, STATE, SUMS)  # of a checkpoint


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed") / "run")


@pytest.fixture(scope="module")
def with_epochs(tmp_path_factory):
    """A run that keeps the weights of every epoch."""
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed") / "run", kept=True)


def expected(request, kept):
    """The run, history and files of one that nothing disturbed."""
    return request.getfixturevalue("with_epochs" if kept else "undisturbed")


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


# Stopped and started again


@pytest.mark.parametrize(
    ("when", "kept", "links"),
    [
        ("before", False, True),
        ("halfway", False, True),
        ("after", False, True),
        ("halfway", True, True),  # a stop between an epoch's checkpoint and its copy is among them
        ("halfway", True, False),
    ],
)
def test_run_stopped_at_any_disk_access_ends_with_the_same_bytes(
    request, tmp_path, monkeypatch, when, kept, links
):
    run, history, files = expected(request, kept)
    if not links:
        refuse_links(monkeypatch)
    stops = 0
    for folder in stopped_at_each_call(tmp_path, when, keep_epochs=kept):
        again = Run(folder, keep_epochs=kept)
        assert again.run() == history, f"stopped at call {folder.name}"
        assert torch.equal(again.weights(), run.weights()), f"stopped at call {folder.name}"
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)  # the final clean-up was stopped
        assert result(folder, kept) == files, f"stopped at call {folder.name}"
        stops += 1
    assert stops >= 6 * EPOCHS


@pytest.mark.parametrize("when", ["before", "halfway", "after"])
def test_another_run_starts_after_one_that_was_stopped_anywhere(undisturbed, tmp_path, when):
    """Whatever a killed run left behind must not end a run with other settings."""
    for folder in stopped_at_each_call(tmp_path, when, identity={"kind": "another"}):
        again = Run(folder)
        assert again.run() == undisturbed[1], f"stopped at call {folder.name}"
        assert again.trained == [1, 2, 3, 4]
        assert result(folder) == undisturbed[2], f"stopped at call {folder.name}"


def test_epochs_of_another_run_never_pass_for_those_of_a_finished_one(with_epochs, tmp_path):
    """Run A ends, a longer run B in its folder is stopped anywhere, A is asked for again."""
    other = {"identity": {"kind": "another"}, "seed": 3, "keep_epochs": True, "epochs": EPOCHS + 1}
    for folder in stopped_at_each_call(tmp_path, "halfway", with_epochs[0].folder, **other):
        again = Run(folder, keep_epochs=True).run()
        assert again == with_epochs[1], f"stopped at call {folder.name}"
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
        assert result(folder, kept=True) == with_epochs[2], f"stopped at call {folder.name}"


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


@pytest.mark.parametrize("kept", [False, True])
def test_finished_run_is_not_computed_again(request, tmp_path, kept):
    run, history, files = expected(request, kept)
    shutil.copytree(run.folder, tmp_path / "run")
    again = Run(tmp_path / "run", seed=9, keep_epochs=kept)

    def never(*args):
        raise AssertionError("computed again")

    assert again.run(train_epoch=never, validate=never) == history
    assert torch.equal(again.weights(), run.weights())
    assert result(tmp_path / "run", kept) == files


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


# Damaged files


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path):
    path.write_bytes(b"")


def one_bit_changed(path):
    """In the last byte: of the numbers in a file of weights, where nothing else would tell."""
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))


def lost(path):
    path.unlink()


def stopped_run(folder, epoch, **options):
    with pytest.raises(Stop):
        Run(folder, **options).run(on_epoch=lambda row: stop_if(row["epoch"] == epoch))
    (checkpoint,) = (folder / CHECKPOINT).iterdir()
    return checkpoint


def test_a_checkpoint_holds_these_files_and_a_sum_of_each(tmp_path):
    checkpoint = stopped_run(tmp_path, 2)
    assert {path.name for path in checkpoint.iterdir()} == set(FILES)
    sums = json.loads((checkpoint / SUMS).read_text())
    assert sums == {name: file_fingerprint(checkpoint / name) for name in FILES if name != SUMS}


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("damage", [cut, emptied, one_bit_changed, lost])
@pytest.mark.parametrize("name", FILES)
def test_run_with_a_damaged_checkpoint_begins_anew(request, tmp_path, name, damage, kept):
    run, history, files = expected(request, kept)
    checkpoint = stopped_run(tmp_path, 2, keep_epochs=kept)
    damage(checkpoint / name)
    told = r"safetensors" if name.endswith("safetensors") else name  # one may be the other's link
    again = Run(tmp_path, keep_epochs=kept)
    with pytest.warns(UserWarning, match=rf"training: .*epoch_0002.*{told}"):
        assert again.run() == history
    assert again.trained == [1, 2, 3, 4]
    assert torch.equal(again.weights(), run.weights())
    assert result(tmp_path, kept) == files


@pytest.mark.parametrize("name", FILES)
def test_run_with_a_damaged_checkpoint_goes_back_to_one_that_is_whole(undisturbed, tmp_path, name):
    """As after a kill before the older one was removed."""
    older = stopped_run(tmp_path / "run", 2)
    shutil.copytree(older, tmp_path / older.name)
    newer = stopped_run(tmp_path / "run", 3)
    shutil.copytree(tmp_path / older.name, older)
    cut(newer / name)
    again = Run(tmp_path / "run")
    with pytest.warns(UserWarning, match=r"epoch_0003.*goes on from its last whole checkpoint"):
        assert again.run() == undisturbed[1]
    assert again.trained == [3, 4]
    assert result(tmp_path / "run") == undisturbed[2]


@pytest.mark.parametrize("damage", [cut, emptied, one_bit_changed])
@pytest.mark.parametrize("name", [WEIGHTS, LOG])
def test_finished_run_with_a_damaged_file_is_made_again(undisturbed, tmp_path, name, damage):
    Run(tmp_path).run()
    if (name, damage) == (WEIGHTS, one_bit_changed):
        damage = no_number
    damage(tmp_path / name)
    again = Run(tmp_path)
    with pytest.warns(UserWarning, match=rf"training: .*{name} .*or begins anew"):
        assert again.run() == undisturbed[1]
    assert again.trained == [1, 2, 3, 4]
    assert torch.equal(again.weights(), undisturbed[0].weights())
    assert result(tmp_path) == undisturbed[2]


def no_number(path):
    """What one bit can make of a weight, and the file is whole all the same."""
    path.write_bytes(path.read_bytes()[:-4] + bytes.fromhex("0000c07f"))


@pytest.mark.filterwarnings("error")
def test_whole_files_give_no_warning(undisturbed, tmp_path):
    stopped_run(tmp_path, 2)
    Run(tmp_path).run()
    Run(tmp_path).run()
    with pytest.raises(Stop):  # another run, whose log lies beside the weights of the first
        Run(tmp_path, identity={"kind": "another"}).run(
            on_epoch=lambda row: stop_if(row["epoch"] == 1)
        )
    Run(tmp_path).run()
    assert result(tmp_path) == undisturbed[2]


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


# Every epoch kept


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

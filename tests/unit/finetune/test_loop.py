"""Relevance finetuning of a two-block ViT: what a run does, keeps and resumes, and a real kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest
import torch

from relevit.finetune.runs import kept_epoch

from .. import micro_finetuning
from ..micro_finetuning import (
    LONG,
    RESULT,
    SETTINGS,
    Stop,
    micro_model,
    result,
    run,
    stop,
    validate,
    weights,
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run that nothing disturbed: its history, weights and files."""
    folder, model = tmp_path_factory.mktemp("undisturbed"), micro_model()
    history = run(folder, model=model)
    return history, weights(model), result(folder)


# A run


def test_log_has_a_row_for_each_epoch(undisturbed):
    history = undisturbed[0]
    assert [row["epoch"] for row in history] == [0, 1, 2, 3]
    terms = {f"loss_{t}" for t in ("background", "foreground", "relevance", "classification")}
    terms |= {"loss_total"}
    assert set(history[0]) == {"epoch"} | {f"validation_{t}" for t in terms}
    assert set(history[1]) == set(history[0]) | {"lr"} | {f"train_{t}" for t in terms}
    assert len({row["train_loss_total"] for row in history[1:]}) == 3


def test_same_run_same_bytes(undisturbed, tmp_path):
    model = micro_model()
    assert run(tmp_path, model=model) == undisturbed[0]
    assert torch.equal(weights(model), undisturbed[1])
    assert result(tmp_path) == undisturbed[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(RESULT)


def test_model_trains_in_train_mode_and_is_validated_and_left_in_eval_mode(tmp_path):
    model, modes = micro_model(), []

    def check(model, settings):
        modes.append(("validated", model.training))
        return validate(model, settings)

    two = SETTINGS.changed(epochs=2)
    run(
        tmp_path,
        two,
        model=model,
        validate=check,
        after_step=lambda model: modes.append(("trained", model.training)),
    )
    steps = 3 * [("trained", True)]
    assert modes == [("validated", False)] + 2 * [*steps, ("validated", False)]
    assert not model.training


def test_steps_have_the_rate_of_the_epoch(undisturbed, tmp_path):
    assert [row["lr"] for row in undisturbed[0][1:]] == pytest.approx([1e-3, 1e-3, 0.85e-3])
    ends = []
    told = SETTINGS.changed(options={"decay": 1e-30}, keep="last")
    run(tmp_path, told, after_step=lambda model: ends.append(weights(model)))
    apart = [bool((a != b).any()) for a, b in pairwise(ends)]
    assert apart == 5 * [True] + 3 * [False], "the third epoch's rate is next to nothing"


@pytest.mark.parametrize(
    ("keep", "totals", "epoch"),
    [
        ("last", [3.0, 1.0, 2.0], 3),
        ("lowest_validation_loss", [3.0, 1.0, 2.0], 2),
        ("lowest_validation_loss", [3.0, 1.0, 1.0], 3),
        ("lowest_validation_loss", [8.0, 9.0, 9.5], 1),  # before training it was 5
    ],
)
def test_kept_epoch(tmp_path, keep, totals, epoch):
    states, figures = [], iter([5.0, *totals])

    def check(model, settings):
        states.append(weights(model))
        return {"loss_total": next(figures)}

    model = micro_model()
    history = run(tmp_path, SETTINGS.changed(keep=keep), model=model, validate=check)
    assert kept_epoch(history, keep) == epoch, "the learning-rate rule looks at another epoch"
    assert [torch.equal(state, weights(model)) for state in states].index(True) == epoch


def test_learning_rate_that_is_far_too_high_is_noticed(tmp_path):
    with pytest.raises(FloatingPointError, match=r"is (nan|inf) in epoch [12] of"):
        run(tmp_path, SETTINGS.changed(lr=1.0e30))


# Stopped and started again


@pytest.mark.parametrize("at", [1, 3, 5, 9])
def test_stopped_in_the_middle_of_an_epoch(undisturbed, tmp_path, at):
    """In the middle and at the ends of epochs; the next start has a new model."""
    taken = []

    def stop_later(model):
        taken.append(model)
        if len(taken) == at:
            raise Stop

    with pytest.raises(Stop):
        run(tmp_path, after_step=stop_later)
    model = micro_model()
    assert run(tmp_path, model=model) == undisturbed[0]
    assert torch.equal(weights(model), undisturbed[1])
    assert result(tmp_path) == undisturbed[2]


def test_finished_run_is_not_computed_again(undisturbed, tmp_path):
    run(tmp_path)
    model = micro_model(seed=8)
    assert run(tmp_path, model=model, validate=stop, after_step=stop) == undisturbed[0]
    assert torch.equal(weights(model), undisturbed[1])
    assert not model.training


@pytest.mark.parametrize(
    ("change", "finished"),
    [
        ({"lr": 2.0e-3}, False),
        ({"seed": 1}, True),
        ({"protocol": "described"}, True),
        ({"weights": {"background": 1.0}}, True),
        ({"inputs": {"origin": "elsewhere"}}, False),
    ],
)
def test_other_settings_start_afresh(undisturbed, tmp_path, change, finished):
    other = change if "inputs" in change else {"settings": SETTINGS.changed(**change)}
    if finished:
        run(tmp_path, **other)
    else:
        with pytest.raises(Stop):
            run(tmp_path, on_epoch=lambda row: stop() if row["epoch"] == 2 else None, **other)
    seen = []
    assert run(tmp_path, on_epoch=seen.append) == undisturbed[0]
    assert [row["epoch"] for row in seen] == [0, 1, 2, 3]
    assert result(tmp_path) == undisturbed[2]


# A real kill


class Server:
    """The other end of `micro_finetuning.serve`."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, micro_finetuning.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )

    def run(self, folder, kill_when=lambda words, folder: False):
        """Run to the end or to a kill; returns the exit code and the lines until then."""
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        lines, child, killed = [], None, False
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "ended":
                return int(words[1]), lines
            if words[0] == "child":
                child = int(words[1])
                continue
            lines.append(line.strip())
            if not killed and kill_when(lines, folder):
                os.kill(child, signal.SIGKILL)
                killed = True
        raise AssertionError(f"the process ended with {self.process.wait()} after {lines}")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module", autouse=True)
def server():
    """Started with the module's first test, so that it is ready when the last needs it."""
    server = Server()
    yield server
    server.close()


def in_the_middle_of_epoch_2(lines, folder):
    return lines[-3:] == ["epoch 1", "step", "step"]


def while_a_checkpoint_is_written(lines, folder):
    """Waits after epoch 4's last step until its file is being filled, or is there."""
    if lines[-4:] != ["epoch 3", "step", "step", "step"]:
        return False
    shown = folder / "checkpoint.pt"
    before, deadline = shown.stat().st_ino, time.monotonic() + 120
    while time.monotonic() < deadline:
        if list(folder.glob(".checkpoint.pt.*")) or shown.stat().st_ino != before:
            break
        time.sleep(0.0002)
    return True


def when_the_log_has_seven_rows(lines, folder):
    log = folder / "log.jsonl"
    return log.exists() and len(log.read_text().splitlines()) >= 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL and fork are POSIX")
def test_run_killed_three_times_ends_with_the_same_bytes(server, tmp_path):
    assert server.run(tmp_path / "whole") == (0, server.run(tmp_path / "again")[1])
    folder = tmp_path / "killed"
    first_epochs = []
    for moment in (
        in_the_middle_of_epoch_2,
        while_a_checkpoint_is_written,
        when_the_log_has_seven_rows,
    ):
        code, lines = server.run(folder, moment)
        assert code == -signal.SIGKILL, f"the run ended before it was killed: {lines[-3:]}"
        first_epochs.append(next(line for line in lines if line.startswith("epoch")))
    code, lines = server.run(folder)
    assert code == 0
    first_epochs.append(next(line for line in lines if line.startswith("epoch")))
    assert first_epochs[:2] == ["epoch 0", "epoch 2"], "the run did not go on where it was"
    assert first_epochs[2] in ("epoch 4", "epoch 5")
    assert first_epochs[3] in ("epoch 7", "epoch 8")
    assert result(folder) == result(tmp_path / "whole") == result(tmp_path / "again")
    assert not (folder / "checkpoint.pt").exists()
    assert len(result(folder)["log.jsonl"].splitlines()) == 1 + LONG.epochs

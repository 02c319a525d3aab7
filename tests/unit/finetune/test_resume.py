"""Relevance finetuning of a two-block ViT: resume to the byte, and a real kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from relevit.finetune import loop as finetune
from relevit.finetune.hyperparameters import LossWeights

from .. import micro_finetuning
from ..micro_finetuning import (
    LONG,
    SETTINGS,
    Stop,
    micro_model,
    result,
    run,
    stop,
    undisturbed_run,
    weights,
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed"))


# Stopped and started again


@pytest.mark.parametrize("at", range(1, 10))
def test_stopped_in_the_middle_of_an_epoch(undisturbed, tmp_path, at):
    """At each of the nine optimiser steps; the next start is a new process with a new model."""
    taken = []

    def stop_later(step, steps):
        taken.append(step)
        if len(taken) == at:
            raise Stop

    with pytest.raises(Stop):
        run(tmp_path, on_step=stop_later)
    model = micro_model()
    assert run(tmp_path, model=model) == undisturbed[0]
    assert torch.equal(weights(model), undisturbed[1])
    assert result(tmp_path) == undisturbed[2]


def test_finished_run_is_not_computed_again(undisturbed, tmp_path, monkeypatch):
    run(tmp_path)
    monkeypatch.setattr(finetune, "_train_step", stop)
    model = micro_model(seed=8)
    assert run(tmp_path, model=model, validate=stop) == undisturbed[0]
    assert torch.equal(weights(model), undisturbed[1])
    assert not model.training


@pytest.mark.parametrize(
    "change",
    [
        {"lr": 2.0e-3},
        {"epochs": 2},
        {"seed": 1},
        {"protocol": "described"},
        {"keep": "last"},
        {"weights": LossWeights(background=1.0)},
        {"inputs": {"origin": "elsewhere"}},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("finished", [True, False])
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
    return "epoch 1" in lines and lines[-1] == "step 2"


def while_a_checkpoint_is_written(lines, folder):
    """Waits after epoch 4's last step until its file is being filled, or is there."""
    if "epoch 3" not in lines or lines[-1] != "step 3":
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

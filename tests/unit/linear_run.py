"""A training run that takes a moment: a linear model, four epochs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from relevit.models import checkpoints
from relevit.training.epochs import EPOCHS as FOLDER
from relevit.training.epochs import LOG, WEIGHTS, epoch_file, run_epochs

EPOCHS = 4
IDENTITY = {"kind": "linear", "lr": 0.1}


class Stop(BaseException):
    """Ends a run at once, like a kill; not an Exception, so that nothing catches it."""


def stop_if(condition):
    if condition:
        raise Stop


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
        calls = {
            "train_epoch": self.train_epoch,
            "validate": self.validate,
            "on_epoch": self.seen.append,
        }
        return run_epochs(
            self.model, self.optimizer, self.folder, **(calls | self.options | callbacks)
        )

    def weights(self):
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])


def result(folder, kept=False):
    """The bytes that a finished run leaves, and nothing else may lie beside them."""
    assert {path.name for path in folder.iterdir()} == {WEIGHTS, LOG, *([FOLDER] if kept else ())}
    paths = [folder / WEIGHTS, folder / LOG]
    if kept:
        paths += [epoch_file(folder, epoch) for epoch in range(EPOCHS + 1)]
        assert sorted((folder / FOLDER).iterdir()) == paths[2:]
    return {path.name: path.read_bytes() for path in paths}


def undisturbed_run(folder, kept=False):
    """A run that nothing disturbed: itself, its history and its files."""
    run = Run(folder, keep_epochs=kept)
    history = run.run()
    return run, history, result(folder, kept)


# Stopped anywhere


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
        os.truncate(path, os.path.getsize(path) // 2)

    def cut_text(original, path, text, **options):
        original(path, text[: len(text) // 2], **options)

    def delete_half(original, folder, *args, **kwargs):
        for path in sorted(folder.rglob("*1.safetensors")):
            path.unlink()

    def nothing(original, *args, **kwargs):
        return None

    watch(os, "replace", nothing)
    watch(shutil, "rmtree", delete_half)
    watch(torch, "save", cut_file)
    watch(checkpoints, "save_file", cut_file)
    watch(Path, "write_text", cut_text)
    watch(Path, "unlink", nothing)
    return calls


def count_disk_calls(folder, **options):
    with pytest.MonkeyPatch.context() as patch:
        calls = stop_at(patch, 0, "never")
        Run(folder, **options).run()
    return len(calls)

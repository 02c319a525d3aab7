"""A training run that takes a moment: a linear model, four epochs."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from relevit.training import LOG, WEIGHTS, run_epochs

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


def undisturbed_run(folder):
    """A run that nothing disturbed: itself, its history and its files."""
    run = Run(folder)
    history = run.run()
    return run, history, result(folder)

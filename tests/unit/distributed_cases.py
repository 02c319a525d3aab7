"""What several processes compute together: run by torchrun, and by the test itself as one process.

torchrun --standalone --nproc-per-node 2 -m tests.unit.distributed_cases FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args
from unittest import mock

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file

from relevit.config import PipelineParams
from relevit.config.robustvit import Method
from relevit.data import cutouts
from relevit.data.benchmark import imagenet
from relevit.data.real.image_set import ImageSet
from relevit.distributed import all_rows, each, only_first, process_group, world
from relevit.distributed.command import main
from relevit.evaluate import accuracies
from relevit.evaluate import sets as answered_sets
from relevit.evaluate.predictions import BATCH
from relevit.evaluate.sets import evaluate_sets
from relevit.finetune import loop as finetune
from relevit.finetune.settings import LossWeights
from relevit.finetune.step import step_losses
from relevit.models.loading import ModelSpec

from .micro_finetuning import SETTINGS, SPEC, Stop, micro_model, pictures

# All terms matter, and none can hide behind another.
WEIGHTS = LossWeights(relevance=0.7, classification=3.0, background=7.0, foreground=9.0)
BATCHES = {"odd": 5, "smaller_than_the_processes": 1}
STEPS = {
    f"{method}-{protocol}-{batch}": (
        replace(SETTINGS, method=method, protocol=protocol, weights=WEIGHTS),
        count,
    )
    for method in get_args(Method)  # a new one is tested without a change here
    for protocol in ("published", "described")
    for batch, count in BATCHES.items()
}
RUN = replace(SETTINGS, epochs=2, batch_size=4, protocol="described")
COUNTS = (BATCH - 20, 2 * BATCH + 7)  # the first leaves a process without images
REAL_BATCH, REAL_IMAGES = 3, 11
EVALUATION = ("-p", "seeds=[5]", "-p", "images_per_set=40", "-p", "precision=float32")
COMMAND = (
    "-p", "seed=1", "-p", "lr=1.0e-4", "-p", "protocol=described", "-p", "precision=float32",
)  # fmt: skip
DEATH = 7  # exit code


class DoubleSpec(ModelSpec):
    """The micro model's pixels in float64."""

    def normalise(self, images, like=None):
        return super().normalise(images).double()


DOUBLE = DoubleSpec(**vars(SPEC))


def double_model():
    """The micro model in float64, with a parameter that no loss reaches."""
    model = micro_model().double()
    model.unreached = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    return model


def validate(model, settings):
    shown = pictures("validation", 4)
    images = DOUBLE.normalise(shown.images)
    return step_losses(model, images, shown.masks.float(), shown.labels, settings).numbers()


def one_step(settings, count):
    """Gradients of one step, those that are there, and the losses that go to the log."""
    model = double_model()
    losses = finetune._train_step(
        model, DOUBLE, finetune.make_optimizer(model, settings), pictures("finetune", 10),
        torch.tensor([7, 2, 9, 4, 1])[:count], np.random.default_rng(3), settings,
    )  # fmt: skip
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return found, losses


def whole_run(folder, model=None, **callbacks):
    """Two epochs on nine images in batches of four, so that the last batch has one."""
    model = double_model() if model is None else model
    train = pictures("finetune", 10).select(range(9))
    history = finetune.finetune(
        model, DOUBLE, train, validate, RUN, Path(folder), inputs={}, **callbacks
    )
    return history, model


def interrupted_run(folder):
    """Stopped after an epoch, and started again with new models; what the first start raised."""

    def stop_after_the_first(row):
        if row["epoch"] == 1:
            raise Stop("after the first epoch")

    raised = ""
    try:
        whole_run(folder, on_epoch=stop_after_the_first)
    except (Stop, RuntimeError) as error:
        raised = f"{type(error).__name__}: {error}"
    epochs = []
    whole_run(folder, on_epoch=lambda row: epochs.append(row["epoch"]))
    return raised, epochs


@contextmanager
def noted(owner, name, note):
    """What is asked of a function in the meantime, as `note` names it."""
    asked, whole = [], getattr(owner, name)

    def wrapped(*args, **options):
        asked.append(note(*args))
        return whole(*args, **options)

    with mock.patch.object(owner, name, wrapped):
        yield asked


def drawn_sets(folder, count):
    """The nine sets of Cutouts: the rows, and the pictures that this process has drawn."""
    with noted(cutouts, "draw", lambda name, places: [[name, i] for i in places]) as drawn:
        rows = evaluate_sets(
            micro_model(), SPEC, Path(folder),
            images_per_set=count, precision="float32", identity="micro",
        )  # fmt: skip
    return rows, [picture for batch in drawn for picture in batch]


class Brightness(torch.nn.Module):
    """Answers that differ from picture to picture."""

    def __init__(self, *args):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.linspace(-9.0, 9.0, 1000))

    def forward(self, images):
        return images.mean(dim=(1, 2, 3))[:, None] * self.slope


def first_alone(*args, **options):
    """A number format that only the first process finds out."""
    if world()[0]:
        raise RuntimeError("two processes could find different formats")
    return "float32", 0.0


def real_sets(root, folder):
    """The nine real sets in batches of REAL_BATCH, and the pictures this process has opened."""
    values = {"data": "imagenet", "data_root": str(root), "corrupted": "skip"}
    params = PipelineParams(preset="rehearsal", seeds=[0], **values)
    opened = noted(ImageSet, "__getitem__", lambda found, place: found.ids[place])
    with (
        mock.patch.object(accuracies, "load_model", Brightness),
        mock.patch.object(accuracies, "evaluation_precision", first_alone),
        mock.patch.object(answered_sets, "BATCH", REAL_BATCH),
        opened as ids,
    ):
        rows = accuracies.nine_sets(
            "vit-b-cut", None, Path(folder),
            images_per_set=REAL_IMAGES, device="cpu", images=imagenet(params, "vit-b-cut"),
        )  # fmt: skip
    return rows, ids


def gathered_rows():
    """Places dealt out in turn; then a place that comes twice, which is refused."""
    rank, size = world()
    places = np.arange(rank, 7, size)
    rows = all_rows(pd.DataFrame({"square": (places**2).astype("int16")}, index=places))
    try:
        refused = str(all_rows(pd.DataFrame({"square": [0]}, index=[0])))
    except ValueError as error:
        refused = str(error)
    return rows["square"].tolist(), str(rows["square"].dtype), refused, each({"é" * rank: rank})


def guarded_writing(path):
    """A file that the first process writes late and all read; then one that it fails to write."""
    with only_first() as first:
        if first:
            path.write_text("written")
    text = path.read_text()
    try:
        with only_first() as first:
            if first:
                raise OSError("the disk is full")
    except (OSError, RuntimeError) as error:
        return text, f"{type(error).__name__}: {error}"
    return text, "went on without the file"


def together(folder: Path) -> None:
    """Every case; the results of a process lie in its own folder."""
    mine = folder / f"process{world()[0]}"
    mine.mkdir()
    report = {"world": world(), "threads": torch.get_num_threads()}
    for name, (settings, count) in STEPS.items():
        gradients, report[name] = one_step(settings, count)
        save_file(gradients, mine / f"{name}.safetensors")
    report["history"], model = whole_run(folder / "run")
    save_file(model.state_dict(), mine / "run.safetensors")
    report["interrupted"] = interrupted_run(folder / "interrupted")
    for count in COUNTS:
        rows, report[f"drawn{count}"] = drawn_sets(folder / f"sets{count}", count)
        rows.to_parquet(mine / f"sets{count}.parquet")
    rows, report["opened"] = real_sets(folder / "data", folder / "real")
    rows.to_parquet(mine / "real.parquet")
    report["gathered"] = gathered_rows()
    report["guarded"] = guarded_writing(folder / "guarded.txt")
    os.chdir(folder / "project")
    report["command"] = main(["params/quick/02_finetune.yaml", *COMMAND])
    report["evaluation"] = main(["params/quick/03_robustness.yaml", *EVALUATION])
    (mine / "report.json").write_text(json.dumps(report))
    one_dies(folder / "death")


def one_dies(folder: Path) -> None:
    """The second process ends in the middle of a step, while the first waits for its gradients."""
    model = double_model()
    if world()[0] == 1:
        model.register_forward_hook(lambda *args: os._exit(DEATH))
    whole_run(folder, model)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with process_group():
        together(Path(sys.argv[1]))

"""The original model, the one that relevance finetuning starts from, and where it comes from."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from habitats.benchmark import Benchmark
from relevit.base.files import from_project, write_atomically
from relevit.base.results import read_rows
from relevit.evaluate.predictions import BATCH, predict
from relevit.finetune.epochs import LOG, WEIGHTS, History
from relevit.models.checkpoints import save_weights
from relevit.models.loading import RANDOM, load_model
from relevit.models.registry import CUT, model_spec, shipped_weights
from relevit.models.spec import ModelSpec
from reproduction.params.cells import Params
from reproduction.training.classifier import TrainSettings, train_classifier

VALIDATED = 100  # validation images that a model of a paper answers


def make_original(
    cfg: Params, bench: Benchmark, folder: Path, device: torch.device
) -> tuple[nn.Module, History]:
    """The original model of a preset, with `weights.safetensors` and `log.jsonl` in `folder`.

    `source="shipped"` copies the weights and the log that come with the suite, `"train"` trains.
    `"published"` takes a paper's model as its authors trained it, and `"random"` leaves it
    untrained; both make `others` ready too, and the log has one row, of epoch 0.
    Raises: ValueError when the model has no shipped weights, or these are of other images; further
    as `fit` and `load_model`.
    """
    if cfg.source in ("published", "random"):
        model = _paper_models(cfg, folder, device)
        return model, [_as_it_is(cfg, bench, model, folder)]
    spec = model_spec(cfg.model)
    if cfg.source == "shipped":
        weights = shipped_weights(cfg.model, cfg.benchmark.learned)
        history = read_rows(weights.with_suffix(".jsonl"))
        model = load_model(cfg.model, weights, device=device)
        for source, name in ((weights, WEIGHTS), (weights.with_suffix(".jsonl"), LOG)):
            write_atomically(folder / name, partial(shutil.copyfile, source))
        return model, history
    model = untrained(cfg.model, cfg.seed, device)
    settings = TrainSettings.from_params(cfg, device, images=cfg.training_images)
    return model, train_original(model, spec, settings, folder, bench)


def untrained(
    name: str, seed: int = 0, device: torch.device | str | None = None, **how: Any
) -> nn.Module:
    """A model before it has learned the classes: an untrained head on its pretraining.

    `tiny` has none and starts at random. Raises: ValueError for `tiny-mae`, whose own is not
    shipped; as `load_model`.
    """
    if name == "tiny-mae":
        raise ValueError(
            "models: only the trained 'tiny-mae' comes with the package, not its pretraining; "
            "use source='shipped', or do both with tools/train_shipped.py of commit 1e87ea29"
        )
    start = RANDOM if name == "tiny" else None
    return load_model(name, start, new_head=True, seed=seed, device=device, **how)


def _paper_models(cfg: Params, folder: Path, device: torch.device) -> nn.Module:
    """Write the weights of the paper's models that a preset needs; returns its own."""
    root = from_project(cfg.weights_root) if cfg.weights_root else None
    for name in dict.fromkeys([*cfg.others, cfg.model]):  # its own last: with it the stage is made
        path = folder / (WEIGHTS if name == cfg.model else f"{name}.safetensors")
        weights = RANDOM if cfg.source == "random" or name.endswith(CUT) else root
        model = load_model(name, weights, seed=cfg.seed)
        save_weights(path, model, name)
    return model.to(device)


def _as_it_is(cfg: Params, bench: Benchmark, model: nn.Module, folder: Path) -> dict[str, Any]:
    """The log's only row for a model that is not trained here: its top-1 on validation images."""
    spec = bench.spec(cfg.model)
    shown = bench.draw("validation", range(VALIDATED), size=spec.image_size)
    right = predict(model, spec, shown.split(BATCH))["label_rank"] == 0
    row = {"epoch": 0, "validation_top1_pct": 100.0 * float(right.mean())}
    write_atomically(folder / LOG, json.dumps(row) + "\n")
    return row


def train_original(
    model: nn.Module,
    spec: ModelSpec,
    settings: TrainSettings,
    folder: Path,
    bench: Benchmark,
    *,
    validation_images: int = 400,
) -> History:
    """Train `model` in place on images drawn for it, or on all that there are of a smaller set.

    Files and log as `train_classifier`.
    """
    count = settings.images * (settings.epochs if settings.fresh else 1)
    train = bench.pictures("train", count, seed=settings.seed, size=spec.image_size)
    return train_classifier(
        model,
        spec,
        replace(settings, images=min(settings.images, len(train))),
        folder,
        train=train,
        validation=bench.pictures("validation", validation_images, size=spec.image_size).kept(),
        identity={"kind": "original", "images_of": bench.rules},
    )

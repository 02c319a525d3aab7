"""Train a model that comes with the suite, and write it where the suite looks for it.

    python tools/train_shipped.py dinov2-s8      5 min on 2 cores
    python tools/train_shipped.py tiny           15 min on 2 cores
    python tools/train_shipped.py tiny-mae       30 min on 1 core
    python tools/train_shipped.py mini-dino      15 to 30 min on 1 core, as the other mini models

The first three see freshly drawn images of Habitats only, or with `--images cutouts` of Cutouts.
`dinov2-s8` starts from DINOv2, `tiny` at random weights; `tiny-mae` first learns without labels to
fill in hidden patches, then is finetuned with labels like `tiny`. Of the mini models the
pretraining is shipped, which sees freshly drawn things (no animals).
A run that was stopped goes on from its last epoch in outputs/shipped/; a finished one leaves
nothing there. The number of threads is fixed, because the sums' order, and so the bytes, depend
on it: the same machine and the same versions give the same bytes. Others give another model
that is just as good, so run `make notebooks` afterwards.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from habitats.cutouts import CUTOUTS, Cutouts
from habitats.homes import habitats
from pretraining import masked_autoencoder, recipes
from pretraining.masked_autoencoder import PretrainSettings
from relevit.choices.words import SHIPPED
from relevit.finetune.epochs import LOG, WEIGHTS
from relevit.models.checkpoints import FACTS, read_tensors
from relevit.models.loading import load_model
from relevit.models.registry import model_spec
from reproduction.training.classifier import TrainSettings
from reproduction.training.original import train_original, untrained

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "lib" / "relevit" / "assets" / "weights"
THREADS = {"tiny": 2, "dinov2-s8": 2}  # the others have 1
PRETRAINING = {"tiny-mae": PretrainSettings(lr=1.5e-3, images=12_800, epochs=12)}
TRAINING = {
    name: TrainSettings(
        lr=1.0e-3, head_lr=1.0e-3, images=12_800, epochs=epochs, batch_size=64, fresh=True
    )
    for name, epochs in (("tiny", 12), ("tiny-mae", 8))
} | {"dinov2-s8": TrainSettings(lr=5.0e-5, head_lr=1.0e-3, images=6400)}


def show(row: dict) -> None:
    print({key: value for key, value in row.items() if key != "curve"}, flush=True)


def train(name: str, bench: Cutouts, folder: Path) -> None:
    """Pretrain where the model has a pretraining, then train; logs and weights go to `folder`."""
    spec, settings = model_spec(name), TRAINING[name]
    if name in PRETRAINING:
        model, first = load_model(name, "random", seed=settings.seed), PRETRAINING[name]
        train = bench.pictures("train", first.images * first.epochs, size=spec.image_size)
        shown = bench.pictures("validation", 400, size=spec.image_size).kept()
        masked_autoencoder.pretrain(
            model, spec, first, folder / "pretraining", train=train, validation=shown, on_epoch=show
        )
    else:
        model = untrained(name, settings.seed)
    train_original(model, spec, settings, folder / "training", bench, on_epoch=show)


def ship(folder: Path, name: str, data: str) -> None:
    """Copy what `train` made to the package's assets, the weights in half precision.

    The rounding, 5e-4 of a weight, is far below what the next training step changes.
    """
    target = TARGET if data == "cutouts" else TARGET / data
    target.mkdir(parents=True, exist_ok=True)
    tensors, facts = read_tensors(folder / "training" / WEIGHTS)
    halves = {key: value.half() for key, value in tensors.items()}
    kept = json.dumps(facts, sort_keys=True)
    save_file(halves, target / f"{name}.safetensors", metadata={FACTS: kept})
    shutil.copyfile(folder / "training" / LOG, target / f"{name}.jsonl")
    if name in PRETRAINING:
        shutil.copyfile(folder / "pretraining" / LOG, target / f"{name}-pretraining.jsonl")


def ship_pretraining(name: str, folder: Path) -> None:
    """Pretrain a mini model and put its backbone and log among the package's assets."""
    model, _ = recipes.pretrain(name, folder, on_epoch=show)
    recipes.save_backbone(model, TARGET / f"{name}-pretrained.safetensors")
    shutil.copyfile(folder / LOG, TARGET / f"{name}-pretrained.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=[*TRAINING, *recipes.SETTINGS])
    parser.add_argument("--images", choices=list(SHIPPED), default="habitats")
    asked = parser.parse_args()
    name, data = asked.model, asked.images
    torch.set_num_threads(THREADS.get(name, 1))
    folder = ROOT / "outputs" / "shipped" / data / name
    if name in recipes.SETTINGS:
        ship_pretraining(name, folder)
    else:
        train(name, CUTOUTS if data == "cutouts" else habitats(), folder)
        ship(folder, name, data)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()

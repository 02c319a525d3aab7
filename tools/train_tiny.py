"""Train the tiny ViT that comes with the suite, and write it where the suite looks for it.

    python tools/train_tiny.py

Starts at random weights and sees freshly drawn Cutouts images only. Takes about a quarter
of an hour on 2 cores. The same machine and the same versions give the same bytes; others give
another model that is just as good, so run `make notebooks` afterwards.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch

from relevit.models import load_pretrained, model_spec
from relevit.original import TrainSettings, train_original
from relevit.training import LOG, WEIGHTS

THREADS = 2  # fixed: the sums' order, and so the bytes, depend on it
SETTINGS = TrainSettings(
    lr=1.0e-3, head_lr=1.0e-3, images=12_800, epochs=12, batch_size=64, fresh=True
)
TARGET = Path(__file__).parents[1] / "lib" / "relevit" / "assets" / "weights"


def show(row: dict) -> None:
    print({key: value for key, value in row.items() if key != "curve"}, flush=True)


def main() -> None:
    torch.set_num_threads(THREADS)
    spec = model_spec("tiny")
    model = load_pretrained("tiny", SETTINGS.seed)
    with tempfile.TemporaryDirectory() as folder:
        train_original(model, spec, SETTINGS, Path(folder), on_epoch=show)
        TARGET.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(folder) / WEIGHTS, TARGET / "tiny.safetensors")
        shutil.copyfile(Path(folder) / LOG, TARGET / "tiny.jsonl")


if __name__ == "__main__":
    main()

"""Finetunings for the IAV study that take a moment: two-block models on small pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from safetensors.torch import save_file

from relevit.choices.words import MiniName
from relevit.models.loading import load_model
from relevit.models.registry import MODELS
from reproduction.params.cells import params_of

OPTIONS = {"patch_size": 14, "embed_dim": 16, "depth": 2, "num_heads": 2}
SIZE, PATCHES = 56, 16
PAIR = ["mini-deit", "mini-dino"]


@contextmanager
def micro_models() -> Iterator[None]:
    """Two-block models under the names of the four mini models."""
    with pytest.MonkeyPatch.context() as patch:
        for name in get_args(MiniName):
            small = replace(MODELS[name], image_size=SIZE, options=OPTIONS)
            patch.setitem(MODELS, name, small)
        yield


def params(folder, **values):
    """Parameters of 08_iav whose results go below `folder`, from backbones of our own."""
    quick = {
        "models": PAIR,
        "reference": values.get("models", PAIR)[-1],
        "weights_root": str(folder / "backbones"),
        "device": "cpu",
        "precision": "float32",
        "training_images": 40,
        "batch_size": 20,
        "validation_images": 40,
        "lr": 1.0e-3,
        "head_lr": 1.0e-2,
    }
    return params_of("08_iav")(output_root=str(folder), **(quick | values))


def backbone_file(cfg, name):
    return Path(cfg.weights_root) / f"{name}.safetensors"


def write_backbones(cfg, seed=7):
    """Untrained backbones of the mini models, without heads, as the pretraining leaves them."""
    for name in set(cfg.models) & set(get_args(MiniName)):
        state = load_model(name, "random", seed=seed).state_dict()
        body = {key: value.half() for key, value in state.items() if not key.startswith("head.")}
        Path(cfg.weights_root).mkdir(exist_ok=True)
        save_file(body, backbone_file(cfg, name))

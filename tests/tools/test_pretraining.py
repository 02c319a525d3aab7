"""The pretrainings of the shipped mini models: each takes its steps, and no animal is seen."""

import importlib
import sys
from dataclasses import replace
from typing import get_args

import pytest
import torch

from habitats.drawings import PRETRAINING
from relevit.choices.words import LABELS, MiniName
from relevit.models.loading import load_model
from relevit.models.registry import MODELS

from .conftest import SCRIPT

MICRO = {
    "image_size": 56,
    "options": {"patch_size": 14, "embed_dim": 16, "depth": 2, "num_heads": 2},
}
VIEWS = {"global_px": 42, "local_px": 28}


@pytest.mark.parametrize("name", get_args(MiniName))
def test_each_learns_and_leaves_a_backbone(monkeypatch, tmp_path, name):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.setitem(MODELS, name, replace(MODELS[name], **MICRO))
    recipes = importlib.import_module("pretraining.recipes")
    short = replace(recipes.SETTINGS[name], images=24, epochs=2, batch_size=12)
    if name == "mini-dino":
        short = replace(short, **VIEWS)
    model, history = recipes.pretrain(name, tmp_path, short, validation_images=10)
    assert [row["epoch"] for row in history] == [0, 1, 2] and "train_loss" in history[2]
    assert model.num_classes == len(PRETRAINING.classes) and not model.training
    before = load_model(name, "random", classes=model.num_classes).state_dict()
    after = model.state_dict()
    untouched = {key for key, value in before.items() if torch.equal(value, after[key])}
    supervised = name in LABELS
    assert untouched == (set() if supervised else {"head.weight", "head.bias"})
    recipes.save_backbone(model, tmp_path / "backbone.safetensors")
    assert (tmp_path / "backbone.safetensors").is_file()


def test_the_script_knows_what_is_shipped(monkeypatch, capsys):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    script = importlib.import_module("train_shipped")
    monkeypatch.setattr(sys, "argv", ["train_shipped.py", "--help"])
    with pytest.raises(SystemExit):
        script.main()
    text = capsys.readouterr().out
    assert all(name in text for name in ("tiny", "tiny-mae", "dinov2-s8", *get_args(MiniName)))

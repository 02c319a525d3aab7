"""A model's card: what Hugging Face reads of it, and its code, which loads the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from PIL import Image

from relevit.models.card import load_code, write_card
from relevit.models.checkpoints import save_weights
from relevit.models.loading import open_model
from relevit.models.spec import View


def test_its_code_gives_the_models_answer(tmp_path, monkeypatch):
    own, weights, card = open_model("tiny"), tmp_path / "weights.safetensors", tmp_path / "card.md"
    save_weights(weights, own.network, own.spec.name)
    numbers = pd.DataFrame({"original": [71.5, 40], "finetuned": [72.5, 48]}, ["test", "night"])
    settings = {"lr": 1e-5, "weights": {"background": 2.0}}
    write_card(card, own, "the relevance terms", settings, {"images": 120}, numbers, weights)
    noise = np.random.default_rng(0).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    picture = Image.fromarray(noise).resize((200, 150))
    picture.save(tmp_path / "image.png")
    views = (own.view, View(129, 112, "bilinear"))
    codes = [load_code(replace(own, spec=replace(own.spec, view=view)), weights) for view in views]
    assert codes[0] in card.read_text("utf-8")
    assert all(sum(map(bool, code.splitlines())) == 5 for code in codes)
    monkeypatch.chdir(tmp_path)
    for view, code in zip(views, codes, strict=True):
        exec(code.replace("image.jpg", "image.png"), names := {})  # imports all that it needs
        wanted = own.network(own.spec.normalise(view.picture(picture)[None]))
        torch.testing.assert_close(names["logits"], wanted, rtol=1e-4, atol=1e-4)

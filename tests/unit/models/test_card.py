"""A model's card: what Hugging Face reads of it, and its code, which loads the model."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from relevit.models.card import load_code, write_card
from relevit.models.checkpoints import save_weights
from relevit.models.loading import open_model
from relevit.models.spec import View

NUMBERS = pd.DataFrame({"original": [71.5, 40.0], "finetuned": [72.5, 48.0]}, ["test", "night"])


@pytest.fixture
def written(tmp_path):
    own, weights = open_model("tiny"), tmp_path / "weights.safetensors"
    save_weights(weights, own.network, own.spec.name)
    write_card(
        tmp_path / "README.md",
        own,
        "the relevance terms",
        {"lr": 1e-5, "weights": {"background": 2.0}},
        {"images": 120},
        NUMBERS,
        weights,
    )
    return own, weights, (tmp_path / "README.md").read_text("utf-8")


def test_its_code_gives_the_models_answer(written):
    own, weights, text = written
    noise = np.random.default_rng(0).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    picture = Image.fromarray(noise).resize((200, 150))
    picture.save(weights.parent / "image.png")
    views = (own.view, View(129, 112, "bilinear"))
    codes = [load_code(replace(own, spec=replace(own.spec, view=view)), weights) for view in views]
    assert codes[0] in text and all(sum(map(bool, code.splitlines())) == 5 for code in codes)
    script = "".join(f"{code}answers.append(logits)\n" for code in codes)
    script = f"answers = []\n{script}import torch; torch.save(answers, 'answers.pt')"
    script = script.replace("image.jpg", "image.png")
    subprocess.run([sys.executable, "-c", script], check=True, cwd=weights.parent)
    for view, found in zip(views, torch.load(weights.parent / "answers.pt"), strict=True):
        with torch.no_grad():
            wanted = own.network(own.spec.normalise(view.picture(picture)[None]))
        torch.testing.assert_close(found.detach(), wanted, rtol=1e-4, atol=1e-4)

"""A family of models that is not in the package: what `load_model` makes of its function."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from PIL import Image
from timm.layers import PatchEmbed
from timm.models.vision_transformer import Block
from torch import nn

from relevit import explain, model_input
from relevit.models import MORE_MODELS, ModelSpec, load_model, model_spec, open_model
from relevit.models.card import load_code
from relevit.models.checkpoints import save_weights
from relevit.models.loading import side_of
from relevit.models.spec import View

HALF = (0.5, 0.5, 0.5)
SPEC = ModelSpec("mine", "mine", 32, HALF, HALF, view=View(37, 32, "bicubic"))


class Mine(nn.Module):
    """None of timm's models, in whose place it can stand."""

    global_pool, num_prefix_tokens = "avg", 0

    def __init__(self, depth, classes=5):
        super().__init__()
        self.num_classes = classes
        self.patch_embed = PatchEmbed(32, 8, 3, 16)
        self.blocks = nn.ModuleList(Block(16, 2) for _ in range(depth))
        self.head = nn.Linear(16, classes)

    def reset_classifier(self, classes):
        self.num_classes, self.head = classes, nn.Linear(16, classes)

    def forward(self, images):
        tokens = self.patch_embed(images)
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(tokens.mean(dim=1))


@pytest.fixture(autouse=True)
def added(monkeypatch):
    monkeypatch.setitem(MORE_MODELS, "mine", lambda depth=2: (Mine(depth), SPEC))


def test_it_is_loaded_explained_and_read_back_by_its_name(tmp_path):
    torch.manual_seed(5)
    own = open_model("mine", options={"depth": 3})
    assert (own.spec.grid, own.spec.classes, len(own.network.blocks)) == ((4, 4), 5, 3)
    assert model_spec("mine") == SPEC and own.view == SPEC.view and side_of("mine", {}) == 32
    images = torch.randint(256, (2, 3, 32, 32)).byte()
    assert explain(own.network, own.spec.normalise(images)).std() > 0.01
    again = load_model("mine", "random", options={"depth": 3})
    assert torch.equal(again.head.weight, own.network.head.weight), "drawn from the seed"
    other = load_model("mine", seed=1, classes=7, new_head=True)
    save_weights(tmp_path / "mine.safetensors", other, "mine")
    read = open_model("mine", tmp_path, classes=7, new_head=True)
    assert torch.equal(read.network.blocks[1].attn.qkv.weight, other.blocks[1].attn.qkv.weight)
    assert read.spec.classes == 7
    code = load_code(own, tmp_path / "mine.safetensors")
    assert 'load_model("mine", "mine.safetensors", options={\'depth\': 3})' in code


def test_pictures_are_seen_as_its_spec_says(tmp_path):
    own, picture = open_model("mine"), Image.effect_noise((90, 60), 90)
    expected = own.spec.normalise(SPEC.view.picture(picture)[None])
    assert torch.equal(model_input(own.network, picture), expected)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda depth: (Mine(depth), SPEC), r"'mine': its function cannot make .*'depth'"),
        (lambda: Mine(2), r"'mine': its function cannot make a network and its ModelSpec with {}"),
        (lambda: (Mine(2), replace(SPEC, view=View())), r"32, .* 224 pixels; give it view=View\(3"),
    ],
)
def test_what_cannot_be_used_is_named(made, text):
    MORE_MODELS["mine"] = made
    with pytest.raises(ValueError, match=text):
        load_model("mine")

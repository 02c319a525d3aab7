"""Names, tags, sizes and pixels of the models in the registry; no network connection."""

from __future__ import annotations

import pandas as pd
import pytest
import timm
import torch
from timm.models import get_pretrained_cfg

from relevit.maps import head_pooling
from relevit.models import MODELS, load_model, model_spec
from relevit.models.registry import BEYOND, CUT, IAV, PAPER_MODELS, ROBUSTVIT
from relevit.models.spec import View
from reproduction.paper import published as paper

pytestmark = pytest.mark.usefixtures("no_network")

HALF, IMAGENET_MEAN = (0.5, 0.5, 0.5), (0.485, 0.456, 0.406)
FROM_FILES = {"vit-l", "mae-b", "moco-v3-b"}


def test_every_model_of_the_tables_is_there():
    def in_tables(of, *tables):
        rows = pd.concat(map(paper.read_table, tables))
        return set(rows.loc[rows["paper"] == of, "model"])

    def registered(of):
        return {model.papers[of] for model in MODELS.values() if of in model.papers}

    assert registered(ROBUSTVIT) == in_tables("robustvit", "robustness")
    tables = in_tables("beyond_intuition", "segmentation", "perturbation")
    assert registered(BEYOND) == tables | {"MoCo-v3"}  # in its figures alone
    assert len(registered(IAV)) == 4


@pytest.mark.parametrize("name", PAPER_MODELS)
def test_timm_knows_the_tag(name):
    model = MODELS[name]
    cfg = get_pretrained_cfg(model.timm_name, allow_unregistered=False)
    assert model.name == name and timm.is_model(model.timm_name)
    assert cfg.input_size == (3, model.image_size, model.image_size)
    assert (name in FROM_FILES) == bool(model.url)
    if not model.url and not name.endswith(CUT):
        assert "." in model.timm_name, "the default tag is another model, and changes"
        assert cfg.hf_hub_id.startswith("timm/") and cfg.hf_hub_id in model.source
        assert cfg.num_classes == (0 if model.head_url else model.classes)


@pytest.mark.parametrize("name", MODELS)
def test_size_and_head_are_those_of_the_architecture(name):
    """Built without memory, at full depth."""
    model = MODELS[name]
    with torch.device("meta"):
        network = load_model(name, "random")
    assert tuple(network.patch_embed.img_size) == (model.image_size,) * 2
    assert network.num_classes == model.classes
    assert model.reads == "both" or head_pooling(network) == model.reads or name == "tiny-mae"
    if model.reads == "both":
        assert tuple(network.head.weight.shape) == (1000, 2 * 768)


@pytest.mark.parametrize(
    ("names", "view", "mean"),
    [
        ("vit-b ar-s", View(248, 224, "bicubic"), HALF),  # 224 / 0.9, rounded down as timm does
        ("deit-s dino-b mae-b", View(248, 224, "bicubic"), IMAGENET_MEAN),
        ("moco-v3-b", View(256, 224, "bilinear"), IMAGENET_MEAN),
        ("dinov2-s8", View(112, 112, "bicubic"), IMAGENET_MEAN),
    ],
)
def test_own_pixels(names, view, mean):
    for found in map(model_spec, names.split()):
        assert (found.view, found.mean) == (view, mean)


def test_clip_is_the_one_with_its_own_activation():
    block = load_model("clip-b32", "random", options={"depth": 1}).blocks[0]
    inputs = torch.linspace(-3, 3, 7)
    torch.testing.assert_close(block.mlp.act(inputs), inputs * torch.sigmoid(1.702 * inputs))


@pytest.mark.parametrize("name", MODELS)
def test_half_is_one_for_all_of_the_papers_but_clip(name):
    """Also for models that were trained with other statistics (B5, D6)."""
    half, own = (model_spec(name, pixels=pixels) for pixels in ("half", "own"))
    if name == "clip-b32":
        assert half.view == View(224, 224, "bicubic") and half.mean == own.mean
    elif name in PAPER_MODELS:
        assert half.view == View(256, 224, "bilinear") and half.mean == half.std == HALF
    else:
        assert (half.view, half.mean, half.std) == (own.view, own.mean, own.std)

"""Names, tags, sizes and preprocessing of the papers' models; no network connection."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import timm
import torch
from timm.models import get_pretrained_cfg

from relevit.attention.token_rows import head_pooling
from relevit.models.paper_models import load_paper_model
from relevit.models.registry import (
    BEYOND,
    CUT,
    IAV,
    PAPER_MODELS,
    ROBUSTVIT,
    paper_model,
    paper_spec,
    preprocessing,
)
from relevit.models.spec import View
from relevit.paper import published as paper

pytestmark = pytest.mark.usefixtures("no_network")

HALF, IMAGENET_MEAN = (0.5, 0.5, 0.5), (0.485, 0.456, 0.406)
FROM_FILES = {"vit-l", "mae-b", "moco-v3-b"}
LARGE, SMALL = {"vit-l", "ar-l"}, {"ar-s", "deit-s"}


def names_in(stored_paper, table):
    rows = paper.read_table(table)
    return set(rows.loc[rows["paper"] == stored_paper, "model"])


def registered(paper_name):
    return {m.papers[paper_name] for m in PAPER_MODELS.values() if paper_name in m.papers}


def test_every_model_of_the_tables_is_there():
    assert registered(ROBUSTVIT) == names_in("robustvit", "robustness")
    tables = names_in("beyond_intuition", "segmentation")
    tables |= names_in("beyond_intuition", "perturbation")
    assert registered(BEYOND) == tables | {"MoCo-v3"}  # in its figures alone
    assert len(registered(IAV)) == 4


@pytest.mark.parametrize("name", PAPER_MODELS)
def test_timm_knows_the_tag(name):
    model = paper_model(name)
    cfg = get_pretrained_cfg(model.timm_name, allow_unregistered=False)
    assert model.name == name and timm.is_model(model.timm_name)
    assert cfg.input_size == (3, model.image_size, model.image_size)
    assert (name in FROM_FILES) == bool(model.url)
    if model.url:
        assert model.source == model.url
        return
    assert "." in model.timm_name, "the default tag is another model, and changes"
    assert cfg.hf_hub_id.startswith("timm/") and cfg.hf_hub_id in model.source
    assert cfg.num_classes == (0 if model.head_url else model.classes)


def test_the_first_large_model_has_no_tag():
    """The day that timm has one, the file of the old release can go."""
    with pytest.raises(RuntimeError, match="Invalid pretrained tag"):
        get_pretrained_cfg("vit_large_patch16_224.orig_in21k_ft_in1k")
    assert "4ee7a4dc" in paper_model("vit-l").url, "the hash that the download is checked with"


def test_clip_is_the_one_with_its_own_activation():
    block = load_paper_model("clip-b32", random=True, depth=1).blocks[0]
    inputs = torch.linspace(-3, 3, 7)
    torch.testing.assert_close(block.mlp.act(inputs), inputs * torch.sigmoid(1.702 * inputs))


@pytest.mark.parametrize("name", PAPER_MODELS)
def test_size_and_head_are_those_of_the_architecture(name):
    """Built without memory, at full depth."""
    model = paper_model(name)
    with torch.device("meta"):
        network = load_paper_model(name, random=True)
    size = sum(value.numel() for value in network.parameters()) * 4 / 1e6
    assert model.weights_mb == (0 if model.random else round(size))
    assert len(network.blocks) == (2 if name.endswith(CUT) else 24 if name in LARGE else 12)
    small = name.removesuffix(CUT) in SMALL
    assert network.embed_dim == (1024 if name in LARGE else 384 if small else 768)
    assert network.num_classes == model.classes
    reads = "both" if network.global_pool == "both" else head_pooling(network)
    assert reads == model.reads
    if model.reads == "both":
        assert tuple(network.head.weight.shape) == (1000, 2 * 768)


def test_licences():
    licences = {name: model.licence for name, model in PAPER_MODELS.items()}
    assert {n for n, licence in licences.items() if "NC" in licence} == {"mae-b", "moco-v3-b"}
    assert set(licences.values()) == {"Apache-2.0", "MIT", "CC-BY-NC-4.0"}


@pytest.mark.parametrize("use", [paper_model, preprocessing, paper_spec, load_paper_model])
def test_unknown_name_lists_the_names(use):
    text = f"paper_models: 'vit-h' is unknown; use one of {sorted(PAPER_MODELS)}"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        use("vit-h")


# Preprocessing


@pytest.mark.parametrize("name", set(PAPER_MODELS) - {"clip-b32"})
def test_published_preprocessing_is_one_for_all(name):
    """Also for models that were trained with other statistics (B5, D6)."""
    found = preprocessing(name)
    assert found.view == View(256, 224, "bilinear")
    assert found.mean == found.std == HALF


def test_published_clip_keeps_its_own():
    found = preprocessing("clip-b32", "published")
    assert found.view == View(224, 224, "bicubic")
    assert found.mean == pytest.approx((0.4815, 0.4578, 0.4082), abs=1e-4)


@pytest.mark.parametrize(
    ("name", "view", "mean"),
    [
        ("vit-b", View(248, 224, "bicubic"), HALF),
        ("vit-l", View(248, 224, "bicubic"), HALF),
        ("ar-s", View(248, 224, "bicubic"), HALF),
        ("deit-s", View(248, 224, "bicubic"), IMAGENET_MEAN),
        ("dino-b", View(248, 224, "bicubic"), IMAGENET_MEAN),
        ("mae-b", View(248, 224, "bicubic"), IMAGENET_MEAN),
        ("moco-v3-b", View(256, 224, "bilinear"), IMAGENET_MEAN),
    ],
)
def test_own_preprocessing(name, view, mean):
    found = preprocessing(name, "timm")
    assert (found.view, found.mean) == (view, mean)
    assert math.floor(224 / 0.9) == 248, "rounded down, as timm does"


@pytest.mark.wrong_types
def test_unknown_preset_is_an_error():
    with pytest.raises(ValueError, match=r"paper_models: preset 'mine' is unknown; use published"):
        preprocessing("vit-b", "mine")


def test_spec_normalises_by_its_preset():
    white = torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)
    published, own = (paper_spec("deit-b", preset) for preset in ("published", "timm"))
    assert published.normalise(white).flatten().tolist() == pytest.approx([1.0] * 3)
    assert own.normalise(white)[0, 0].item() == pytest.approx((1 - 0.485) / 0.229)
    assert (published.name, published.image_size) == ("deit-b", 224)
    assert published.timm_name == own.timm_name == "deit_base_patch16_224.fb_in1k"
    assert paper_spec("mae-b").options == {"global_pool": "avg"}


def test_the_documentation_lists_every_model_with_size_and_licence():
    page = (Path(__file__).parents[3] / "docs" / "paper_preset.md").read_text()
    for model in PAPER_MODELS.values():
        row = f"| `{model.timm_name}` | {model.weights_mb:,} | {model.licence} |"
        assert model.random or (f"| `{model.name}` | " in page and row in page), model.name

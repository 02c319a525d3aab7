"""One loader: names of the suite and of timm, files, modules; the same bits in plain timm."""

from __future__ import annotations

import re
from typing import get_args

import pytest
import timm
import torch

from relevit.attribution.path import path_baseline
from relevit.choices.words import SHIPPED, MiniName
from relevit.models import MODELS, load_model, model_spec, open_model, shipped_weights, sources
from relevit.models.checkpoints import read_tensors, save_weights
from replicas import weights as micro
from reproduction.training.original import untrained

from .conftest import SMALL, made, same

pytestmark = pytest.mark.usefixtures("no_network")

NAME = "vit_tiny_patch16_224"


def is_black(model, spec):
    """The model's path starts at the black of these pixels."""
    black = spec.normalise(torch.zeros(1, 3, 1, 1, dtype=torch.uint8))
    torch.testing.assert_close(path_baseline(model, black).expand_as(black), black)


# Names of the suite


@pytest.mark.parametrize("name", SHIPPED["habitats"])
def test_shipped_models_by_name(name):
    model, data = load_model(name), "cutouts" if name.startswith("tiny") else "habitats"
    tensors, facts = read_tensors(shipped_weights(name, data))
    assert same(model, {key: value.float() for key, value in tensors.items()})
    assert facts["architecture"] == name and not model.training
    is_black(model, model_spec(name))


@pytest.mark.parametrize("name", get_args(MiniName))
def test_a_mini_model_is_its_backbone_under_a_head_of_the_seed(name):
    path = shipped_weights(f"{name}-pretrained")
    tensors, _ = read_tensors(path)
    first, again, other = (
        load_model(name, weights, new_head=True, classes=10, seed=seed)
        for weights, seed in ((None, 1), (path, 1), (str(path), 2))
    )
    for model in (first, again, other):
        assert all(torch.equal(model.state_dict()[k], v.float()) for k, v in tensors.items())
        assert model.state_dict().keys() - tensors.keys() == {"head.weight", "head.bias"}
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


@pytest.mark.parametrize(("name", "size", "depth"), [("dinov2-s8", 112, 8), ("dinov2-s", 140, 12)])
def test_dinov2_is_resampled_and_cut(monkeypatch, name, size, depth):
    """Of the real one's grid, 37 x 37, in the place of the download."""
    cut = {"embed_dim": 16, "num_heads": 2}
    large = timm.create_model(MODELS["dinov2-s"].timm_name, num_classes=0, depth=12, **cut)
    state = {key: torch.randn_like(value) for key, value in large.state_dict().items()}
    before = {key: value.clone() for key, value in state.items()}
    monkeypatch.setattr(sources, "load_dinov2", lambda: state)
    own = open_model(name, classes=3, new_head=True, options=cut | {"img_size": size})
    assert own.network.pos_embed.shape[1] == 1 + (size // 14) ** 2
    assert own.network(torch.randn(2, 3, size, size)).shape == (2, 3)
    assert len(own.network.blocks) == depth
    assert torch.equal(own.network.blocks[7].norm1.weight, state["blocks.7.norm1.weight"])
    assert (own.spec.image_size, own.view.crop) == (size, size)
    assert same(state, before), "others may need them"


# Names of timm


def test_pictures_as_the_model_wants_them():
    own = open_model("vit_tiny_patch16_224.augreg_in21k_ft_in1k", "random", options=SMALL)
    assert (own.spec.mean, own.spec.std) == ((0.5,) * 3, (0.5,) * 3)
    view = own.view
    assert (view.resize, view.crop, view.interpolation, view.squash) == (35, 32, "bicubic", False)
    own.network.pretrained_cfg.update(crop_mode="squash", crop_pct=0.5, interpolation="bilinear")
    view = open_model(own.network).view
    assert (view.resize, view.crop, view.interpolation, view.squash) == (64, 32, "bilinear", True)


def test_a_file_is_resampled_only_where_a_size_is_asked_for(tmp_path):
    torch.save(made().state_dict(), tmp_path / "model.pth")
    finer = load_model(NAME, tmp_path, options=SMALL | {"img_size": 64})
    assert finer.pos_embed.shape[1] == 65
    torch.save(made(img_size=64).state_dict(), tmp_path / "other.pth")
    model = made()
    with pytest.raises(ValueError, match=r"other\.pth does not fit \(size mismatch for pos_embed"):
        load_model(model, tmp_path / "other.pth")


# The papers' models


@pytest.mark.usefixtures("micro_models")
def test_dinos_head_reads_class_token_and_mean_in_turn(tmp_path):
    tensors, head = micro.trained("dino-b"), {"weight": torch.randn(1000, 32)}
    head["bias"] = torch.randn(1000)
    torch.save(tensors, tmp_path / "dino-b.pth")
    with pytest.raises(ValueError, match=r"dino-b\.pth has no head.*dino-b-head from https.*line"):
        load_model("dino-b", tmp_path)
    torch.save(micro.linear_file(**head), tmp_path / "dino-b-head.pth")
    model, images = load_model("dino-b", tmp_path), torch.randn(2, 3, 64, 64)
    assert same(model, tensors | micro.before("head.", head)) and model.global_pool == "both"
    tokens = model.forward_features(images)
    first, mean, weight = tokens[:, 0], tokens[:, 1:].mean(dim=1), head["weight"]
    expected = first @ weight[:, 0::2].T + mean @ weight[:, 1::2].T + head["bias"]
    torch.testing.assert_close(model(images), expected)
    save_weights(tmp_path / "again.safetensors", model, "dino-b")
    assert same(load_model("dino-b", tmp_path / "again.safetensors"), model.state_dict())
    with pytest.raises(ValueError, match=r"a head of 1000 classes and 10 are asked for; give"):
        load_model("dino-b", tmp_path, classes=10)
    assert load_model("dino-b", tmp_path, classes=10, new_head=True).global_pool == "token"
    assert load_model("dino-b", "random").head.in_features == 32


@pytest.mark.parametrize("pixels", ["half", "own"])
def test_black_is_that_of_the_pixels_that_were_asked_for(pixels):
    model = load_model("deit-s-cut", "random", pixels=pixels)
    is_black(model, model_spec("deit-s", pixels=pixels))
    assert (len(model.blocks), model.embed_dim, model.num_classes) == (2, 384, 1000)


@pytest.mark.usefixtures("micro_models")
def test_weights_are_fetched_where_the_registry_says(monkeypatch):
    """From timm's hub and the authors' servers, which hold micro weights here."""
    asked, create = [], timm.create_model

    def hub(name, pretrained=False, **named):
        if pretrained:
            asked.append((name, named["num_classes"]))
        return create(name, **named)

    def server(url, *, weights_only, check_hash, **named):
        asked.append((url, weights_only, check_hash))
        if url == MODELS["dino-b"].head_url:
            return micro.linear_file(torch.randn(1000, 32), torch.randn(1000))
        return micro.trained("vit-l", 1000)

    monkeypatch.setattr(timm, "create_model", hub)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", server)
    monkeypatch.setattr("relevit.models.sources.need_hub", lambda *_: None)
    for name in ("vit-b", "vit-l", "dino-b"):
        load_model(name)
    load_model("dino-b", classes=10, new_head=True)
    dino = "vit_base_patch16_224.dino"
    assert asked == [
        ("vit_base_patch16_224.orig_in21k_ft_in1k", 1000),
        (MODELS["vit-l"].url, True, True),
        (dino, 0),
        (MODELS["dino-b"].head_url, True, True),
        (dino, 0),
    ]


# What is refused at the door

REFUSED = [  # what is asked, and the sentence
    (("vit-c",), {}, r"models: 'vit-c' is unknown; use one of .* or a name of timm's; nearest are"),
    (("vit_tiny_patch16_244",), {}, r"unknown; .*nearest are vit_tiny_patch16_224,"),
    (("vit_tiny_patch16_224.augre",), {}, r"no such weights in timm; use \['vit_tiny\S+augreg_"),
    (("vit_small_patch8_224", "random"), {"depht": 2}, r"option 'depht' is unknown to timm's"),
    ((NAME, "random"), {"num_heads": 5}, r"timm cannot make it with .*divisible by num_heads"),
    ((NAME, "random"), {"patch_size": 0}, r"timm cannot make it with .*by zero"),
    ((NAME, "random"), {"num_classes": 5}, r"leave the option 'num_classes' out; .*new_head=True,"),
    ((NAME, "random"), SMALL | {"img_size": (32, 64)}, r"32 x 64 pixels, .* cut to squares"),
    ((NAME, "random"), SMALL | {"global_pool": "map"}, r"no relevance maps: .*attention-pooling"),
    (("vit_base_patch32_plus_256",), {}, r"has no weights in timm; give weights"),
    (
        ("mini-dino", shipped_weights("mini-dino-pretrained")),
        {},
        r"has no head; give weights with .* new_head=True, or relevit",
    ),
    (("dinov2-s",), {}, r"DINOv2 has no head; give weights with a fitting head, or"),
]


@pytest.mark.parametrize(("what", "options", "text"), REFUSED)
def test_what_cannot_be_loaded_is_named(what, options, text):
    with pytest.raises(ValueError, match=rf"{re.escape(what[0])}'.*({text})|{text}"):
        load_model(*what, options=options)


def test_files_that_are_refused_are_named(tmp_path):
    for name in ("tiny", "vit-l"):
        with pytest.raises(FileNotFoundError, match=rf"{tmp_path} has no {name}\.safetensors nor"):
            load_model(name, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"other\.pth is missing"):
        load_model(NAME, tmp_path / "other.pth")
    path = tmp_path / "w.safetensors"
    for name, other in (("tiny", "dinov2-s"), ("vit_small_patch16_224.dino", NAME)):
        save_weights(path, made(), name)
        text = rf"{other}.*w\.safetensors does not fit \(it was written for '{re.escape(name)}'\)"
        with pytest.raises(ValueError, match=text):
            load_model(other, path)
    save_weights(path, made(), NAME)
    with pytest.raises(ValueError, match=r"does not fit .*it lacks blocks\.2"):
        load_model(NAME, path, options=SMALL | {"depth": 3})
    text = r"has a head of 5 classes and 7 are asked for; give weights with .*, or put"
    for model, weights, options in ((NAME, path, SMALL), (made(), None, {})):
        with pytest.raises(ValueError, match=text):
            load_model(model, weights, classes=7, options=options)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"interpolation": "lanczos"}, r"pretrained_cfg has interpolation 'lanczos'.* set model"),
        ({"crop_mode": "border"}, r"pretrained_cfg has crop_mode 'border'.* set model"),
        (None, r"set model\.pretrained_cfg"),
    ],
)
def test_modules_of_unknown_pixels_are_refused(change, text):
    model = made()
    model.pretrained_cfg = model.pretrained_cfg | change if change else None
    with pytest.raises(ValueError, match=text):
        load_model(model)


def test_random_weights_follow_the_seed_and_leave_torchs_alone():
    state = torch.random.get_rng_state()
    one, same_again, other = (load_model("tiny", "random", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert same(one, same_again.state_dict()) and not same(one, other.state_dict())
    assert same(untrained("tiny"), one.state_dict())
    with pytest.raises(ValueError, match=r"only the trained 'tiny-mae' comes .*train_shipped\.py"):
        untrained("tiny-mae")

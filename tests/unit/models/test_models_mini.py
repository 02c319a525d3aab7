"""The four small models that are pretrained in other ways: names, backbones, shipped weights."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest
import torch

from relevit.config.base import MiniName
from relevit.config.iav import MINIS
from relevit.data.foregrounds import CLASSES
from relevit.iav import KINDS, class_attention
from relevit.models.checkpoints import load_weights, read_tensors
from relevit.models.loading import (
    MINI_KINDS,
    MODELS,
    build_model,
    load_backbone,
    load_pretrained,
    model_spec,
    shipped_weights,
)
from relevit.training.recipes import RECIPES, save_backbone

pytestmark = pytest.mark.usefixtures("no_network")

MICRO = {"patch_size": 14, "embed_dim": 16, "depth": 2, "num_heads": 2}
HEAD = {"head.weight", "head.bias"}
LARGEST_BYTES = 1.4e6


@pytest.fixture
def micro(monkeypatch):
    """Small versions of the models under their own names; 56 px, so 4 x 4 patches."""
    for name in MINI_KINDS:
        monkeypatch.setitem(MODELS, name, replace(MODELS[name], image_size=56, options=MICRO))


def log_of(name):
    path = shipped_weights(f"{name}-pretrained").with_name(f"{name}-pretraining.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


# Names


def test_every_list_has_the_same_names():
    assert get_args(MiniName) == tuple(MINI_KINDS) == tuple(RECIPES) == tuple(MINIS)
    assert sorted(MINI_KINDS.values()) == sorted(2 * KINDS)


def test_they_are_one_architecture_with_the_papers_depth():
    models = {name: build_model(name) for name in MINI_KINDS}
    shapes = [{key: v.shape for key, v in m.state_dict().items()} for m in models.values()]
    assert all(shape == shapes[0] for shape in shapes)
    assert len({replace(model_spec(name), name="").__repr__() for name in models}) == 1
    model = models["mini-dino"]
    assert (len(model.blocks), model.blocks[0].attn.num_heads) == (12, 4)
    assert (model.patch_embed.grid_size, model.global_pool) == ((8, 8), "token")
    assert tuple(class_attention(model, torch.zeros(1, 3, 112, 112)).shape) == (1, 12, 4, 64)


# Backbones


@pytest.mark.parametrize("name", MINI_KINDS)
@pytest.mark.parametrize("classes", [len(CLASSES), 10])
def test_backbone_of_a_file_is_under_a_new_head(micro, tmp_path, name, classes):
    trained, path = build_model(name, seed=7, classes=100), tmp_path / "backbone.safetensors"
    save_backbone(trained, path)
    state = torch.random.get_rng_state()
    model = load_pretrained(name, seed=3, classes=classes, backbone=path)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.num_classes == classes
    start = build_model(name, seed=3, classes=classes).state_dict()
    for key, value in model.state_dict().items():
        expected = start[key] if key in HEAD else trained.state_dict()[key].half().float()
        assert value.dtype == torch.float32 and torch.equal(value, expected), key


def test_heads_of_other_seeds_differ_over_the_same_backbone(micro, tmp_path):
    save_backbone(build_model("mini-mae"), tmp_path / "backbone.safetensors")
    load = [
        load_pretrained("mini-mae", seed, 10, tmp_path / "backbone.safetensors").state_dict()
        for seed in (0, 1)
    ]
    differing = {key for key, value in load[0].items() if not torch.equal(value, load[1][key])}
    assert differing == {"head.weight"}, "timm's heads start without bias"


def test_a_missing_backbone_is_an_error(micro, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors is missing; run the stage"):
        load_pretrained("mini-mae", backbone=tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"blocks.1.norm1.bias": None}, r"missing_keys=.*blocks\.1\.norm1\.bias"),
        ({"blocks.2.norm1.bias": torch.zeros(16)}, r"unexpected_keys=.*blocks\.2\.norm1\.bias"),
        ({"head.bias": torch.zeros(40)}, r"missing_keys=\['head\.weight'\]"),
        ({"cls_token": torch.zeros(1, 1, 32)}, "size mismatch for cls_token"),
    ],
    ids=["less", "more", "a head", "size"],
)
def test_tensors_that_do_not_fit_are_an_error_on_one_line(micro, change, named):
    model = build_model("mini-mae")
    whole = {key: value for key, value in model.state_dict().items() if key not in HEAD}
    load_backbone(model, whole, "mini-mae")
    other = {key: value for key, value in (whole | change).items() if value is not None}
    text = f"^models: the tensors of 'mini-mae' do not fit timm's model: .*{named}"
    with pytest.raises(ValueError, match=text) as caught:
        load_backbone(model, other, "mini-mae")
    assert "\n" not in str(caught.value)


# What comes with the package


@pytest.mark.parametrize("name", MINI_KINDS)
def test_shipped_backbone_is_small_and_in_half_precision(name):
    path = shipped_weights(f"{name}-pretrained")
    assert path.stat().st_size < LARGEST_BYTES
    tensors, _ = read_tensors(path)
    assert tensors.keys() == build_model(name).state_dict().keys() - HEAD
    assert {value.dtype for value in tensors.values()} == {torch.float16}
    assert all(value.isfinite().all() for value in tensors.values())


@pytest.mark.parametrize("name", MINI_KINDS)
def test_shipped_backbone_is_what_is_loaded(name):
    model = load_pretrained(name, classes=10)
    for key, value in read_tensors(shipped_weights(f"{name}-pretrained"))[0].items():
        assert torch.equal(model.state_dict()[key], value.float()), key
    with torch.no_grad():
        assert model.eval()(torch.zeros(2, 3, 112, 112)).isfinite().all()


def test_no_two_backbones_are_the_same():
    patches = [load_pretrained(name).patch_embed.proj.weight for name in MINI_KINDS]
    for i, weights in enumerate(patches):
        assert not any(torch.equal(weights, other) for other in patches[:i])


@pytest.mark.parametrize("name", MINI_KINDS)
def test_shipped_log_has_a_row_an_epoch(name):
    rows = log_of(name)
    assert rows and all(any(key.startswith("validation_") for key in row) for row in rows)
    assert rows[-1]["epoch"] == RECIPES[name].epochs
    assert [row["epoch"] for row in rows] == list(range(len(rows)))


@pytest.mark.parametrize("name", MINI_KINDS)
def test_only_their_pretraining_is_shipped(name):
    with pytest.raises(ValueError, match=f"models: no weights of '{name}' come with the package"):
        shipped_weights(name)


def test_a_backbone_is_no_finetuned_model():
    path = shipped_weights("mini-dino-pretrained")
    with pytest.raises(ValueError, match=r"is for model '\(none given\)', not 'mini-dino'"):
        load_weights(path, build_model("mini-dino"), "mini-dino")

"""Any timm model: by name, from files, as a module; the same bits in plain timm; refusals."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import timm
import torch

from relevit.attribution import gae
from relevit.models import MODELS, any_timm
from relevit.models.any_timm import open_model
from relevit.models.checkpoints import save_weights
from relevit.models.loading import load_model

pytestmark = pytest.mark.usefixtures("no_network")

NAME = "vit_tiny_patch16_224"
SMALL = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
BEIT = SMALL | {"init_values": 0.1}
FAMILIES = (
    (NAME, SMALL),
    ("tiny", {}),
    ("deit_tiny_distilled_patch16_224", SMALL),
    ("beit_base_patch16_224", BEIT),
    ("vit_small_patch14_reg4_dinov2", SMALL | {"patch_size": 4}),
)
PLAIN = """
import sys, timm, torch
torch.set_num_threads(1)
answers = []
for name, classes, path, options, images in torch.load(sys.argv[1]):
    model = timm.create_model(name, num_classes=classes, checkpoint_path=path, **options).eval()
    with torch.no_grad():
        answers.append(model(images))
torch.save(answers, sys.argv[2])
assert not any(name.startswith("relevit") for name in sys.modules)
"""


def made(name=NAME, classes=5, **options):
    """A small model of timm's whose weights are not where one starts."""
    torch.manual_seed(3)
    model = timm.create_model(name, num_classes=classes, **(SMALL | options)).eval()
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.2)
    return model


def stored(path: Path, model, architecture=NAME) -> Path:
    save_weights(path, model, architecture)
    return path


def pictures(size=32, count=3):
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def hub(monkeypatch):
    """timm's hub in small: weights of five classes; what was asked for."""
    asked, create = [], timm.create_model

    def fetch(name, pretrained=False, **named):
        if not pretrained:
            return create(name, **named)
        asked.append((name, named["num_classes"]))
        return made(name, **named | {"classes": named.pop("num_classes")})

    monkeypatch.setattr(timm, "create_model", fetch)
    return asked


def test_plain_timm_gives_the_same_bits(tmp_path, hub):
    asked, answers = [], []
    for name, options in FAMILIES:
        own = open_model(name, classes=3, new_head=True, options=options, seed=5)
        spec, network = own.spec, own.network
        images, path = pictures(spec.image_size), tmp_path / f"{name}.safetensors"
        step = torch.optim.SGD(network.parameters(), lr=0.1)
        torch.nn.functional.cross_entropy(network(images), torch.arange(3)).backward()
        step.step()
        save_weights(path, network, spec.name)
        asked.append((spec.timm_name, spec.classes, str(path), spec.options, images))
        with torch.no_grad():
            answers.append(network(images))
        again = open_model(name, path, options=options)
        with torch.no_grad():
            assert torch.equal(again.network(images), answers[-1])
        assert (again.spec, again.view) == (spec, own.view)
        assert not again.new_head and not again.network.training
    torch.save(asked, tmp_path / "asked.pt")
    command = [sys.executable, "-I", "-c", PLAIN, tmp_path / "asked.pt", tmp_path / "answers.pt"]
    subprocess.run(command, check=True)
    for ours, theirs in zip(answers, torch.load(tmp_path / "answers.pt"), strict=True):
        assert torch.equal(ours, theirs)


def test_pictures_as_the_model_wants_them(hub):
    own = open_model("vit_tiny_patch16_224.augreg_in21k_ft_in1k", classes=1000, options=SMALL)
    assert (own.spec.mean, own.spec.std) == ((0.5,) * 3, (0.5,) * 3)
    view = own.view
    assert (view.resize, view.crop, view.interpolation, view.squash) == (35, 32, "bicubic", False)
    assert own.spec.image_size == 32 and own.spec.classes == 1000
    assert all(weights.requires_grad for weights in own.network.parameters())
    network = own.network
    network.pretrained_cfg.update(crop_mode="squash", crop_pct=0.5, interpolation="bilinear")
    view = open_model(network).view
    assert (view.resize, view.crop, view.interpolation, view.squash) == (64, 32, "bilinear", True)


def test_the_hub_gives_the_body_and_a_seed_the_head(hub):
    first, same, other = (
        open_model(NAME, classes=3, new_head=True, options=SMALL, seed=seed) for seed in (1, 1, 2)
    )
    assert hub == [(NAME, 1000)] * 3
    assert torch.equal(first.network.head.weight, same.network.head.weight)
    assert not torch.equal(first.network.head.weight, other.network.head.weight)
    assert torch.equal(first.network.norm.weight, made(classes=1000).norm.weight)
    known = open_model(NAME, options=SMALL).network
    replaced = open_model(NAME, classes=1000, new_head=True, options=SMALL).network
    assert not torch.equal(known.head.weight, replaced.head.weight)


def test_names_of_the_suite():
    own = open_model("tiny", classes=40)
    images = pictures(112)
    torch.testing.assert_close(own.network(images), load_model("tiny")(images))
    assert own.spec.mean == MODELS["tiny"].mean and own.view.resize == own.view.crop == 112
    body = open_model("tiny", classes=7, new_head=True)
    assert body.new_head and body.network.head.out_features == 7
    assert torch.equal(body.network.pos_embed, own.network.pos_embed)


def test_dinov2_at_another_size(monkeypatch, tmp_path):
    torch.manual_seed(0)
    cut = {"embed_dim": 16, "num_heads": 2}
    large = timm.create_model(MODELS["dinov2-s"].timm_name, num_classes=0, depth=12, **cut)
    state = {k: torch.randn_like(v) for k, v in large.state_dict().items()}
    monkeypatch.setattr(any_timm, "load_dinov2", lambda: dict(state))
    for name, size in (("dinov2-s8", 112), ("dinov2-s", 140)):
        own = open_model(name, classes=3, new_head=True, options=cut | {"img_size": size})
        assert own.network.pos_embed.shape[1] == 1 + (size // 14) ** 2
        assert own.network(pictures(size)).shape == (3, 3)
        assert torch.equal(own.network.blocks[7].norm1.weight, state["blocks.7.norm1.weight"])
    with pytest.raises(ValueError, match=r"have no head; give classes and new_head=True"):
        open_model("dinov2-s", options=cut)
    torch.save(state, tmp_path / "dino.pth")
    with pytest.raises(ValueError, match=r"size mismatch for pos_embed.*img_size"):
        open_model("dinov2-s", tmp_path / "dino.pth", classes=3, new_head=True, options=cut)


def test_files_of_others(tmp_path):
    model = made()
    torch.save({"state_dict": {f"module.{k}": v for k, v in model.state_dict().items()}},
               tmp_path / "model.pth")  # fmt: skip
    for place in (tmp_path, tmp_path / "model.pth"):
        own = open_model(NAME, place, options=SMALL)
        assert own.spec.classes == 5
        assert torch.equal(own.network(pictures()), model(pictures()))
    finer = open_model(NAME, tmp_path, options=SMALL | {"img_size": 64})
    assert finer.network.pos_embed.shape[1] == 65
    with pytest.raises(FileNotFoundError, match=r"other\.pth is missing"):
        open_model(NAME, tmp_path / "other.pth", options=SMALL)
    stored(tmp_path / "w.safetensors", model, "vit_small_patch16_224.dino")
    with pytest.raises(ValueError, match=r"written for 'vit_small_patch16_224\.dino'.*tiny_patch"):
        open_model(NAME, tmp_path / "w.safetensors", options=SMALL)
    with pytest.raises(ValueError, match=r"does not fit .*it lacks blocks\.2"):
        open_model(NAME, tmp_path, options=SMALL | {"depth": 3})


def test_a_module_as_it_is():
    model = made().train()
    own = open_model(model, classes=5)
    assert own.network is model and not model.training
    assert own.spec.name.startswith(NAME) and own.spec.options == {"img_size": 32}
    head = model.head.weight.clone()
    other = open_model(model, classes=2, new_head=True)
    assert other.network is not model and torch.equal(model.head.weight, head)
    assert gae(other.network, pictures()).shape == (3, 16)
    with pytest.raises(ValueError, match=r"options \['depth'\] are for models made by name"):
        open_model(model, options={"depth": 2})
    del model.pretrained_cfg
    with pytest.raises(ValueError, match=r"set model\.pretrained_cfg"):
        open_model(model)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("vit_tiny_patch16_244", {}, r"unknown; .*nearest are vit_tiny_patch16_224,"),
        ("vit_tiny_patch16_224.augre", {}, r"no such weights in timm; use \['vit_tiny\S+augreg_"),
        ("deit-b", {}, r"the papers' name; use timm's: 'deit_base_patch16_224\.fb_in1k'"),
        ("vit_small_patch8_224", {"depht": 2}, r"option 'depht' is unknown to timm's"),
        (NAME, {"num_heads": 5}, r"timm cannot make it with .*divisible by num_heads"),
        (NAME, {"patch_size": 0}, r"timm cannot make it with .*by zero"),
        (NAME, {"num_classes": 5}, r"option 'num_classes' is set here: give classes"),
        (NAME, SMALL | {"img_size": (32, 64)}, r"32 x 64 pixels, .* need squares"),
        ("vit_base_patch16_sapiens2.fb", {}, r"1024 x 768 pixels, .* need squares"),
        ("resnet18", {}, r"no relevance maps: .*ResNet has no blocks.*use a timm .*DINOv2"),
        ("cait_xxs24_224", {}, r"no relevance maps: .*Cait has no blocks"),
        ("xcit_nano_12_p16_224", {}, r"no relevance maps: .*made a map of shape"),
        (NAME, SMALL | {"global_pool": "map"}, r"no relevance maps: pooling: 'map' .*DINOv2"),
        ("vit_base_patch16_xp_224", {}, r"has no weights in timm; give weights"),
    ],
)
def test_what_cannot_be_opened(name, options, text):
    with pytest.raises(ValueError, match=f"model '{re.escape(name)}'.*{text}"):
        open_model(name, classes=4, new_head=True, options=options)


def test_another_number_of_classes_needs_a_new_head(tmp_path):
    text = r"have a head of 5 classes and 7 are asked for; give new_head=True \(--new-head\)"
    path = stored(tmp_path / "w.safetensors", made())
    for model, weights, options in ((NAME, path, SMALL), (made(), None, {})):
        with pytest.raises(ValueError, match=text):
            open_model(model, weights, classes=7, options=options)
    with pytest.raises(ValueError, match=r"have no head and 7 are asked for"):
        open_model("vit_small_patch14_dinov2", classes=7)


@pytest.mark.parametrize(("key", "value"), [("interpolation", "lanczos"), ("crop_mode", "border")])
def test_pictures_prepared_in_an_unknown_way(key, value):
    model = made()
    model.pretrained_cfg[key] = value
    with pytest.raises(ValueError, match=rf"pretrained_cfg has {key} '{value}'.* set model"):
        open_model(model)


def test_without_a_connection(monkeypatch):
    create = timm.create_model

    def fails(name, pretrained=False, **named):
        if pretrained:
            raise OSError("We couldn't connect\nto the hub")
        return create(name, **named)

    monkeypatch.setattr(timm, "create_model", fails)
    with pytest.raises(ConnectionError, match=r"couldn't connect to the hub\); .* give weights"):
        open_model(NAME, options=SMALL)

"""Names, weights and pixel statistics of the models, the four small ones that are pretrained in
other ways among them; no network connection."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import get_args

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn

from relevit.attribution.path import path_baseline
from relevit.config import ModelName
from relevit.config.iav import MINIS
from relevit.config.words import MiniName
from relevit.data.drawings import CLASSES
from relevit.iav import KINDS, class_attention
from relevit.models import loading as models
from relevit.models.checkpoints import load_weights, read_tensors, save_weights
from relevit.models.loading import (
    MINI_KINDS,
    MODELS,
    ModelSpec,
    build_model,
    load_backbone,
    load_model,
    load_pretrained,
    model_spec,
    shipped_weights,
)
from relevit.models.registry import PAPER_MODELS

pytestmark = pytest.mark.usefixtures("no_network")

SMALL = {"embed_dim": 16, "depth": 2, "num_heads": 2}
HEAD = {"head.weight", "head.bias"}
LARGEST_BYTES = 1.4e6  # of a shipped backbone


@pytest.fixture
def small(monkeypatch):
    """Small versions of the models under their own names; 56 px, so 4 x 4 patches."""
    for name, spec in tuple(MODELS.items()):
        options = spec.options | SMALL
        monkeypatch.setitem(MODELS, name, replace(spec, image_size=56, options=options))


@pytest.fixture
def backbone(small, monkeypatch):
    """A small DINOv2 with the grid of the real one, 37 x 37, in the place of the download."""
    torch.manual_seed(3)
    model = timm.create_model(MODELS["dinov2-s"].timm_name, img_size=518, num_classes=0, **SMALL)
    torch.nn.init.normal_(model.pos_embed)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    monkeypatch.setattr(models, "load_dinov2", lambda: dict(state))
    return state


def save_backbone(model, path):
    save_file({k: v.half() for k, v in model.state_dict().items() if k not in HEAD}, path)


def equal(model, tensors):
    state = model.state_dict()
    return state.keys() == tensors.keys() and all(torch.equal(state[k], tensors[k]) for k in state)


# Names


@pytest.mark.parametrize("use", [model_spec, build_model, load_pretrained, load_model])
def test_unknown_name_lists_the_names(use):
    known = sorted(MODELS) + sorted(PAPER_MODELS)
    text = f"models: 'vit-c' is unknown; use one of {known}, or for any ViT of timm's timm.create_"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        use("vit-c")


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_device_that_is_not_there_is_an_error(device):
    with pytest.raises(ValueError, match=f"device '{device}'"):
        load_model("tiny", device=device)


def test_models_of_the_papers_are_not_pretrained_here():
    with pytest.raises(ValueError, match="'vit-b' comes trained with its head; use load_model"):
        load_pretrained("vit-b")


def test_the_parameters_know_the_same_names_and_classes():
    assert get_args(ModelName) == tuple(MODELS)
    assert {spec.classes for spec in MODELS.values()} == {len(CLASSES)}


@pytest.mark.parametrize("name", MODELS)
def test_specs_fit_the_benchmark(name):
    spec = model_spec(name)
    assert spec.name == name
    assert 16 <= spec.image_size <= 128
    assert all(0 < value < 1 for value in spec.mean + spec.std)


@pytest.mark.parametrize("name", MODELS)
def test_model_has_the_classes_and_the_image_size(small, name):
    model = build_model(name)
    assert model.num_classes == len(CLASSES)
    assert model.patch_embed.grid_size == (4, 4)
    assert model.num_prefix_tokens == 1


@pytest.mark.parametrize("name", ["tiny", "tiny-mae"])
def test_tiny_is_what_its_spec_says(name):
    model = build_model(name)
    side = model_spec(name).image_size
    assert tuple(model.patch_embed.img_size) == (side, side)
    assert len(model.blocks) == model_spec(name).options["depth"]
    with torch.no_grad():
        assert tuple(model(torch.zeros(2, 3, side, side)).shape) == (2, len(CLASSES))


def test_only_the_self_supervised_model_pools_the_average():
    """As MAE's finetuning does: the mean over the patches, then the norm."""
    tiny, averaged = build_model("tiny"), build_model("tiny-mae")
    assert (tiny.global_pool, averaged.global_pool) == ("token", "avg")
    assert isinstance(averaged.norm, nn.Identity) and isinstance(averaged.fc_norm, nn.LayerNorm)
    tokens = torch.randn(2, 65, 128, generator=torch.Generator().manual_seed(0))
    other_class_token = tokens.clone()
    other_class_token[:, 0] += 1
    head = averaged.forward_head
    torch.testing.assert_close(head(tokens), averaged.head(averaged.fc_norm(tokens[:, 1:].mean(1))))
    assert torch.equal(head(tokens), head(other_class_token))


@pytest.mark.parametrize("name", MODELS)
def test_black_follows_from_the_models_own_statistics(small, name):
    """The attribution paths start there and see the model alone, not its spec."""
    model, spec = build_model(name), model_spec(name)
    black = spec.normalise(torch.zeros(1, 3, 1, 1, dtype=torch.uint8))
    start = path_baseline(model, black, "described")
    torch.testing.assert_close(start.expand_as(black), black)


def test_statistics_of_other_models_stay(small):
    before = timm.create_model(MODELS["tiny"].timm_name).pretrained_cfg
    build_model("tiny").pretrained_cfg["mean"] = None
    assert timm.create_model(MODELS["tiny"].timm_name).pretrained_cfg == before
    assert build_model("tiny").pretrained_cfg["mean"] == MODELS["tiny"].mean


@pytest.mark.parametrize("build", [build_model, load_pretrained])
def test_initial_weights_follow_the_seed_and_leave_torchs_alone(small, build):
    state = torch.random.get_rng_state()
    one = build("tiny").state_dict()
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(99)
    assert equal(build("tiny"), one)
    assert equal(build("tiny", seed=0), one)
    assert not equal(build("tiny", seed=1), one)


# Pretrained


def test_pretrained_backbone_is_under_a_new_head(backbone):
    model = load_pretrained("dinov2-s")
    state = model.state_dict()
    assert set(state) - set(backbone) == HEAD
    for key in set(backbone) - {"pos_embed"}:
        assert torch.equal(state[key], backbone[key]), key
    assert tuple(state["head.weight"].shape) == (len(CLASSES), 16)


def test_position_embedding_is_resampled(backbone):
    position = load_pretrained("dinov2-s").pos_embed.detach()
    assert tuple(position.shape) == (1, 1 + 4 * 4, 16)
    assert torch.equal(position[:, :1], backbone["pos_embed"][:, :1])
    # Smaller, but the same picture: the means over the grid stay close.
    theirs = backbone["pos_embed"][:, 1:].mean(dim=1)
    torch.testing.assert_close(position[:, 1:].mean(dim=1), theirs, rtol=0, atol=0.15)


def test_backbone_takes_images_of_another_size(backbone):
    model = load_pretrained("dinov2-s", image_size=112)
    assert tuple(model.pos_embed.shape) == (1, 1 + 8 * 8, 16)
    assert model(torch.zeros(1, 3, 112, 112)).shape == (1, len(CLASSES))


def test_tiny_has_no_pretraining(small, monkeypatch):
    monkeypatch.setattr(models, "load_dinov2", lambda: pytest.fail("tiny needs no download"))
    assert equal(load_pretrained("tiny", 4), build_model("tiny", 4).state_dict())


def test_the_pretraining_of_tiny_mae_is_not_shipped(small):
    text = r"models: only the trained 'tiny-mae' comes .*tools/train_shipped\.py tiny-mae"
    with pytest.raises(ValueError, match=text):
        load_pretrained("tiny-mae")


def test_a_download_that_does_not_fit_is_an_error(backbone, monkeypatch):
    tensors = {k: v for k, v in backbone.items() if k != "blocks.1.norm1.bias"}
    monkeypatch.setattr(models, "load_dinov2", lambda: tensors)
    text = r"models: the tensors of 'dinov2-s' do not fit timm's model: .*blocks\.1\.norm1\.bias"
    with pytest.raises(ValueError, match=text):
        load_pretrained("dinov2-s")


def test_resampling_leaves_the_loaded_tensors_alone(small, monkeypatch):
    """Who gave them out may still need them, and the second call must not see the first."""
    torch.manual_seed(3)
    model = timm.create_model(MODELS["dinov2-s"].timm_name, img_size=518, num_classes=0, **SMALL)
    tensors = model.state_dict()
    monkeypatch.setattr(models, "load_dinov2", lambda: tensors)
    first = load_pretrained("dinov2-s").pos_embed
    assert torch.equal(load_pretrained("dinov2-s").pos_embed, first)


# Trained


def test_weights_of_a_file(small, tmp_path):
    trained = build_model("tiny", seed=1)
    path = tmp_path / "weights.safetensors"
    save_weights(path, trained, "tiny")
    model = load_model("tiny", path)
    assert equal(model, trained.state_dict())
    assert not model.training and model.head.weight.device.type == "cpu"


def test_a_path_may_be_text(small, tmp_path):
    trained, path = build_model("mini-mae", seed=1), str(tmp_path / "weights.safetensors")
    save_weights(path, trained, "mini-mae")
    assert equal(load_model("mini-mae", path), trained.state_dict())
    save_backbone(trained, tmp_path / "backbone.safetensors")
    assert load_pretrained("mini-mae", backbone=str(tmp_path / "backbone.safetensors"))
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors is missing; run the stage"):
        load_model("tiny", "none.safetensors")


def test_weights_of_another_model_are_an_error(small, tmp_path):
    path = tmp_path / "weights.safetensors"
    save_weights(path, build_model("tiny"), "tiny")
    text = f"weights: {re.escape(str(path))} is for model 'tiny', not 'dinov2-s'"
    with pytest.raises(ValueError, match=text):
        load_model("dinov2-s", path)


def test_weights_that_are_missing_are_an_error(small, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors is missing; run the stage"):
        load_model("tiny", tmp_path / "none.safetensors")
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors is missing; run the stage"):
        load_pretrained("mini-mae", backbone=tmp_path / "none.safetensors")


def test_shipped_weights(small, tmp_path, monkeypatch):
    folder = tmp_path / "assets" / "weights"
    folder.mkdir(parents=True)
    trained = build_model("tiny", seed=1)
    save_weights(folder / "tiny.safetensors", trained, "tiny")
    monkeypatch.setattr(models, "files", lambda package: tmp_path)
    assert shipped_weights("tiny") == folder / "tiny.safetensors"
    assert equal(load_model("tiny"), trained.state_dict())
    text = "models: no weights of 'dinov2-s' for cutouts come with the package; train it with the"
    for use in (shipped_weights, load_model):
        with pytest.raises(ValueError, match=text):
            use("dinov2-s")


def test_model_that_is_shipped_for_habitats_alone_needs_no_file():
    assert equal(load_model("dinov2-s8"), read_tensors(shipped_weights("dinov2-s8", "habitats"))[0])


# Four pretrainings of one architecture


def test_every_list_has_the_same_names():
    assert get_args(MiniName) == tuple(MINI_KINDS) == tuple(MINIS)
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


@pytest.mark.parametrize("name", MINI_KINDS)
@pytest.mark.parametrize("classes", [len(CLASSES), 10])
def test_backbone_of_a_file_is_under_a_new_head(small, tmp_path, name, classes):
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


def test_heads_of_other_seeds_differ_over_the_same_backbone(small, tmp_path):
    save_backbone(build_model("mini-mae"), tmp_path / "backbone.safetensors")
    load = [
        load_pretrained("mini-mae", seed, 10, tmp_path / "backbone.safetensors").state_dict()
        for seed in (0, 1)
    ]
    differing = {key for key, value in load[0].items() if not torch.equal(value, load[1][key])}
    assert differing == {"head.weight"}, "timm's heads start without bias"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"blocks.1.norm1.bias": None}, r"'blocks\.1\.norm1\.bias' and 0 more"),
        ({"blocks.2.norm1.bias": torch.zeros(16)}, r"'blocks\.2\.norm1\.bias' and 0 more"),
        ({"head.bias": torch.zeros(40)}, r"'head\.bias' and 0 more"),
        ({"cls_token": torch.zeros(1, 1, 32)}, "size mismatch for cls_token"),
    ],
    ids=["less", "more", "a head", "size"],
)
def test_tensors_that_do_not_fit_are_an_error_on_one_line(small, change, named):
    model = build_model("mini-mae")
    whole = {key: value for key, value in model.state_dict().items() if key not in HEAD}
    load_backbone(model, whole, "mini-mae")
    other = {key: value for key, value in (whole | change).items() if value is not None}
    text = f"^models: the tensors of 'mini-mae' do not fit timm's model: .*{named}"
    with pytest.raises(ValueError, match=text) as caught:
        load_backbone(model, other, "mini-mae")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            torch.Tensor.long,
            r"torch\.int64 in 'cls_token', where the model has torch\.float32; save",
        ),
        (torch.Tensor.double, r"torch\.float64 in 'cls_token'"),
        (lambda tensor: tensor / 0, r"NaN or infinity in 'cls_token'"),
    ],
    ids=["int64", "float64", "infinity"],
)
def test_a_backbone_of_other_numbers_is_an_error_and_fills_nothing(small, change, text):
    model = build_model("mini-mae")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    whole = {key: value + 1 for key, value in before.items() if key not in HEAD}
    with pytest.raises(ValueError, match=rf"^models: the tensors of 'mini-mae' hold {text}"):
        load_backbone(model, whole | {"cls_token": change(whole["cls_token"])}, "mini-mae")
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


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
    path = shipped_weights(f"{name}-pretrained").with_suffix(".jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows and all(any(key.startswith("validation_") for key in row) for row in rows)
    assert rows[-1]["epoch"] == 8
    assert [row["epoch"] for row in rows] == list(range(len(rows)))


@pytest.mark.parametrize("name", MINI_KINDS)
def test_only_their_pretraining_is_shipped(name):
    with pytest.raises(ValueError, match=f"models: no weights of {name!r} for cutouts come with"):
        shipped_weights(name)


def test_a_backbone_is_no_finetuned_model():
    path = shipped_weights("mini-dino-pretrained")
    with pytest.raises(ValueError, match=r"is for model '\(none given\)', not 'mini-dino'"):
        load_weights(path, build_model("mini-dino"), "mini-dino")


# Pixels


@pytest.mark.parametrize("name", MODELS)
def test_normalise_and_back(name):
    spec = model_spec(name)
    images = torch.arange(256).to(torch.uint8).reshape(1, 1, 16, 16).expand(2, 3, -1, -1)
    normal = spec.normalise(images)
    assert normal.dtype == torch.float32
    back = spec.denormalise(normal)
    assert torch.equal((back * 255).round().to(torch.uint8), images)
    assert back.min() >= 0 and back.max() <= 1


def test_normalise_by_hand():
    spec = ModelSpec("x", "none", 16, mean=(0.5, 0.25, 0.0), std=(0.5, 0.25, 2.0))
    pixels = torch.tensor([255, 0, 51], dtype=torch.uint8).reshape(1, 3, 1, 1)
    assert spec.normalise(pixels).flatten().tolist() == pytest.approx([1.0, -1.0, 0.1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_normalise_takes_the_dtype_of_the_weights(dtype):
    pixels = torch.full((1, 3, 2, 2), 7, dtype=torch.uint8)
    spec = model_spec("tiny")
    found = spec.normalise(pixels, like=torch.zeros(1, dtype=dtype))
    assert found.dtype == dtype
    expected = spec.normalise(pixels).to(dtype)
    torch.testing.assert_close(found, expected)


def test_statistics_are_made_once_a_model_and_device(monkeypatch):
    """A copy for every batch would make a GPU wait."""
    specs = [ModelSpec("x", "none", 16, mean=(0.5, 0.25, m), std=(0.5, 0.3, 1.7)) for m in (0, 1)]
    pixels = torch.full((1, 3, 1, 1), 51, dtype=torch.uint8)
    first = [spec.normalise(pixels) for spec in specs]
    assert not torch.equal(*first)
    monkeypatch.setattr(torch, "tensor", None)
    again = [spec.normalise(pixels, like=pixels.bfloat16()) for spec in specs]
    assert all(torch.equal(new, old.bfloat16()) for new, old in zip(again, first, strict=True))


@pytest.mark.wrong_types  # pixels that can have a gradient
def test_statistics_made_without_gradients_serve_gradients_too():
    spec = ModelSpec("x", "none", 16, mean=(0.5, 0.25, 0.0), std=(0.5, 0.31, 2.0))
    pixels = torch.full((1, 3, 1, 1), 51.0)
    with torch.inference_mode():
        spec.normalise(pixels)
    spec.normalise(pixels.requires_grad_()).sum().backward()
    expected = [1 / (255 * std) for std in spec.std]
    assert pixels.grad.flatten().tolist() == pytest.approx(expected)


def test_denormalise_stays_within_the_picture():
    spec = model_spec("tiny")
    found = spec.denormalise(torch.tensor([-9.0, 9.0, 0.0]).reshape(1, 3, 1, 1).bfloat16())
    assert found.flatten().tolist() == [0.0, 1.0, 0.5]

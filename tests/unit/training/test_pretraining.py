"""Every recipe of pretraining on a two-block model, and where the backbones go."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import torch

from relevit.config import PretrainingParams
from relevit.data import cutouts
from relevit.data.things import PRETRAINING
from relevit.models.checkpoints import read_tensors
from relevit.models.loading import MINI_KINDS, MODELS, build_model, load_pretrained, shipped_weights
from relevit.training.recipes import RECIPES, backbone_file, make_backbone, pretrain, save_backbone

pytestmark = pytest.mark.usefixtures("no_network", "micro")

OPTIONS = {"patch_size": 14, "embed_dim": 16, "depth": 2, "num_heads": 2}
SIZE = 56  # pixels, so 4 x 4 patches
HEAD = {"head.weight", "head.bias"}
RESULT = ("weights.safetensors", "log.jsonl")
SUPERVISED = [name for name, kind in MINI_KINDS.items() if kind == "supervised"]
FIGURES = {
    "mini-supervised": {"validation_top1_pct"},
    "mini-deit": {"validation_top1_pct"},
    "mini-mae": {"validation_loss"},
    "mini-dino": {"validation_loss", "target_entropy", "usage_entropy", "feature_spread"},
}


@pytest.fixture
def micro(monkeypatch):
    """Two-block models under the four names."""
    for name in MINI_KINDS:
        monkeypatch.setitem(MODELS, name, replace(MODELS[name], image_size=SIZE, options=OPTIONS))


def short(name, **changes):
    return replace(RECIPES[name], images=24, epochs=2, batch_size=12, **changes)


def run(name, folder, **named):
    return pretrain(name, folder, short(name), validation_images=10, **named)


def result(folder):
    return {name: (folder / name).read_bytes() for name in RESULT}


def same(model, other):
    """Names of the weights that are equal in both."""
    pairs, theirs = model.state_dict().items(), other.state_dict()
    return {key for key, value in pairs if torch.equal(value, theirs[key])}


def params(folder, **values):
    values = {"pretraining_images": 100, "pretraining_epochs": 1} | values
    return PretrainingParams(output_root=str(folder), **values)


# Recipes


def test_recipes_differ_in_their_task_alone():
    assert len({(r.images, r.epochs, r.batch_size, r.seed) for r in RECIPES.values()}) == 1
    plain, strong = asdict(RECIPES["mini-supervised"]), asdict(RECIPES["mini-deit"])
    assert {key for key in plain if plain[key] != strong[key]} == {"mixing"}
    assert plain["fresh"], "the others show new images in every epoch, too"


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_trains_the_body_and_its_head_with_labels_alone(tmp_path, name):
    rows = []
    model, history = run(name, tmp_path, on_epoch=rows.append)
    assert history == rows == [json.loads(line) for line in (tmp_path / "log.jsonl").open()]
    assert [row["epoch"] for row in history] == [0, 1, 2]
    assert set(history[0]) == {"epoch"} | FIGURES[name]
    assert set(history[2]) == {"epoch", "train_loss", "curve"} | FIGURES[name]
    assert not model.training and model.num_classes == len(PRETRAINING.classes)
    untouched = same(model, build_model(name, classes=len(PRETRAINING.classes)))
    assert untouched == (set() if name in SUPERVISED else HEAD)


@pytest.mark.parametrize("name", RECIPES)
def test_every_epoch_shows_new_things_and_no_animal(tmp_path, monkeypatch, name):
    asked, draw = {"train": [], "validation": []}, cutouts.draw

    def spy(set_name, indices, *, drawings, size, seed=0, **named):
        assert drawings is PRETRAINING and size == SIZE
        asked[set_name].extend(indices)
        return draw(set_name, indices, drawings=drawings, size=size, seed=seed, **named)

    monkeypatch.setattr(cutouts, "draw", spy)
    run(name, tmp_path)
    assert sorted(asked["train"][:24]) == list(range(24))
    assert sorted(asked["train"][24:]) == list(range(24, 48))
    assert asked["validation"] == list(range(10)), "drawn once"


@pytest.mark.parametrize("name", RECIPES)
def test_stopped_and_resumed_same_bytes(tmp_path, name):
    def stop(row):
        if row["epoch"] == 1:
            raise KeyboardInterrupt

    whole, _ = run(name, tmp_path / "whole")
    torch.manual_seed(99)
    state = torch.random.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        run(name, tmp_path / "stopped", on_epoch=stop)
    again, _ = run(name, tmp_path / "stopped")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert result(tmp_path / "stopped") == result(tmp_path / "whole")
    assert same(again, whole) == set(whole.state_dict())


@pytest.mark.parametrize("name", RECIPES)
def test_another_seed_is_another_model(tmp_path, name):
    first, _ = run(name, tmp_path / "first")
    other, _ = pretrain(name, tmp_path / "other", short(name, seed=1), validation_images=10)
    shared = same(first, other)
    assert not any(key.endswith("attn.qkv.weight") for key in shared)


def test_unknown_name_lists_the_recipes(tmp_path):
    with pytest.raises(ValueError, match=r"pretraining: 'tiny' is unknown; use one of \['mini-dei"):
        pretrain("tiny", tmp_path / "none")
    assert not (tmp_path / "none").exists()


# Backbones


def test_saved_backbone_is_the_body_in_half_precision(tmp_path):
    model = build_model("mini-mae")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    save_backbone(model, tmp_path / "one.safetensors")
    save_backbone(model, tmp_path / "two.safetensors")
    tensors, _ = read_tensors(tmp_path / "one.safetensors")
    assert tensors.keys() == before.keys() - HEAD
    for key, value in tensors.items():
        assert value.dtype == torch.float16
        torch.testing.assert_close(value.float(), before[key], rtol=2**-11, atol=2**-25)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    one, two = ((tmp_path / f"{name}.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "one.safetensors",
        "two.safetensors",
    ]


def test_saved_and_loaded_backbone_gives_nearly_the_same_features(tmp_path):
    model = build_model("mini-dino").eval()
    save_backbone(model, tmp_path / "backbone.safetensors")
    loaded = load_pretrained("mini-dino", backbone=tmp_path / "backbone.safetensors").eval()
    images = torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, theirs = model.forward_features(images), loaded.forward_features(images)
    torch.testing.assert_close(theirs, ours, rtol=0, atol=5e-3)


@pytest.mark.parametrize("name", RECIPES)
def test_shipped_backbone_comes_with_its_log(tmp_path, name):
    seen = []
    history = make_backbone(params(tmp_path, source="shipped"), name, seen.append)
    log = shipped_weights(f"{name}-pretrained").with_name(f"{name}-pretraining.jsonl")
    assert history == [json.loads(line) for line in log.read_text().splitlines()]
    assert seen == history[-1:]
    assert list(tmp_path.iterdir()) == [], "nothing is trained or copied"


@pytest.mark.parametrize("name", RECIPES)
def test_backbone_is_trained_once_on_request(tmp_path, name):
    cfg, rows = params(tmp_path, source="train"), []
    history = make_backbone(cfg, name, rows.append)
    assert history == rows and [row["epoch"] for row in history] == [0, 1]
    path = backbone_file(cfg, name)
    assert path == tmp_path / "quick" / "07_pretraining" / "pretrained" / f"{name}.safetensors"
    trained = read_tensors(path.parent / name / "weights.safetensors")[0]
    inside = {"mini-mae": "encoder.", "mini-dino": "teacher.encoder."}.get(name, "")
    for key, value in read_tensors(path)[0].items():
        assert torch.equal(value, trained[inside + key].half()), key
    before = path.read_bytes()
    assert make_backbone(cfg, name, rows.append) == history
    assert len(rows) == 2, "a finished pretraining is only read"
    assert path.read_bytes() == before


def test_the_parameters_set_how_long_it_is_trained(tmp_path):
    steps = []
    make_backbone(
        params(tmp_path, source="train", pretraining_images=130), "mini-mae", steps.append
    )
    assert len(steps[1]["curve"]) == 3, "130 images in batches of 64"

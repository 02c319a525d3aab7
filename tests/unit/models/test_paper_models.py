"""The papers' models from files in their authors' layouts, on micro networks."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional

from relevit.attribution.path import path_baseline
from relevit.models import paper_models
from relevit.models.paper_models import load_paper_model
from relevit.models.registry import paper_spec
from replicas import weights as micro

pytestmark = pytest.mark.usefixtures("no_network", "micro_models")


def same(model, tensors):
    state = model.state_dict()
    return state.keys() == tensors.keys() and all(torch.equal(state[k], tensors[k]) for k in state)


def images(count=2):
    return torch.randn(count, 3, 64, 64, generator=torch.Generator().manual_seed(0))


# Layouts


@pytest.mark.parametrize("layout", micro.LAYOUTS)
def test_every_layout_gives_all_tensors(tmp_path, layout):
    bare = layout in micro.WITHOUT_HEAD
    tensors = micro.trained("dino-b", 0 if bare else 1000)
    path = tmp_path / "file.pth.tar"
    torch.save(micro.LAYOUTS[layout](tensors), path)
    state = torch.random.get_rng_state()
    model = load_paper_model("dino-b", classes=0 if bare else None, weights=path)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert same(model, tensors) and not model.training


@pytest.mark.parametrize("ending", ["safetensors", "pth", "bin", "pth.tar"])
def test_a_folder_holds_the_file_by_name(tmp_path, ending):
    tensors = micro.trained("ar-s", 1000)
    path = tmp_path / f"ar-s.{ending}"
    save_file(tensors, path) if ending == "safetensors" else torch.save(tensors, path)
    assert same(load_paper_model("ar-s", weights=tmp_path), tensors)
    assert same(load_paper_model("ar-s", weights=str(tmp_path)), tensors)


@pytest.mark.parametrize(("name", "classes"), [("mae-b", 1000), ("beit-b", 30)])
def test_models_that_pool_the_mean(tmp_path, name, classes):
    tensors = micro.trained(name, classes)
    torch.save(micro.mae(tensors), tmp_path / f"{name}.pth")
    model = load_paper_model(name, classes=classes, weights=tmp_path)
    assert same(model, tensors) and model.global_pool == "avg"


def test_a_pretraining_of_mae_has_no_head(tmp_path):
    """Its norm is before the pooling; the new one after it starts at one."""
    tensors = micro.trained("mae-b", 0, global_pool="token")
    more = {"mask_token": torch.zeros(1, 1, 8), "decoder_embed.weight": torch.zeros(8, 16)}
    torch.save({"model": tensors | more}, tmp_path / "mae-b.pth")
    with pytest.raises(ValueError, match=r"mae-b\.pth has no head of 'mae-b' for 1000 classes"):
        load_paper_model("mae-b", weights=tmp_path)
    model = load_paper_model("mae-b", classes=5, weights=tmp_path)
    assert torch.equal(model.fc_norm.weight, torch.ones(16))
    assert torch.equal(model.blocks[1].mlp.fc2.weight, tensors["blocks.1.mlp.fc2.weight"])


def test_openais_clip_is_read(tmp_path):
    tensors = micro.trained("clip-b32", 512)
    tensors["head.bias"].zero_()  # its projection has none
    torch.save(micro.as_openai(tensors), tmp_path / "clip-b32.pth")
    assert same(load_paper_model("clip-b32", weights=tmp_path), tensors)
    weight, bias = torch.randn(3, 16), torch.randn(3)
    torch.save(micro.linear_file(weight, bias), tmp_path / "head.pth")
    probed = load_paper_model("clip-b32", classes=3, weights=tmp_path, head=tmp_path / "head.pth")
    assert torch.equal(probed.head.weight, weight) and torch.equal(probed.head.bias, bias)
    new = load_paper_model("clip-b32", weights=tmp_path, head="new")
    assert not torch.equal(new.head.weight, tensors["head.weight"])


# Heads


@pytest.fixture
def dino_folder(tmp_path):
    tensors = micro.trained("dino-b")
    head = {"weight": torch.randn(1000, 32), "bias": torch.randn(1000)}
    torch.save(tensors, tmp_path / "dino-b.pth")
    torch.save(micro.linear_file(**head), tmp_path / "dino-b-head.pth")
    return tmp_path, tensors, head


def test_dinos_head_reads_class_token_and_mean_in_turn(dino_folder):
    folder, tensors, head = dino_folder
    model = load_paper_model("dino-b", weights=folder)
    assert same(model, tensors | micro.before("head.", head))
    tokens = model.forward_features(images())
    first, mean = tokens[:, 0], tokens[:, 1:].mean(dim=1)
    weight = head["weight"]
    expected = first @ weight[:, 0::2].T + mean @ weight[:, 1::2].T + head["bias"]
    torch.testing.assert_close(model(images()), expected)
    one_after_the_other = functional.linear(torch.cat([first, mean], dim=1), weight, head["bias"])
    assert not torch.allclose(one_after_the_other, expected, atol=0.1)
    assert model.global_pool == "both", "not the class token alone, which others would cut to"
    torch.testing.assert_close(copy.deepcopy(model)(images()), expected)


def test_what_the_suite_wrote_is_read_again(dino_folder, tmp_path):
    whole = load_paper_model("dino-b", weights=dino_folder[0]).state_dict()
    save_file(whole, tmp_path / "again.safetensors")
    assert same(load_paper_model("dino-b", weights=tmp_path / "again.safetensors"), whole)
    finetuned = micro.trained("dino-b", 10)
    save_file(finetuned, tmp_path / "ten.safetensors")
    model = load_paper_model("dino-b", classes=10, weights=tmp_path / "ten.safetensors")
    assert same(model, finetuned), "a trained head of as many classes stays"
    assert model.global_pool == "token"


def test_mocos_head_comes_from_its_linear_file(tmp_path):
    tensors = micro.trained("moco-v3-b")
    linear = micro.trained("moco-v3-b", 1000, seed=8)
    torch.save(micro.moco(tensors), tmp_path / "moco-v3-b.pth.tar")
    torch.save(micro.robustvit(linear), tmp_path / "linear.pth.tar")
    head = {key: linear[key] for key in ("head.weight", "head.bias")}
    model = load_paper_model("moco-v3-b", weights=tmp_path, head=tmp_path / "linear.pth.tar")
    assert same(model, tensors | head)


@pytest.mark.parametrize(("classes", "head"), [(10, None), (10, "new"), (1000, "new")])
def test_a_new_head_is_drawn_from_the_seed(tmp_path, classes, head):
    tensors = micro.trained("vit-b", 1000)
    torch.save(tensors, tmp_path / "vit-b.pth")
    heads = [
        load_paper_model("vit-b", classes=classes, weights=tmp_path, head=head, seed=seed).head
        for seed in (3, 3, 4)
    ]
    assert [tuple(h.weight.shape) for h in heads] == [(classes, 16)] * 3
    assert torch.equal(heads[0].weight, heads[1].weight)
    assert not torch.equal(heads[0].weight, heads[2].weight)
    assert not torch.equal(heads[0].weight, tensors["head.weight"][:classes])


def test_no_head_for_imagenet_is_an_error(tmp_path):
    torch.save(micro.trained("dino-b"), tmp_path / "dino-b.pth")
    text = (
        r"paper_models: .*dino-b\.pth has no head of 'dino-b' for 1000 classes; give head=, a "
        r'file with one \(published: https.*linearweights\.pth\), or head="new" to train one'
    )
    with pytest.raises(ValueError, match=text):
        load_paper_model("dino-b", weights=tmp_path)


def test_a_head_of_other_classes_is_an_error(dino_folder):
    folder = dino_folder[0]
    text = r"dino-b-head\.pth does not fit 'dino-b' \(it has 1000 classes and not 10\)"
    with pytest.raises(ValueError, match=text):
        load_paper_model("dino-b", classes=10, weights=folder, head=folder / "dino-b-head.pth")


# Random, and black


def test_random_models_are_the_true_ones_cut(monkeypatch):
    monkeypatch.setattr(paper_models.timm, "create_model", micro.CREATE)
    state = torch.random.get_rng_state()
    model, again, other = (
        load_paper_model("ar-s", random=True, depth=1, seed=seed) for seed in (5, 5, 6)
    )
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (len(model.blocks), model.embed_dim, model.num_classes) == (1, 384, 1000)
    assert (model.blocks[0].attn.num_heads, model.patch_embed.grid_size) == (6, (14, 14))
    assert same(again, model.state_dict()) and not same(other, model.state_dict())


def test_random_dino_has_the_published_head():
    published, new = (load_paper_model("dino-b", random=True, head=h) for h in (None, "new"))
    assert (published.head.in_features, new.head.in_features) == (32, 16)
    assert tuple(published(images()).shape) == tuple(new(images()).shape) == (2, 1000)


@pytest.mark.parametrize("preset", ["published", "timm"])
def test_black_follows_the_preset(preset):
    spec = paper_spec("deit-s", preset)
    model = load_paper_model("deit-s", random=True, preset=preset)
    black = spec.normalise(torch.zeros(1, 3, 1, 1, dtype=torch.uint8))
    torch.testing.assert_close(path_baseline(model, black, "described").expand_as(black), black)

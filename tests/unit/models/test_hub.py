"""The paper's models from files, and from a hub that is not there: small ones in their place."""

from __future__ import annotations

import io
import pickle
from typing import get_args
from unittest.mock import Mock

import pytest
import timm
import torch
from safetensors.torch import save_file

from relevit.config import HubName
from relevit.iav import KINDS, class_attention
from relevit.models import hub as hub_models
from relevit.models.hub import HUB_KINDS, HUB_MODELS, build_hub_model, load_hub_model, weights_file
from replicas import weights as micro
from replicas.pictures import Harmful

pytestmark = pytest.mark.usefixtures("no_network", "micro_models")

NAMES = ("dino-b", "beit-b")  # one of each architecture
HEAD = {"head.weight", "head.bias"}


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def same_backbone(model, state):
    own = model.state_dict()
    return all(torch.equal(own[key], state[key]) for key in own.keys() - HEAD)


# Names


def test_the_parameters_know_the_same_names():
    assert get_args(HubName) == tuple(HUB_MODELS) == tuple(HUB_KINDS)
    assert sorted(HUB_KINDS.values()) == sorted(2 * KINDS)


@pytest.mark.parametrize("name", HUB_MODELS)
def test_statistics_and_size_are_those_of_the_weights(name):
    spec, timms = HUB_MODELS[name], timm.get_pretrained_cfg(HUB_MODELS[name].timm_name)
    assert spec.name == name
    assert (spec.mean, spec.std) == (timms.mean, timms.std)
    assert timms.input_size == (3, spec.image_size, spec.image_size)


@pytest.mark.parametrize("use", [build_hub_model, load_hub_model])
def test_unknown_name_lists_the_names(use, tmp_path):
    text = r"hub: 'vit-b' is unknown; use one of \['beit-b', 'deit-b', 'dino-b', 'vit-b-in"
    with pytest.raises(ValueError, match=text):
        use("vit-b", 10)
    with pytest.raises(ValueError, match=text):
        weights_file("vit-b", tmp_path)


@pytest.mark.parametrize("name", HUB_MODELS)
def test_heads_of_all_four_are_read(name):
    model = build_hub_model(name, 10)
    assert model.num_classes == 10
    rows = class_attention(model.eval(), torch.zeros(2, 3, 64, 64))
    assert tuple(rows.shape) == (2, 2, 2, 16)


def test_architecture_leaves_torchs_generator_alone(name):
    state = torch.random.get_rng_state()
    build_hub_model(name, 10)
    assert torch.equal(torch.random.get_rng_state(), state)


# From a file


@pytest.mark.parametrize("ending", ["safetensors", "pth", "bin"])
@pytest.mark.parametrize("classes", [0, 5, 10])
def test_backbone_of_a_file_is_under_a_new_head(tmp_path, name, ending, classes):
    """Whatever head the file has, as many classes or not: it is another task's."""
    trained = micro.trained(name, classes)
    path = tmp_path / f"{name}.{ending}"
    save_file(trained, path) if ending == "safetensors" else torch.save(trained, path)
    state = torch.random.get_rng_state()
    model = load_hub_model(name, 10, seed=3, folder=tmp_path)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert same_backbone(model, trained)
    head = model.head.weight
    assert tuple(head.shape) == (10, 16)
    assert classes != 10 or not torch.equal(head, trained["head.weight"])
    again, other = (load_hub_model(name, 10, seed, tmp_path).head.weight for seed in (3, 4))
    assert torch.equal(head, again) and not torch.equal(head, other)


def test_beits_own_pretraining_is_read(tmp_path):
    """One table of positions for all blocks, a norm before the pooling, a head for hidden patches;
    finetuning's norm after the pooling is new."""
    trained = micro.trained("beit-b")
    tables = [key for key in trained if key.endswith("relative_position_bias_table")]
    shared = trained[tables[0]]
    pretraining = {k: v for k, v in trained.items() if k not in tables and "fc_norm" not in k}
    pretraining |= {
        "rel_pos_bias.relative_position_bias_table": shared,
        "rel_pos_bias.relative_position_index": torch.zeros(5, 5, dtype=torch.long),
        "mask_token": torch.zeros(1, 1, 16),
        "norm.weight": torch.full((16,), 5.0),
        "norm.bias": torch.full((16,), 5.0),
        "lm_head.weight": torch.zeros(30, 16),
        "lm_head.bias": torch.zeros(30),
    }
    torch.save({"model": pretraining}, tmp_path / "beit-b.pth")
    model = load_hub_model("beit-b", 10, folder=tmp_path)
    expected = trained | dict.fromkeys(tables, shared)
    expected |= {"fc_norm.weight": torch.ones(16), "fc_norm.bias": torch.zeros(16)}
    assert len(tables) == 2 and same_backbone(model, expected)


def test_safetensors_come_first_and_home_is_known(tmp_path, monkeypatch):
    for ending in ("bin", "pth", "safetensors"):
        (tmp_path / f"dino-b.{ending}").write_bytes(b"x")
        assert weights_file("dino-b", tmp_path).suffix == f".{ending}"
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    assert weights_file("dino-b", hub_models.Path("~") / tmp_path.name).parent == tmp_path


# Errors


@pytest.mark.parametrize("ending", ["pth", "bin", "safetensors"])
@pytest.mark.parametrize("write", [torch.save, "pickle"])
def test_code_in_a_file_is_never_run(tmp_path, name, ending, write):
    made, path = tmp_path / "made", tmp_path / f"{name}.{ending}"
    content = {"model": micro.trained(name), "extra": Harmful(made)}
    write(content, path) if write is torch.save else path.write_bytes(pickle.dumps(content, 2))
    with pytest.raises(ValueError, match=rf"hub: .*{name}\.{ending} does not fit '{name}'"):
        load_hub_model(name, 10, folder=tmp_path)
    assert not made.exists()
    file = io.BytesIO(path.read_bytes())
    torch.load(file, weights_only=False) if write is torch.save else pickle.load(file)
    assert made.exists(), "the file would have harmed"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("less", r"\(blocks\.1\.mlp\.fc1\.bias and [01] more are in one of them alone\)"),
        ("more", r"\(blocks\.2\.mlp\.fc1\.bias and 0 more are in one of them alone\)"),
        ("renamed", r"\((blocks\.0\.attn\.\S+ and \d\d more are in one|Beit has no attr.*student)"),
        ("size", r"size mismatch for cls_token"),
        ("list", r"\(it holds a list and not tensors by name\)"),
    ],
)
def test_weights_of_another_architecture_are_an_error(tmp_path, name, kind, text):
    """timm by itself would leave at random what it does not find."""
    torch.save(micro.CHANGES[kind](micro.trained(name)), tmp_path / f"{name}.pth")
    timm_name = HUB_MODELS[name].timm_name
    with pytest.raises(ValueError, match=f"{text}.*; use the checkpoint of {timm_name}") as caught:
        load_hub_model(name, 10, folder=tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no pickle", b"PK\x03\x04 and no more"])
@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_damaged_files_are_an_error(tmp_path, content, ending):
    (tmp_path / f"deit-b.{ending}").write_bytes(content)
    with pytest.raises(ValueError, match=rf"hub: .*deit-b\.{ending} does not fit 'deit-b'"):
        load_hub_model("deit-b", 10, folder=tmp_path)


def test_a_folder_without_the_file_is_an_error(tmp_path):
    (tmp_path / "dino-b.npz").write_bytes(b"x")
    text = (
        r"hub: .* has no dino-b\.safetensors \(nor \.pth, \.bin\); put the weights of "
        r"vit_base_patch16_224\.dino there, or leave weights_root empty"
    )
    with pytest.raises(FileNotFoundError, match=text):
        load_hub_model("dino-b", 10, folder=tmp_path)


def test_a_hub_that_cannot_be_reached_is_an_error():
    text = (
        r"hub: the weights of vit_base_patch16_224\.dino cannot be had \(We couldn't "
        r"connect to the hub\.\); give weights_root, a folder with dino-b\.safetensors"
    )
    state = torch.random.get_rng_state()
    with pytest.raises(ConnectionError, match=text):
        load_hub_model("dino-b", 10)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_hub_is_asked_for_the_named_weights(monkeypatch):
    create = Mock(return_value=torch.nn.Identity())
    monkeypatch.setattr(timm, "create_model", create)
    assert load_hub_model("deit-b", 10) is create.return_value
    create.assert_called_once_with("deit_base_patch16_224.fb_in1k", pretrained=True, num_classes=10)

"""Weights in their authors' layouts, on micro networks; files that do not fit; pickles."""

from __future__ import annotations

import pickle

import pytest
import timm
import torch

from relevit.models import load_model
from replicas import weights as micro
from replicas.pictures import Harmful

from .conftest import same

pytestmark = pytest.mark.usefixtures("no_network", "micro_models")


@pytest.mark.parametrize("layout", micro.LAYOUTS)
def test_every_layout_gives_all_tensors(tmp_path, layout):
    bare = layout in micro.WITHOUT_HEAD
    tensors = micro.trained("dino-b", 0 if bare else 1000)
    path = tmp_path / "file.pth.tar"
    torch.save(micro.LAYOUTS[layout](tensors), path)
    state = torch.random.get_rng_state()
    model = load_model("dino-b", path, classes=0 if bare else None)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert same(model, tensors) and not model.training


@pytest.mark.parametrize(
    "prefix", ["module.", "_orig_mod.", "_orig_mod.module.", "model.", "net.model."]
)
@pytest.mark.parametrize("new_head", [False, True])
def test_what_distributed_and_compiled_training_puts_before_names_is_taken_off(
    tmp_path, prefix, new_head
):
    tensors, path = micro.trained("vit-b", 3), tmp_path / "last.ckpt"
    torch.save({"state_dict": micro.before(prefix, tensors), "epoch": 9}, path)
    model = load_model("vit-b", path, classes=3, new_head=new_head)
    assert same(model, tensors) != new_head
    assert torch.equal(model.blocks[1].mlp.fc2.weight, tensors["blocks.1.mlp.fc2.weight"])


ELSEWHERE = {
    "another wrapper": lambda t: {"model_state_dict": t},
    "two wrappers": lambda t: {"checkpoint": {"state_dict": t}},
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_network_in_another_place_is_refused(tmp_path, where):
    torch.save(ELSEWHERE[where](micro.trained("vit-b", 3)) | {"epoch": 9}, tmp_path / "vit-b.pth")
    told = "it holds no Vision Transformer: no name is patch_embed.*save the network's state_dict"
    with pytest.raises(ValueError, match=told):
        load_model("vit-b", tmp_path)


@pytest.mark.parametrize(
    "keys",
    [
        "state_dict state_dict_ema",
        "model model_ema",
        "model_ema",
        "model state_dict",
        "state_dict model_ema state_dict_ema",
    ],
)
def test_of_averaged_and_plain_weights_timms_are_taken(tmp_path, keys):
    file = {key: micro.trained("vit-b", 3, seed=seed) for seed, key in enumerate(keys.split())}
    torch.save(file | {"epoch": 9, "arch": "vit"}, tmp_path / "vit-b.pth.tar")
    theirs = timm.models.load_state_dict(str(tmp_path / "vit-b.pth.tar"))
    assert same(load_model("vit-b", tmp_path), theirs)


@pytest.mark.parametrize("averaged", ["ema", "model_ema_state", "ema.module"])
def test_averaged_weights_that_timm_does_not_know_are_asked_for(tmp_path, averaged):
    tensors, path = micro.trained("vit-b", 3), tmp_path / "vit-b.pth"
    nameless = {"ema": {"shadow_params": list(tensors.values())}}
    for content in (
        {"model": tensors, averaged: tensors},
        {"state_dict": tensors | micro.before(f"{averaged}.", tensors)},
        {"model": tensors} | nameless,
        tensors | nameless,
    ):
        torch.save(content | {"epoch": 9}, path)
        told = r"several networks, blocks and \S*ema\S*\.blocks: save .* mostly the averaged"
        with pytest.raises(ValueError, match=told):
            load_model("vit-b", path)
    torch.save({"n_averaged": torch.tensor(7)} | micro.before("module.", tensors), path)
    with pytest.raises(ValueError, match="n_averaged is left over"):  # torch's AveragedModel
        load_model("vit-b", path)


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ({}, "no head"),
        ({"head.1.weight": (3, 16), "head.1.bias": (3,)}, "a head that is not one linear"),
    ],
)
def test_what_is_no_linear_head_is_not_taken_for_one(tmp_path, heads, said):
    tensors = micro.trained("vit-b")
    file = tensors | {name: torch.ones(size) for name, size in heads.items()}
    torch.save(file, tmp_path / "vit-b.pth")
    with pytest.raises(ValueError, match=rf"vit-b\.pth has {said}.* relevit finetune --new-head"):
        load_model("vit-b", tmp_path, classes=3)
    new = load_model("vit-b", tmp_path, classes=3, new_head=True).state_dict()
    assert all(torch.equal(new[key], value) for key, value in tensors.items())


@pytest.mark.parametrize(("name", "classes"), [("mae-b", 1000), ("beit-b", 30)])
def test_models_that_pool_the_mean(tmp_path, name, classes):
    tensors = micro.trained(name, classes)
    torch.save(micro.mae(tensors), tmp_path / f"{name}.pth")
    model = load_model(name, tmp_path, classes=classes)
    assert same(model, tensors) and model.global_pool == "avg"


def test_a_pretraining_of_mae_has_no_head(tmp_path):
    """Its norm is before the pooling; the new one after it starts at one."""
    tensors = micro.trained("mae-b", 0, global_pool="token")
    more = {"mask_token": torch.zeros(1, 1, 8), "decoder_embed.weight": torch.zeros(8, 16)}
    torch.save({"model": tensors | more}, tmp_path / "mae-b.pth")
    with pytest.raises(ValueError, match=r"mae-b\.pth has no head; give weights .*new_head=True"):
        load_model("mae-b", tmp_path)
    model = load_model("mae-b", tmp_path, classes=5, new_head=True)
    assert torch.equal(model.fc_norm.weight, torch.ones(16))
    assert torch.equal(model.blocks[1].mlp.fc2.weight, tensors["blocks.1.mlp.fc2.weight"])


def test_beits_own_pretraining_is_read(tmp_path):
    """One table of positions for all blocks, a norm before the pooling, a head for hidden patches;
    finetuning's norm after the pooling is new."""
    trained = micro.trained("beit-b")
    tables = [key for key in trained if key.endswith("relative_position_bias_table")]
    pretraining = {k: v for k, v in trained.items() if k not in tables and "fc_norm" not in k}
    pretraining |= {
        "rel_pos_bias.relative_position_bias_table": trained[tables[0]],
        "rel_pos_bias.relative_position_index": torch.zeros(5, 5, dtype=torch.long),
        "mask_token": torch.zeros(1, 1, 16),
        **{f"norm.{kind}": torch.full((16,), 5.0) for kind in ("weight", "bias")},
        "lm_head.weight": torch.zeros(30, 16),
        "lm_head.bias": torch.zeros(30),
    }
    torch.save({"model": pretraining}, tmp_path / "beit-b.pth")
    found = load_model("beit-b", tmp_path, classes=10, new_head=True).state_dict()
    expected = trained | dict.fromkeys(tables, trained[tables[0]])
    expected |= {"fc_norm.weight": torch.ones(16), "fc_norm.bias": torch.zeros(16)}
    body = {key: value for key, value in found.items() if not key.startswith("head.")}
    assert len(tables) == 2 and same(body, expected)


def test_openais_clip_is_read(tmp_path):
    tensors = micro.trained("clip-b32", 512)
    tensors["head.bias"].zero_()  # its projection has none
    torch.save(micro.as_openai(tensors), tmp_path / "clip-b32.pth")
    assert same(load_model("clip-b32", tmp_path), tensors)
    new = load_model("clip-b32", tmp_path, new_head=True)
    assert not torch.equal(new.head.weight, tensors["head.weight"])
    weight, bias = torch.randn(3, 16), torch.randn(3)
    torch.save(micro.linear_file(weight, bias), tmp_path / "clip-b32-head.pth")
    probed = load_model("clip-b32", tmp_path, classes=3)
    assert torch.equal(probed.head.weight, weight) and torch.equal(probed.head.bias, bias)


def test_mocos_head_comes_from_its_linear_file(tmp_path):
    tensors, linear = micro.trained("moco-v3-b"), micro.trained("moco-v3-b", 1000, seed=8)
    torch.save(micro.moco(tensors), tmp_path / "moco-v3-b.pth.tar")
    torch.save(micro.robustvit(linear), tmp_path / "moco-v3-b-head.pth.tar")
    head = {key: linear[key] for key in ("head.weight", "head.bias")}
    assert same(load_model("moco-v3-b", tmp_path), tensors | head)


@pytest.mark.parametrize("layout", micro.LAYOUTS)
@pytest.mark.parametrize("write", ["torch", "pickle"])
def test_code_in_a_file_is_not_run(tmp_path, layout, write):
    ran, path = tmp_path / "made", tmp_path / "vit-b.pth"
    content = micro.LAYOUTS[layout](micro.trained("vit-b", 1000)) | {"extra": Harmful(ran)}
    torch.save(content, path) if write == "torch" else path.write_bytes(pickle.dumps(content, 2))
    text = r"'vit-b': .*vit-b\.pth does not fit \(it is damaged, or holds more than tensors and"
    with pytest.raises(ValueError, match=text):
        load_model("vit-b", tmp_path)
    assert not ran.exists()
    if write == "torch":
        torch.load(path, weights_only=False)
        assert ran.exists(), "the file would have harmed"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("less", r"\(it lacks blocks\.1\.mlp\.fc1\.bias \(2 in all\)\)"),
        ("more", r"\(blocks\.2\.mlp\.fc1\.bias is left over \(1 in all\)\)"),
        ("both", r"it lacks blocks\.1\.\S+ \(12 in all\); blocks\.2\.\S+ is left over \(12 in"),
        ("logits", r"\(pre_logits\.fc\.weight is left over \(1 in all\)\)"),
        ("size", r"size mismatch for cls_token"),
        ("pictures", r"size mismatch for pos_embed: \(1, 65, 16\) in the file, \(1, 17, 16\) in"),
        ("patches", r"size mismatch for patch_embed\.proj\.weight: \(16, 3, 8, 8\) in the file"),
        ("nan", r"\(NaN or infinity in 'blocks\.0\.norm1\.bias'; the run"),
        ("whole numbers", r"\(torch\.int64 in 'blocks\.0\.norm1\.bias', where the model has"),
        ("double", r"\(torch\.float64 in '\S+', where the model has torch\.float32"),
        ("list", r"\(it holds a list and not tensors by name"),
        ("other", r"\(it holds no Vision Transformer: no name is patch_embed"),
    ],
)
@pytest.mark.parametrize("new_head", [False, True])
def test_a_file_that_fits_in_part_is_an_error(tmp_path, change, text, new_head):
    """timm would resample, or leave at random what it does not find, without a word."""
    torch.save(micro.CHANGES[change](micro.trained("vit-b", 1000)), tmp_path / "vit-b.pth")
    if (change, new_head) == ("logits", True):
        return  # what a new head replaces
    told = rf"'vit-b': .*vit-b\.pth does not fit.*{text}.*use weights of vit_base_.*orig_in21k_ft"
    with pytest.raises(ValueError, match=told):
        load_model("vit-b", tmp_path, new_head=new_head)

"""Files that do not fit, pickles with code, and sources that cannot be reached."""

from __future__ import annotations

import pickle

import pytest
import torch

from relevit.models import paper_models
from relevit.models.paper_models import load_paper_model
from relevit.models.registry import PAPER_MODELS
from replicas import weights as micro
from replicas.pictures import Harmful

pytestmark = pytest.mark.usefixtures("no_network", "micro_models")


@pytest.mark.parametrize("layout", micro.LAYOUTS)
@pytest.mark.parametrize("write", ["torch", "pickle"])
def test_code_in_a_file_is_not_run(tmp_path, layout, write):
    made, path = tmp_path / "made", tmp_path / "vit-b.pth"
    content = micro.LAYOUTS[layout](micro.trained("vit-b", 1000)) | {"extra": Harmful(made)}
    torch.save(content, path) if write == "torch" else path.write_bytes(pickle.dumps(content, 2))
    text = (
        r"paper_models: .*vit-b\.pth does not fit 'vit-b' \(it is damaged or holds more than "
        r"tensors, and was not run; trust=True runs it: only if you know where it comes from\)"
    )
    for options in ({}, {"classes": 10}, {"classes": 0}):
        with pytest.raises(ValueError, match=text):
            load_paper_model("vit-b", weights=tmp_path, **options)
    clean = tmp_path / "clean.pth"
    torch.save(micro.trained("vit-b", 1000), clean)
    with pytest.raises(ValueError, match="not run"):
        load_paper_model("vit-b", classes=5, weights=clean, head=path)
    assert not made.exists()
    if write == "torch":
        torch.load(path, weights_only=False)
        assert made.exists(), "the file would have harmed"


def test_trust_runs_what_a_file_says(tmp_path):
    made, tensors = tmp_path / "made", micro.trained("vit-b", 1000)
    content = micro.robustvit(tensors) | {"extra": Harmful(made)}
    torch.save(content, tmp_path / "vit-b.pth")
    model = load_paper_model("vit-b", weights=tmp_path, trust=True)
    assert made.exists()
    assert torch.equal(model.head.weight, tensors["head.weight"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("less", r"\(it lacks blocks\.1\.mlp\.fc1\.bias \(2 in all\)\)"),
        ("more", r"\(blocks\.2\.mlp\.fc1\.bias is left over \(1 in all\)\)"),
        ("both", r"it lacks blocks\.1\.\S+ \(12 in all\); blocks\.2\.\S+ is left over \(12 in"),
        ("half", r"it lacks cls_token \(\d\d in all\); module\.\S+ is left over"),
        ("logits", r"\(pre_logits\.fc\.weight is left over \(1 in all\)\)"),
        ("size", r"size mismatch for cls_token"),
        ("pictures", r"size mismatch for pos_embed: \(1, 65, 16\) in the file, \(1, 17, 16\) in"),
        ("patches", r"size mismatch for patch_embed\.proj\.weight: \(16, 3, 8, 8\) in the file"),
        ("nan", r"\(NaN or infinity in 'blocks\.0\.norm1\.bias'; the run"),
        ("whole numbers", r"\(torch\.int64 in 'blocks\.0\.norm1\.bias', where the model has"),
        ("double", r"\(torch\.float64 in '\S+', where the model has torch\.float32"),
        ("list", r"\(it holds a list and not tensors by name"),
        ("number", r"\('epoch' is of type int and not a tensor\)"),
    ],
)
def test_a_file_that_fits_in_part_is_an_error(tmp_path, change, text):
    """timm would resample, or leave at random what it does not find, without a word."""
    path = tmp_path / "vit-b.pth"
    torch.save(micro.CHANGES[change](micro.trained("vit-b", 1000)), path)
    options = {"head": "new"} if change == "half" else {}
    with pytest.raises(
        ValueError, match=rf"paper_models: .*vit-b\.pth does not fit 'vit-b'.*{text}"
    ) as caught:
        load_paper_model("vit-b", weights=tmp_path, **options)
    assert "use the weights of vit_base_patch16_224.orig_in21k_ft_in1k" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_heads_are_no_matter_where_none_is_wanted(tmp_path):
    tensors = micro.trained("vit-b-in21k", 21843)
    more = {"pre_logits.fc.weight": torch.zeros(16, 16), "pre_logits.fc.bias": torch.zeros(16)}
    torch.save(tensors | more, tmp_path / "vit-b-in21k.pth")
    unused = micro.linear_file(torch.zeros(9, 16), torch.zeros(9))
    torch.save(unused, tmp_path / "vit-b-in21k-head.pth")
    model = load_paper_model("vit-b-in21k", weights=tmp_path)
    assert model.state_dict().keys() == micro.without(tensors, "head.weight", "head.bias").keys()


def test_depth_of_file_and_model_must_agree(tmp_path):
    tensors = micro.trained("vit-b", 1000, depth=1)
    torch.save(tensors, tmp_path / "vit-b.pth")
    assert len(load_paper_model("vit-b", weights=tmp_path, depth=1).blocks) == 1
    with pytest.raises(ValueError, match=r"it lacks blocks\.1\.norm1\.weight \(12 in all\)"):
        load_paper_model("vit-b", weights=tmp_path)


def test_a_missing_file_is_an_error(tmp_path):
    text = r"paper_models: .* is no file and has no vit-l\.safetensors .* from https.*4ee7a4dc\.pth"
    for place in (tmp_path, tmp_path / "vit-l.pth"):
        with pytest.raises(FileNotFoundError, match=text):
            load_paper_model("vit-l", weights=place)
    torch.save(micro.trained("vit-b", 1000), tmp_path / "vit-b.pth")
    with pytest.raises(FileNotFoundError, match=r"head\.pth is missing"):
        load_paper_model("vit-b", weights=tmp_path, head=tmp_path / "head.pth")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"classes": -1}, "classes -1 and depth None; give numbers from 0 and 1"),
        ({"random": True, "depth": 0}, "depth 0; give"),
        ({"depth": 2}, "published weights have all blocks; give depth with random=True"),
    ],
)
def test_numbers_that_make_no_sense(options, text):
    with pytest.raises(ValueError, match=f"paper_models: 'vit-b': .*{text}"):
        load_paper_model("vit-b", **options)


@pytest.mark.parametrize("given", ["weights", "head"])
def test_random_beside_a_file_is_an_error(tmp_path, given):
    with pytest.raises(ValueError, match="paper_models: 'vit-b': random=True beside a file"):
        load_paper_model("vit-b", random=True, **{given: tmp_path})


# Fetched


@pytest.fixture
def sources(monkeypatch):
    """A hub and servers that hold micro weights; what was asked of them."""
    asked, held = [], {}

    def hub(hub_id, weights_only):
        asked.append((hub_id, weights_only))
        return held[hub_id]

    def server(url, *, weights_only, check_hash, **named):
        asked.append((url, weights_only, check_hash))
        return held[url]

    monkeypatch.setattr(paper_models, "load_state_dict_from_hf", hub)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", server)
    return asked, held


def test_the_hub_is_asked_for_the_papers_weights(sources):
    asked, held = sources
    hub_id = "timm/vit_base_patch16_224.orig_in21k_ft_in1k"
    held[hub_id] = micro.trained("vit-b", 1000)
    model = load_paper_model("vit-b")
    assert asked == [(hub_id, True)]
    assert torch.equal(model.head.weight, held[hub_id]["head.weight"])


def test_dino_is_fetched_in_two_parts(sources):
    asked, held = sources
    url = PAPER_MODELS["dino-b"].head_url
    held["timm/vit_base_patch16_224.dino"] = micro.trained("dino-b")
    held[url] = micro.linear_file(torch.randn(1000, 32), torch.randn(1000))
    model = load_paper_model("dino-b")
    assert asked == [("timm/vit_base_patch16_224.dino", True), (url, True, True)]
    assert torch.equal(model.head.weight, held[url]["state_dict"]["module.linear.weight"])
    load_paper_model("dino-b", classes=10)
    assert asked[2:] == [("timm/vit_base_patch16_224.dino", True)], "no head for another task"


def test_the_old_large_model_is_fetched_by_hash(sources):
    asked, held = sources
    url = PAPER_MODELS["vit-l"].url
    held[url] = micro.trained("vit-l", 1000)
    load_paper_model("vit-l")
    assert asked == [(url, True, True)]


def test_nothing_is_fetched_for_a_head_that_is_not_there(sources):
    for name in ("beit-b", "clip-b32", "vit-b-in21k"):
        with pytest.raises(ValueError, match=f"has no head of {name!r} for 1000 classes"):
            load_paper_model(name, classes=1000)
    assert sources[0] == []


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("vit-b", r"timm's hub, timm/vit_base_patch16_224\.orig_\S+"),
        ("mae-b", r"https\S+base\.pth"),
    ],
)
def test_sources_that_cannot_be_reached(monkeypatch, name, place):
    def fails(*args, **named):
        raise OSError("We couldn't connect\nto it")

    monkeypatch.setattr(paper_models, "load_state_dict_from_hf", fails)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", fails)
    text = (
        rf"^paper_models: {place} cannot be had for '{name}' \(We couldn't connect to it\); "
        rf"connect, or fetch it elsewhere and give weights=, a folder with {name}\.pth$"
    )
    with pytest.raises(ConnectionError, match=text):
        load_paper_model(name)

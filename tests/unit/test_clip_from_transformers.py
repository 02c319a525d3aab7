"""CLIP of transformers: sizes and activations, folders, and what is refused."""

from __future__ import annotations

import json
import sys

import pytest
import torch

pytest.importorskip("transformers", reason="needs the extra 'text'")
from relevit.clip.captions import caption
from relevit.clip.from_transformers import from_clip, load_clip
from relevit.clip.towers import caption_tokenizer

from .clip_replica import TEXTS, hf_clip, images, theirs


@pytest.mark.parametrize("act", ["quick_gelu", "gelu"])
@pytest.mark.parametrize("end", [49, 2])  # 2: the wrong id in the configuration of older files
def test_activation_and_odd_sizes(act, end):
    model = hf_clip(act, end=end, intermediate_size=47)
    expected = theirs(model, images(), TEXTS).logits_per_image
    torch.testing.assert_close(from_clip(model).similarities(images(), TEXTS), expected)


def test_activations_give_different_answers():
    answers = [
        from_clip(hf_clip(act)).similarities(images(), TEXTS) for act in ("quick_gelu", "gelu")
    ]
    assert (answers[0] - answers[1]).abs().max() > 1e-4


def test_weights_are_copies():
    model = hf_clip()
    dual = from_clip(model)
    before = dual.similarities(images(), TEXTS)
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
    assert torch.equal(dual.similarities(images(), TEXTS), before)


def test_unknown_models_are_refused():
    with pytest.raises(ValueError, match=r"clip: Linear is not of CLIP's kind.*CLIPModel"):
        from_clip(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="activation 'relu' of the image side; known are"):
        from_clip(hf_clip("relu"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("clip")
    tokenizer = caption_tokenizer()
    model = hf_clip()
    model.text_model.embeddings.token_embedding = torch.nn.Embedding(
        tokenizer.get_vocab_size(), 16
    ).double()
    model.config.text_config.vocab_size = tokenizer.get_vocab_size()
    model.config.text_config.eos_token_id = tokenizer.token_to_id("[SEP]")
    model.save_pretrained(path)
    tokenizer.save(str(path / "tokenizer.json"))
    statistics = {"image_mean": [0.1, 0.2, 0.3], "image_std": [1.0, 2.0, 3.0]}
    (path / "preprocessor_config.json").write_text(json.dumps(statistics))
    return path


def test_folder_is_loaded_with_its_pixel_statistics(folder):
    dual, tokenizer = load_clip(folder)
    assert dual.spec.mean == (0.1, 0.2, 0.3) and dual.spec.image_size == 28
    assert dual.image_tower.pretrained_cfg["std"] == (1.0, 2.0, 3.0)
    features = dual.embed_phrases(tokenizer, [caption(0), caption(1)])
    assert features.shape == (2, 10) and features.dtype == torch.float32
    with pytest.raises(ValueError, match="has no token; leave out empty texts"):
        dual.embed_phrases(tokenizer, [""])


def test_pickled_weights_alone_are_not_read(folder, tmp_path):
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(FileNotFoundError, match=r"has no model\.safetensors; pickled weights"):
        load_clip(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_missing_files_are_named(folder, tmp_path, name):
    for path in folder.iterdir():
        if path.name != name:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(FileNotFoundError, match=f"has no {name}; copy it"):
        load_clip(tmp_path)


def test_damaged_weights_are_an_error(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"cut short")
    with pytest.raises(ValueError, match="holds no CLIP model that transformers can read"):
        load_clip(tmp_path)


def test_without_the_extra_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"pip install relevit\[text\]"):
        load_clip(folder)

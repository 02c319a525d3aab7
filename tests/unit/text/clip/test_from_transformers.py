"""CLIP of transformers out of a folder: what is read, and what is refused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from relevit.text.clip.from_transformers import CONVERT, clip_folder, load_clip
from relevit.text.tokens import word_tokenizer, words_of

from .replica import hf_clip

PHRASES = ["a black ant", "a green beetle"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder as the hub has it, with the words of captions."""
    path = tmp_path_factory.mktemp("hub") / "clip-b32"
    tokenizer = word_tokenizer(words_of(PHRASES))
    words = tokenizer.get_vocab_size()
    hf_clip(words=words, end=tokenizer.token_to_id("[SEP]")).save_pretrained(path)
    tokenizer.save(str(path / "tokenizer.json"))
    statistics = {"image_mean": [0.1, 0.2, 0.3], "image_std": [1.0, 2.0, 3.0]}
    (path / "preprocessor_config.json").write_text(json.dumps(statistics))
    return path


@pytest.fixture
def folder(made, tmp_path):
    """A copy of it, to be damaged."""
    return shutil.copytree(made, tmp_path / "clip-b32")


def test_a_folder_is_loaded_with_its_pixel_statistics(made):
    dual, tokenizer = load_clip(made)
    assert dual.spec.mean == (0.1, 0.2, 0.3) and dual.spec.image_size == 28
    assert dual.image_tower.pretrained_cfg["std"] == (1.0, 2.0, 3.0)
    features = dual.embed_phrases(tokenizer, PHRASES)
    assert features.shape == (2, 10) and features.dtype == torch.float32
    assert len(dual.embed_phrases(tokenizer, ["a red parrot on sand a cat"])) == 1
    message = r"'a red parrot on sand a red cat'\.\.\. has 10 tokens.* at most 9: write a shorter"
    with pytest.raises(ValueError, match=message):
        dual.embed_phrases(tokenizer, ["a cat", "a red parrot on sand a red cat"])


def test_the_line_for_pickles_makes_a_file_that_is_read(made, folder, monkeypatch):
    tensors = load_file(folder / "model.safetensors")
    tensors["visual_projection.weight"] = tensors["visual_projection.weight"].T.contiguous().T
    tensors["text_model.embeddings.position_ids"] = torch.arange(9)[None]  # in old files
    torch.save(tensors, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"pytorch_model\.bin alone, run once") as error:
        clip_folder(str(folder.parent))
    assert CONVERT in str(error.value) and '"' not in CONVERT
    monkeypatch.chdir(folder)
    exec(CONVERT, {})
    both = load_clip(clip_folder(str(folder.parent))), load_clip(made)
    assert torch.equal(*(dual.embed_phrases(tokenizer, PHRASES) for dual, tokenizer in both))


def test_a_tensor_that_a_file_lacks_is_named(folder, capfd):
    tensors = load_file(folder / "model.safetensors")
    del tensors["logit_scale"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"clip-b32 holds no CLIPModel .* lacks logit_scale, 1 in"):
        load_clip(clip_folder(str(folder.parent)))
    assert "".join(capfd.readouterr()) == ""  # no table of transformers

"""CLIP of transformers: sizes and activations, folders, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers", reason="needs the extra 'text'")
from relevit.text.clip.captions import caption
from relevit.text.clip.from_transformers import CONVERT, REVISION, clip_folder, from_clip, load_clip
from relevit.text.clip.joining import caption_tokenizer

from .replica import TEXTS, hf_clip, images, theirs


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
    dual, tokenizer = load_clip(str(folder))  # a path may be text
    assert dual.spec.mean == (0.1, 0.2, 0.3) and dual.spec.image_size == 28
    assert dual.image_tower.pretrained_cfg["std"] == (1.0, 2.0, 3.0)
    features = dual.embed_phrases(tokenizer, [caption(0), caption(1)])
    assert features.shape == (2, 10) and features.dtype == torch.float32
    with pytest.raises(ValueError, match="has no token; leave out empty texts"):
        dual.embed_phrases(tokenizer, [""])
    assert len(dual.embed_phrases(tokenizer, ["a red parrot on sand a cat"])) == 1
    message = r"'a red parrot on sand a red cat'\.\.\. has 10 tokens.* at most 9: write a shorter"
    with pytest.raises(ValueError, match=message):
        dual.embed_phrases(tokenizer, ["a cat", "a red parrot on sand a red cat"])


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


@pytest.mark.parametrize("lost", ["vision_model.encoder", "visual_projection", "logit_scale"])
def test_weights_that_lack_tensors_are_not_filled_up_at_random(folder, tmp_path, lost, capfd):
    path = shutil.copytree(folder, tmp_path / "clip") / "model.safetensors"
    tensors = load_file(path)
    kept = {name: values for name, values in tensors.items() if not name.startswith(lost)}
    save_file(kept, path, {"format": "pt"})
    message = rf"{path.parent} holds no CLIP.* lacks {lost}.*, {len(tensors) - len(kept)} in all"
    with pytest.raises(ValueError, match=message):
        load_clip(path.parent)
    assert "".join(capfd.readouterr()) == ""  # no table of transformers


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        "[]",
        '{"image_mean": [0, 0, 0]}',
        '{"image_mean": 1, "image_std": 1}',
        '{"image_mean": [0, 0], "image_std": [1, 1]}',
        '{"image_mean": [0, 0, 0], "image_std": [1, 0, 1]}',
    ],
)
def test_damaged_pixel_statistics_are_an_error(folder, tmp_path, text):
    path = shutil.copytree(folder, tmp_path / "clip") / "preprocessor_config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"{path} is damaged .*needed are image_mean and image_s"):
        load_clip(path.parent)


def test_the_line_for_pickles_makes_a_file_that_is_read(folder, tmp_path, monkeypatch):
    path = shutil.copytree(folder, tmp_path / "clip-b32")
    tensors = load_file(path / "model.safetensors")
    tensors["visual_projection.weight"] = tensors["visual_projection.weight"].T.contiguous().T
    tensors["text_model.embeddings.position_ids"] = torch.arange(9)[None]  # in old files
    torch.save(tensors, path / "pytorch_model.bin")
    (path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"pytorch_model\.bin alone, run once") as error:
        clip_folder(str(tmp_path))
    assert CONVERT in str(error.value) and '"' not in CONVERT
    monkeypatch.chdir(path)
    exec(CONVERT, {})
    made, original = load_clip(clip_folder(str(tmp_path))), load_clip(folder)
    phrases = [caption(0), caption(1)]
    features = [dual.embed_phrases(tokenizer, phrases) for dual, tokenizer in (made, original)]
    assert torch.equal(*features)


def test_a_folder_that_lacks_files_names_the_parameter(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"12_clip: weights_root: .*clip-b32 has no model"):
        clip_folder(str(tmp_path))
    path = shutil.copytree(folder, tmp_path / "clip-b32")
    (path / "tokenizer.json").unlink()
    message = r"12_clip: weights_root: .*clip-b32 has no tokenizer\.json; .* or leave it empty"
    with pytest.raises(FileNotFoundError, match=message):
        clip_folder(str(tmp_path))


def test_what_the_hub_gave_is_looked_at(folder, tmp_path, monkeypatch):
    import huggingface_hub

    asked = []

    def give(where):
        def snapshot(name, **options):
            asked.append((name, options["revision"]))
            return str(where)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)

    give(tmp_path)
    message = r"12_clip: commit c237dc49 from the hub: .*no model.*config.json.* give weights_root"
    with pytest.raises(FileNotFoundError, match=message):
        clip_folder("")
    give(folder)
    assert clip_folder("") == folder
    assert asked == [("openai/clip-vit-base-patch32", REVISION)] * 2 and len(REVISION) == 40


def test_without_the_extra_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"pip install relevit\[text\]"):
        load_clip(folder)

"""CLIP as a classifier of texts: answers of transformers, a map a text, a zero-shot audit."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import CLIPImageProcessor, CLIPModel

from habitats.drawings import CLASSES
from relevit.text.clip.dual import CLIP_METHODS
from relevit.text.tokens import word_tokenizer, words_of
from relevit_own.cli import main
from relevit_own.texts import open_clip, prompts

from ..text.clip.replica import hf_clip

TOKENIZER = word_tokenizer(words_of(["a red black", *(name.replace("-", " ") for name in CLASSES)]))
TEXTS = ["a red parrot", "a black-ant, a cat", "a whale"]


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    """A small random one, as transformers writes it, with the words of captions."""
    path = tmp_path_factory.mktemp("clip")
    end = TOKENIZER.token_to_id("[SEP]")
    hf_clip(words=TOKENIZER.get_vocab_size(), end=end).save_pretrained(path)
    TOKENIZER.save(str(path / "tokenizer.json"))
    sides = {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}}
    (path / "preprocessor_config.json").write_text(json.dumps(sides))
    return path


@pytest.fixture
def picture(tmp_path) -> Path:
    noise = torch.randint(0, 256, (9, 12, 3), generator=torch.Generator().manual_seed(0))
    made = Image.fromarray(noise.byte().numpy()).resize((120, 90), Image.Resampling.BICUBIC)
    made.save(tmp_path / "street.png")
    return tmp_path / "street.png"


def test_answers_are_those_of_transformers(clip, picture):
    ours = open_clip(clip, TEXTS, "cpu")
    image = Image.open(picture)
    pixels = CLIPImageProcessor.from_pretrained(clip)(image, return_tensors="pt")["pixel_values"]
    seen = ours.spec.normalise(ours.view.picture(image)[None])
    assert (seen - pixels).abs().max() < 0.05  # a level or two of 255, by another resizing
    texts = [TOKENIZER.encode(text).ids for text in TEXTS]
    theirs = CLIPModel.from_pretrained(clip).float().eval()
    with torch.no_grad():
        for place, ids in enumerate(texts):
            wanted = theirs(input_ids=torch.tensor([ids]), pixel_values=pixels).logits_per_image
            torch.testing.assert_close(ours.network(pixels)[:, place], wanted[0])


def test_each_text_gets_a_map_by_each_method_that_knows_clip(clip, picture, capsys):
    out = picture.parent / "maps"
    given = ["explain", str(picture), "--model", str(clip), "--text", *TEXTS, "-o", str(out)]
    assert main([*given, "--method", ",".join(CLIP_METHODS), "--save-maps"]) == 0
    assert len([*out.glob("*.npy")]) == len(TEXTS) * len(CLIP_METHODS)
    said = capsys.readouterr().out
    assert all(text in said for text in TEXTS)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--model", "CLIP"], "compares texts; give two or more, such as --text"),
        (["--model", "CLIP", "--text", "a"], "compares texts; give two or more"),
        (["--text", "a bus", "a car"], "--text is for CLIP, and dinov2-s8 is none"),
        (["--model", "CLIP", "--text", "xyzzy", "plugh"], "the model knows no word"),
        (["--model", "CLIP", "--text", "a", "b", "--model-options", "img_size=8"], "CLIP as it is"),
        (["--model", "clip-b32", "--text", "a", "b", "--weights", "."], "lacks config.json"),
        (["--model", "CLIP", "--text", "a cat", "a tiger", "--method", "lrp"], "lrp"),
    ],
)
def test_what_is_wrong_is_one_sentence(clip, picture, monkeypatch, capsys, typed, said):
    monkeypatch.chdir(picture.parent)
    words = [str(clip) if word == "CLIP" else word for word in typed]
    assert main(["explain", str(picture), *words]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_prompts_are_said_as_people_say_them():
    names = ["lady-beetle", "n01440764", "fire_engine"]
    wanted = ["a photo of a lady beetle.", "a photo of a tench.", "a photo of a fire engine."]
    assert prompts(names, "a photo of a {}.") == wanted


def test_an_audit_asks_for_the_classes_by_name(clip, tmp_path, monkeypatch, capsys):
    """Of a random CLIP, which is let pass although it guesses."""
    monkeypatch.setattr("relevit_own.audit.need_knowledge", lambda *_: None)
    assert main(["example", str(tmp_path), "--images", "2"]) == 0
    given = ["audit", "--model", str(clip), "--data", str(tmp_path / "data"), "--most", "40"]
    code = main([*given, "--out", str(tmp_path / "made"), "--prompt", "a {}"])
    assert code == 0, capsys.readouterr().err
    found = json.loads((tmp_path / "made" / "audit.json").read_text())
    assert found["model"] == f"{clip}, 'a {{}}'" and found["images"] == 20

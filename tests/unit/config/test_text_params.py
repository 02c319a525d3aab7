"""Parameters of 09_text and 12_clip that cannot be met are refused by name."""

from __future__ import annotations

import pytest

from relevit.config import ClipParams, TextParams


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"held_out_images": 39}, "held_out_images = 39 .*tiny-dual is tested on 40 classes"),
        ({"captioned_images": 79}, "captioned_images = 79 .*greater than or equal to 80"),
        ({"temperature": 0}, "temperature = 0 .*greater than 0"),
        ({"captioned_things": 1}, "captioned_things = 1 .*needed are 0, or 2 and more"),
        ({"source": "random"}, "source = 'random' .*clip-b32 alone .*tiny-dual needs"),
        (
            {"dual_model": "dinov2-minilm", "source": "random"},
            "source = 'random' .*dinov2-minilm needs 'pretrained'",
        ),
        ({"weights_root": "w"}, "weights_root = 'w' .*leave it empty for tiny-dual"),
        ({"dual_model": "dinov2-minilm", "weights_root": "w"}, "empty for dinov2-minilm"),
        (
            {"dual_model": "clip-b32", "source": "random", "weights_root": "w"},
            "weights_root = 'w' .*source = random reads no weights",
        ),
    ],
)
def test_what_joined_towers_cannot_meet_is_refused(values, message):
    with pytest.raises(ValueError, match=f"12_clip.yaml: .*{message}"):
        ClipParams.checked(values, "12_clip.yaml")


def test_a_ready_clip_needs_no_image_of_each_class():
    values = {"dual_model": "clip-b32", "source": "random", "held_out_images": 20}
    assert ClipParams.checked(values, "test").held_out_images == 20
    assert ClipParams.checked({"dual_model": "clip-b32", "weights_root": "w"}, "test")


# 09_text


@pytest.mark.parametrize("model", ["tiny-bert", "minilm-l6"])
@pytest.mark.parametrize(("key", "value"), [("source", "random"), ("weights_root", "weights")])
def test_what_is_of_bert_base_is_refused_for_other_models(model, key, value):
    text = rf"09_text\.yaml: {key} = '{value}' .*bert-base alone, and text_model is {model}; leave"
    with pytest.raises(ValueError, match=text):
        TextParams.checked({"text_model": model, key: value}, "09_text.yaml")


def test_random_weights_are_of_no_folder():
    given = {"text_model": "bert-base", "source": "random", "weights_root": "weights"}
    with pytest.raises(ValueError, match=r"weights_root = 'weights' .*random reads no weights"):
        TextParams.checked(given, "09_text.yaml")

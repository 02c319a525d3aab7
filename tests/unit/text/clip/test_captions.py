"""Captions and prompts: what they say, and which class a caption names."""

import pytest

from habitats.captions import caption, colour_alone, described, prompt
from habitats.drawings import CLASSES, PRETRAINING

NAMES = (*CLASSES, *PRETRAINING.classes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("parrot", "a red parrot"),
        ("tiger", "an orange tiger"),
        ("lady-beetle", "a red lady beetle"),
        ("bus", "a blue bus"),
        ("grapes", "some purple grapes"),
        ("red-apple", "a red apple"),  # not "a red red apple"
        ("cooking", "a purple frying pan"),
    ],
)
def test_captions(name, text):
    assert caption(name) == text and described(name) == f"a photo of {text}"
    assert caption(name, "sand") == f"{text} on sand" and caption(name, "reef").endswith("a reef")
    assert colour_alone(name).removeprefix("a photo of something ") in text


@pytest.mark.parametrize(
    ("name", "fitting", "published"),
    [
        ("ant", "an ant", "a ant"),
        ("scissors", "scissors", "a scissors"),
        ("lady-beetle", "a lady beetle", "a lady-beetle"),
        ("American chameleon", "an American chameleon", "a American chameleon"),
        ("European gallinule", "a European gallinule", "a European gallinule"),
        ("unicycle", "a unicycle", "a unicycle"),
    ],
)
def test_prompts(name, fitting, published):
    assert prompt(name) == f"a photo of {fitting}"
    assert prompt(name, fitting=False) == f"a photo of {published}"

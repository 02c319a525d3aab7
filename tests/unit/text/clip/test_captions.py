"""Captions: what they say, and which class a caption names."""

from __future__ import annotations

import pytest
import torch

from relevit.data import cutouts, things
from relevit.data.foregrounds import CLASSES
from relevit.data.textures import FAMILIES
from relevit.text.clip.captions import (
    COLOURS,
    caption,
    captioned,
    class_of_caption,
    colour_alone,
    colour_words,
    described,
    names,
    prompt,
    published_prompt,
    spoken,
)

SAND = [family.name for family in FAMILIES].index("sand")
LABEL = {name: i for i, name in enumerate(CLASSES)}
THING = {name: i for i, name in enumerate(things.PRETRAINING.classes)}


@pytest.mark.parametrize(
    ("name", "colour"),
    [
        ("ant", "black"),
        ("parrot", "red"),
        ("flamingo", "pink"),
        ("tiger", "orange"),
        ("whale", "blue"),
        ("elephant", "grey"),
        ("swan", "white"),
        ("mammoth", "brown"),
    ],
)
def test_colour_and_background(name, colour):
    article = "an" if colour == "orange" else "a"
    assert caption(LABEL[name], SAND) == f"{article} {colour} {name} on sand"
    assert caption(LABEL[name]) == caption(LABEL[name], -1) == f"{article} {colour} {name}"
    assert described(LABEL[name]) == f"a photo of {article} {colour} {name}"
    assert colour_alone(LABEL[name]) == f"a photo of something {colour}"


def test_things_are_said_as_one_says_them():
    def say(name):
        return caption(THING[name], None, things.PRETRAINING)

    assert say("bus") == "a blue bus"
    assert say("grapes") == "some purple grapes"
    assert say("red-apple") == "a red apple"  # not "a red red apple"
    assert spoken("cooking") == "frying pan" and spoken("lady-beetle") == "lady beetle"


@pytest.mark.parametrize(
    ("rgb", "colour"),
    [
        ((1, 0, 0), "red"),
        ((1, 0.55, 0), "orange"),
        ((0.5, 0.3, 0.1), "brown"),
        ((1, 0.9, 0.1), "yellow"),
        ((0.1, 0.8, 0.2), "green"),
        ((0.1, 0.4, 1), "blue"),
        ((0.55, 0.2, 0.9), "purple"),
        ((1, 0.4, 0.8), "pink"),
        ((1, 0.6, 0.6), "pink"),
        ((0.05, 0.05, 0.1), "black"),
        ((0.5, 0.5, 0.52), "grey"),
        ((0.97, 0.97, 1), "white"),
    ],
)
def test_colour_words(rgb, colour):
    assert COLOURS[int(colour_words(torch.tensor([rgb]).double())[0])] == colour


def test_captions_tell_the_background_that_was_drawn():
    shown = captioned("si_location", range(12), seed=4)
    again = cutouts.draw("si_location", range(12), seed=4)
    assert torch.equal(shown.batch.images, again.images) and len(shown) == 12
    for (full, short), family in zip(shown.captions, again.families.tolist(), strict=True):
        ground = FAMILIES[family].name
        assert full in (f"{short} on {ground}", f"{short} on a {ground}")
    assert len({full.split(" on ")[1] for full, _ in shown.captions}) > 4


def test_every_caption_and_prompt_names_its_class():
    for drawings in (None, things.PRETRAINING, things.UNSEEN):
        classes = names(drawings)
        for label, name in enumerate(classes):
            assert class_of_caption(caption(label, label % 12, drawings), classes) == label
            assert class_of_caption(prompt(name), classes) == label


def test_class_of_a_caption_is_found_as_a_whole_word():
    classes = ("dog", "hot-dog", "key")
    assert class_of_caption("A HOT-DOG on moss.", classes) == 1
    assert class_of_caption("hot, but a dog", classes) == 0
    with pytest.raises(ValueError, match="names no known class; needed is one of"):
        class_of_caption("a turkey on straw", classes)


def test_caption_without_a_known_class_names_what_is_allowed():
    with pytest.raises(ValueError, match=r"'a red bus on sand' names no known .*'lady beetle'"):
        class_of_caption("a red bus on sand")
    with pytest.raises(ValueError, match=r"names \['cat', 'dog'\]; needed is one"):
        class_of_caption("a dog and a cat")
    with pytest.raises(ValueError, match="names no known class"):
        class_of_caption("")


def test_prompts():
    assert prompt("ant") == "a photo of an ant" and prompt("cow") == "a photo of a cow"
    assert prompt("scissors") == "a photo of scissors"
    assert prompt("lady-beetle", "{}") == "lady beetle"
    with pytest.raises(ValueError, match="has no place for a class"):
        prompt("ant", "a photo")


@pytest.mark.parametrize(
    ("name", "template", "text"),
    [
        ("American chameleon", "a photo of a {}", "a photo of an American chameleon"),
        ("European gallinule", "a photo of a {}", "a photo of a European gallinule"),
        ("unicycle", "a photo of a {}", "a photo of a unicycle"),
        ("ant", "A {}", "An ant"),
        ("apple", "an extra {}", "an extra apple"),
        ("scissors", "a {} on sand", "scissors on sand"),
        ("umbrella", "a {} in extra {{}}", "an umbrella in extra {}"),
    ],
)
def test_articles_of_prompts(name, template, text):
    assert prompt(name, template) == text


def test_the_published_prompt_has_one_article_for_all_names():
    for name in ("American chameleon", "scissors", "black-footed ferret"):
        assert published_prompt(name) == f"a photo of a {name}"
        assert class_of_caption(published_prompt(name), ("ant", name)) == 1


def test_capitals_and_apostrophes_of_names_do_not_matter():
    classes = ("American alligator", "yellow lady's slipper", "slipper", "jack-o'-lantern")
    for label, name in enumerate(classes):
        for text in (prompt(name), published_prompt(name), name.upper()):
            assert class_of_caption(text, classes) == label
    assert class_of_caption("a yellow ladys slipper", classes) == 2  # another word


def test_bad_places_and_styles():
    with pytest.raises(ValueError, match=r"label 40; there are 40, use one in 0\.\.39"):
        caption(40)
    with pytest.raises(ValueError, match="family 12; there are 12"):
        caption(0, 12)
    with pytest.raises(ValueError, match="style 'flat', and captions tell the colours of '3d'"):
        captioned("r", range(2))
    with pytest.raises(ValueError, match="set 'nothing' is unknown"):
        captioned("nothing", range(2))

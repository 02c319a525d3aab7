"""Colours mean one thing each and are told apart; pictures are stored with words for them."""

from __future__ import annotations

import itertools
from io import BytesIO

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from PIL import Image

from relevit.attribution import METHODS as ALL_METHODS
from relevit.plots import style

# Colours that stand side by side in a picture.
TOGETHER = {
    "models": [style.ORIGINAL, style.OURS, style.CONTROL],
    "signs": [style.GAIN, style.LOSS],
    "classes": list(style.CLASS_COLOURS.values()),
    "things": [style.OBJECT, style.PALE_OBJECT, style.REST],
    "parts": [style.OBJECT, style.PROPS, style.REST],
    "recurrences": [style.METHODS[name] for name in ("rollout", "head_wise", "token_wise")],
    "protocols": [colour for colour, _ in style.PROTOCOLS.values()],
} | {name: list(members.values()) for name, members in style.FAMILIES.items()}
# Brightness apart, except where shape or side says it too (gain and loss: the sign).
PRINTED = {name: colours for name, colours in TOGETHER.items() if name != "signs"}
# Machado et al. 2009, severity 1, on linear RGB.
BLIND = {
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
}


@pytest.fixture
def drawn():
    with plt.rc_context():  # which the style changes
        style.set_style()
        yield a_plot()


def a_plot():
    figure, axis = style.subplots()
    axis.plot([1, 2], [3, 4], label="ours")
    axis.set_xticks([1, 2], ["0.1234", "2"])
    axis.set(title="Change", xlabel="epoch", ylabel="points\n(pct)")
    axis.legend()
    return figure


def test_a_colour_has_one_meaning():
    colours = [style.ORIGINAL, style.OURS, style.CONTROL, style.GAIN, style.LOSS, style.OBJECT]
    colours += [style.PALE_OBJECT, style.PROPS, style.REST, style.INK, style.FAINT]
    colours += [*style.CLASS_COLOURS.values(), *style.METHODS.values()]
    assert len(set(colours)) == len(colours)


def test_every_method_has_a_colour():
    assert set(style.METHODS) == set(ALL_METHODS)
    assert style.families(["gae", "x", "random", "rollout"]) == {
        "attention": ["rollout"],
        "attention x gradient": ["gae"],
        "others": ["x"],
    }


@pytest.mark.parametrize("name", PRINTED)
def test_colours_of_a_picture_differ_in_print(name):
    grey = sorted(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) for colour in PRINTED[name])
    assert np.diff(grey).min() > 0.08


@pytest.mark.parametrize("blindness", BLIND)
@pytest.mark.parametrize("name", TOGETHER)
def test_colours_of_a_picture_differ_for_the_colour_blind(name, blindness):
    linear = [np.power(to_rgb(colour), 2.2) for colour in TOGETHER[name]]
    seen = [np.clip(np.array(BLIND[blindness]) @ values, 0, 1) ** (1 / 2.2) for values in linear]
    assert min(np.abs(a - b).max() for a, b in itertools.combinations(seen, 2)) > 0.12


def test_a_picture_is_stored_sharp_with_words_for_those_who_do_not_see_it(drawn):
    png, said = style.stored(drawn, "png")
    assert said["alt"] == (
        "Panels: Change. Upwards: points (pct). Across: epoch. Colours and lines: ours."
    )
    size = Image.open(BytesIO(png)).size
    assert (said["width"], said["height"]) == tuple(side // 2 for side in size)
    assert style.stored(drawn, "jpeg") is None
    assert style.stored(drawn, "png")[0] == png, "the same figure gives the same bytes"


def test_figures_with_images_are_jpeg():
    figure, axis = style.subplots()
    axis.imshow(np.zeros((4, 4, 3)))
    axis.set_ylabel("original")
    picture, said = style.stored(figure, "jpeg")
    assert picture.startswith(b"\xff\xd8") and said["alt"] == "Images, by row: original."
    assert style.stored(figure, "png") is None


def test_a_picture_without_text_says_so():
    figure, _ = style.subplots()
    assert style.alternative_text(figure) == "A picture without text."

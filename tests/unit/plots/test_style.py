"""Colours mean one thing each and are told apart; pictures are stored with words for them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb

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


def test_plots_are_stored_as_svg_and_png_with_the_same_words(drawn):
    vector, raster = style.STORED["image/svg+xml"], style.STORED["image/png"]
    svg, words = vector(drawn)
    assert words == {"alt": "Panels: Change. Upwards: points (pct). Across: epoch. "
                            "Colours and lines: ours."}  # fmt: skip
    assert svg.startswith("<svg") and f"<title>{words['alt']}</title>" in svg
    assert ">0.1234</text>" in svg and ">epoch</text>" in svg and "<metadata>" not in svg, (
        "text stays text"
    )
    png, same = raster(drawn)
    assert png.startswith(b"\x89PNG") and same == words
    assert style.STORED["image/jpeg"](drawn) is None


def test_the_same_figure_gives_the_same_bytes(drawn):
    for mime in ("image/svg+xml", "image/png"):
        assert style.STORED[mime](drawn) == style.STORED[mime](drawn)


def test_large_drawings_are_pixels_alone(drawn, monkeypatch):
    monkeypatch.setattr(style, "LARGEST_SVG", 100)
    assert style.STORED["image/svg+xml"](drawn) is None
    assert style.STORED["image/png"](drawn)


def test_figures_with_images_are_jpeg():
    figure, axis = style.subplots()
    axis.imshow(np.zeros((4, 4, 3)))
    axis.set_ylabel("original")
    picture, words = style.STORED["image/jpeg"](figure)
    assert picture.startswith(b"\xff\xd8") and words == {"alt": "Images, by row: original."}
    assert style.STORED["image/svg+xml"](figure) is None
    assert style.STORED["image/png"](figure) is None


def test_a_picture_without_text_says_so():
    figure, _ = style.subplots()
    assert style.alternative_text(figure) == "A picture without text."

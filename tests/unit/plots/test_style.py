"""Colours mean one thing each and are told apart; pictures are stored with words for them."""

import itertools
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from PIL import Image

from relevit.attribution import METHODS as ALL_METHODS
from reproduction.plots import style
from reproduction.plots.images import image_grid
from reproduction.plots.overlay import Overlay, overlay_figure
from reproduction.plots.shared import paired_changes

IMAGES = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
MAP = Overlay(torch.rand(8, 8), (0, 0, 8, 8), "gae")

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
# Machado et al. 2009, severity 1, on linear RGB.
BLIND = {
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
}


@pytest.fixture
def one_font(monkeypatch):
    fonts = [font for font in style.fontManager.ttflist if font.name == style.FONT]
    monkeypatch.setattr(style.fontManager, "ttflist", fonts)
    style.font_of.cache_clear()
    yield
    style.font_of.cache_clear()


@pytest.mark.parametrize(
    "draw",
    [
        lambda names: image_grid([(names[0], IMAGES)], [names]),
        lambda names: overlay_figure(Image.new("L", (8, 8)), names[0], [[MAP], [MAP]]),
        lambda names: paired_changes(
            pd.DataFrame(
                {"dataset": names, "change": "", "change_pts": 2.0, "low_pts": 1, "high_pts": 3}
            ),
            "",
        ),
    ],
)
def test_letters_of_names_are_drawn_or_told_and_no_boxes(draw, one_font):
    figure = draw(["猫 $5", "é$"])
    style.stored(figure, style.picture_kind(figure))  # of a box matplotlib warns: an error here
    texts = {text.get_text() for text in figure.findobj(Text)}
    assert "\\u732b $5" in {text.partition("\n")[0] for text in texts}
    assert style.readable("猫", "class 3") == "class 3" and style.readable("é") == "é"


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


@pytest.mark.parametrize("name", TOGETHER)
def test_colours_of_a_picture_differ_in_print_and_for_the_colour_blind(name):
    """In brightness, except where shape or side says it too (gain and loss: the sign)."""
    grey = sorted(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) for colour in TOGETHER[name])
    assert name == "signs" or np.diff(grey).min() > 0.08
    linear = [np.power(to_rgb(colour), 2.2) for colour in TOGETHER[name]]
    for rows in BLIND.values():
        seen = [np.clip(np.array(rows) @ values, 0, 1) ** (1 / 2.2) for values in linear]
        assert min(np.abs(a - b).max() for a, b in itertools.combinations(seen, 2)) > 0.12


def test_a_picture_is_stored_sharp_with_words_for_those_who_do_not_see_it():
    with plt.rc_context():  # which the style changes
        style.set_style()
        drawn, axis = style.subplots()
    axis.plot([1, 2], [3, 4], label="ours")
    axis.set(title="Change", xlabel="epoch", ylabel="points\n(pct)")
    axis.legend()
    png, said = style.stored(drawn, "png")
    assert said["alt"] == (
        "Panels: Change. Upwards: points (pct). Across: epoch. Colours and lines: ours."
    )
    size = Image.open(BytesIO(png)).size
    assert (said["width"], said["height"]) == tuple(side // 2 for side in size)
    assert style.stored(drawn, "jpeg") is None
    assert style.stored(drawn, "png")[0] == png, "the same figure gives the same bytes"

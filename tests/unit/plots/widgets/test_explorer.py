"""What all widgets share: when they draw, what a page without a kernel shows, what errors say."""

from __future__ import annotations

from io import BytesIO

import ipywidgets
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from relevit.plots.widgets import explorer as shared
from relevit.plots.widgets.explorer import Explorer, show_heat, show_image, slider, strip

WIDGET = "application/vnd.jupyter.widget-view+json"


class Counter(Explorer):
    """Shows how often it was drawn; 13 cannot be shown."""

    def __init__(self):
        self.number, self.other, self.drawn = slider("number", 1, 20), slider("other", 1, 20), 0
        super().__init__([self.number, self.other])

    def look(self):
        if self.number.value == 13:
            raise ValueError("number: 13 <is> unlucky; take 12")
        self.drawn += 1
        figure = Figure(figsize=(1, 1))
        figure.text(0.2, 0.2, str(self.number.value))
        return figure, f"{self.number.value} & {self.other.value}"


def test_a_change_draws_once_and_the_text_is_for_everybody():
    counter = Counter()
    assert counter.drawn == 1
    before = bytes(counter.picture.value)
    assert Image.open(BytesIO(before)).format == "JPEG"
    counter.number.value = 2
    assert counter.drawn == 2 and bytes(counter.picture.value) != before
    assert counter.state.value == '<span role="status">2 &amp; 1</span>'
    assert counter.picture.tooltip is None, "ipywidgets shows an error for a picture that has one"


def test_several_changes_together_draw_once():
    counter = Counter()
    with counter.together():
        counter.number.value, counter.other.value = 13, 4  # 13 alone would be an error
        counter.number.value = 5
    assert counter.drawn == 2 and "5 &amp; 4" in counter.state.value


def test_what_cannot_be_shown_is_said_and_the_picture_stays():
    counter = Counter()
    before = bytes(counter.picture.value)
    counter.number.value = 13
    assert counter.state.value == (
        '<span role="alert">✗ number: 13 &lt;is&gt; unlucky; take 12</span>'
    )
    assert bytes(counter.picture.value) == before
    counter.number.value = 12
    assert 'role="status"' in counter.state.value


def test_a_notebook_gets_the_first_picture_and_then_the_widget(monkeypatch):
    """As two outputs: of stored notebooks and pages the second is taken away."""
    shown = []
    monkeypatch.setattr(shared, "display", lambda what, **options: shown.append((what, options)))
    counter = Counter()
    first = bytes(counter.picture.value)
    counter.number.value = 7
    counter._ipython_display_()
    (picture, _), (bundle, options) = shown
    assert picture.data == first and picture.format == "jpeg" and picture.alt == "1 & 1"
    assert options == {"raw": True} and bundle[WIDGET]["model_id"] == counter.model_id


def test_a_live_widget_hides_the_output_before_it():
    (style,) = [child for child in Counter().children if "<style>" in getattr(child, "value", "")]
    assert style.value == (
        "<style>.jp-OutputArea-child:has(+ .jp-OutputArea-child .relevit-live) "
        "{display: none}</style>"
    )
    assert "relevit-live" in Counter()._dom_classes


def test_sliders_wait_until_the_hand_lets_go():
    assert slider("x", 1, 3).continuous_update is False
    assert isinstance(slider("x", 1, 3), ipywidgets.IntSlider)


def test_panels_stand_where_they_are_put():
    figure, (left, right) = strip(2.0, (0.1, 2.0), (0.5, 1.0))
    width, height = figure.get_size_inches()
    assert width == pytest.approx(3.66) and height == pytest.approx(2.4)
    assert left.get_position().width * width == pytest.approx(2.0)
    assert right.get_position().x0 * width == pytest.approx(2.6)
    image = torch.zeros(3, 4, 4, dtype=torch.uint8)
    show_image(left, image, "black")
    show_heat(right, image, torch.ones(4, 4))
    assert left.get_title() == "black" and len(right.images) == 2

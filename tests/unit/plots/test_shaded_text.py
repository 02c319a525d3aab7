"""Pictures of shaded texts: nothing of the text is lost, and what is drawn can be counted."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex, to_rgb

from reproduction.plots.shaded_text import ASIDE, SHADES, ink, shaded_html, token_shades

from ..text.builders import spelled

#       0123456789 123456789 123456789
TEXT = 'a <b>un-watch\nable</b> & "$5$"'
WORDS = ["a", "<", "b", ">", "un", "-", "watch", "able", "</b>", "&", '"', "$", "5", "$", '"']
READ = spelled(TEXT, *WORDS)


def relevance(**words):
    """Values of some words; those of special tokens are high, and must not be seen."""
    result = torch.zeros(len(WORDS) + 2)
    result[0] = result[-1] = 100.0
    for word, value in words.items():
        result[WORDS.index(word) + 1] = value
    return result


def plain(html):
    return " ".join(unescape(re.sub(r"<br>|<[^>]*>", "", html)).split())


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_map_that_says_nothing_is_white_and_named(value):
    values = torch.full((17,), value)
    assert not token_shades(READ, values).any()
    assert "(this map says nothing)" in shaded_html(READ, values)


def test_colours_run_from_white_to_dark_in_one_hue_and_text_is_readable():
    def luminance(colour):
        channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return float(np.dot(channels, [0.2126, 0.7152, 0.0722]))

    steps = np.linspace(0, 1, 101)
    light = [luminance(SHADES(step)[:3]) for step in steps]
    assert light[0] == 1 and (np.diff(light) <= 0).all() and light[-1] < 0.1
    for step, background in zip(steps, light, strict=True):
        pair = sorted((background, luminance(to_rgb(ink(step)))))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5


def test_html_holds_the_text_as_written_and_shades_are_shares_of_the_highest_word():
    html = shaded_html(READ, relevance(a=2.0, un=1.0, watch=-1.0, able=2.0), 'of "<ga>"')
    assert plain(html) == " ".join(f'of "<ga>"[CLS] {TEXT} [SEP]'.split())
    assert "<b>un" not in html and "&lt;" in html  # nothing of the text is markup
    assert "this map says nothing" not in html
    grey = re.findall(rf'<span style="color:{ASIDE}">(.*?)</span>', html)
    assert grey == ["[CLS]", "[SEP]"]
    high, half = (f"background:{to_hex(SHADES(shade))}" for shade in (1.0, 0.5))
    found = re.findall(r'<span title="(.*?)" style="(.*?)">(.*?)</span>', html)
    assert [(value, style.split(";")[0], word) for value, style, word in found] == [
        ("1.00", high, "a"), ("0.50", half, "un"), ("1.00", high, "able")
    ]  # fmt: skip
    assert re.search(r"un</span>-watch\n<span[^>]*>able</span>", html), "pieces are glued"


def test_html_underlines_the_rationale_and_tells_what_was_not_read():
    html = shaded_html(replace(READ, left_out=12), relevance(a=1.0), rationale=[(8, 18), (25, 26)])
    marked = re.findall(r"<span[^>]*text-decoration:underline[^>]*>(.*?)</span>", html, re.DOTALL)
    assert [unescape(word) for word in marked] == ["watch", "\n", "able", '"']
    assert plain(html).endswith("[SEP] … 12 tokens not read")

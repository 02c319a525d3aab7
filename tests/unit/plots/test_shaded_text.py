"""Pictures of shaded texts: nothing of the text is lost, and what is drawn can be counted."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex, to_rgb

from relevit.plots.shaded_text import (
    SHADES,
    attention_rows,
    ink,
    shaded_figure,
    shaded_html,
    token_shades,
)
from relevit.plots.style import ORIGINAL
from relevit.text.tokens import Tokens

#       0123456789 123456789 123456789
TEXT = 'a <b>un-watch\nable</b> & "$5$"'
WORDS = ["a", "<", "b", ">", "un", "-", "watch", "able", "</b>", "&", '"', "$", "5", "$", '"']
UNDERLINED = "text-decoration:underline"


def spans_in_order(text, words):
    ends = [0]
    for word in words:
        ends.append(text.index(word, ends[-1]) + len(word))
    return tuple((end - len(word), end) for word, end in zip(words, ends[1:], strict=True))


SPANS = spans_in_order(TEXT, WORDS)


def read(left_out=0, text=TEXT, spans=SPANS):
    special = (True, *len(spans) * [False], True)
    return Tokens(text, tuple(range(len(special))), ((0, 0), *spans, (0, 0)), special, left_out)


def relevance(**words):
    """Values of some words; those of special tokens are high, and must not be seen."""
    values = [words.get(word, 0.0) for word in ("a", "un", "watch")]
    places = [WORDS.index(word) for word in ("a", "un", "watch")]
    result = torch.zeros(len(WORDS) + 2)
    result[0] = result[-1] = 100.0
    result[torch.tensor(places) + 1] = torch.tensor(values)
    return result


def plain(html):
    return " ".join(unescape(re.sub(r"<br>|<[^>]*>", "", html)).split())


# Shades


def test_shades_are_shares_of_the_highest_word():
    shades = token_shades(read(), relevance(a=2.0, un=0.5, watch=-1.0))
    assert shades[[0, -1]].tolist() == [0, 0]
    assert shades[[1, 5, 7]].tolist() == [1, 0.25, 0]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_map_that_says_nothing_is_white_and_named(value):
    values = torch.full((17,), value)
    assert not token_shades(read(), values).any()
    assert "(this map says nothing)" in shaded_html(read(), values)
    assert "this map says nothing" not in shaded_html(read(), relevance(a=1.0))
    drawn = [text.get_text() for text in shaded_figure(read(), {"ga": values}).axes[0].texts]
    assert "(this map says nothing)" in drawn


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
        red, green, blue = SHADES(step)[:3]
        assert red >= max(green, blue)


# HTML


def test_html_holds_the_text_as_written_between_the_special_tokens():
    html = shaded_html(read(), relevance(a=2.0, un=1.0), 'of "<ga>"')
    assert plain(html) == " ".join(f'of "<ga>"[CLS] {TEXT} [SEP]'.split())
    assert "<b>un" not in html and "&lt;" in html  # nothing of the text is markup
    grey = re.findall(rf'<span style="color:{ORIGINAL}">(.*?)</span>', html)
    assert grey == ["[CLS]", "[SEP]"]


def test_html_shades_and_glues_pieces():
    html = shaded_html(read(), relevance(a=2.0, un=1.0, watch=2.0))
    high, half = (f"background:{to_hex(SHADES(shade))}" for shade in (1.0, 0.5))
    found = re.findall(r'<span title="(.*?)" style="(.*?)">(.*?)</span>', html)
    assert [(value, style.split(";")[0], word) for value, style, word in found] == [
        ("1.00", high, "a"),
        ("0.50", half, "un"),
        ("1.00", high, "watch"),
    ]
    assert re.search(r"un</span>-<span[^>]*>watch</span>\nable", html)


def test_html_underlines_the_rationale_and_blanks_inside_it():
    html = shaded_html(read(), relevance(a=1.0), rationale=[(8, 18), (25, 26)])
    marked = re.findall(rf"<span[^>]*{UNDERLINED}[^>]*>(.*?)</span>", html, re.DOTALL)
    assert [unescape(word) for word in marked] == ["watch", "\n", "able", '"']
    assert UNDERLINED not in shaded_html(read(), relevance(a=1.0))


def test_html_tells_what_was_not_read_and_takes_other_special_names():
    html = shaded_html(read(left_out=12), relevance(a=1.0), special_names=("<s>", "</s>"))
    assert plain(html).startswith("<s> a") and plain(html).endswith("</s> … 12 tokens not read")


# Figure


def drawn_words(figure, skip=()):
    texts = [text for text in figure.axes[0].texts if text.get_text() not in skip]
    return [(text.get_text(), *text.get_position()) for text in texts]


def test_figure_draws_each_token_of_each_method_within_the_page():
    maps = {"rollout": relevance(a=1.0), "token_wise": relevance(un=1.0, watch=0.5)}
    figure = shaded_figure(read(), maps, "a title with $ and _", rationale=[(8, 18)], width=4.5)
    figure.canvas.draw()
    words = [word for word, *_ in drawn_words(figure)]
    assert [word for word in words if word in maps] == list(maps)
    for word in ("[CLS]", "watch", "able", "$", "[SEP]"):
        assert words.count(word) == 2 + (word in TEXT and WORDS.count(word) - 1) * 2
    page = figure.bbox
    for text in figure.axes[0].texts:
        box = text.get_window_extent()
        assert box.x0 >= page.x0 and box.y0 >= page.y0 and box.y1 <= page.y1
        assert box.x1 <= page.x1 + 2
    boxes, lines = figure.axes[0].collections
    assert len(boxes.get_paths()) == 3 and len(lines.get_segments()) == 4


def test_figure_says_which_token_is_darkest():
    maps = {"ga": relevance(a=1.0), "gae": relevance(watch=2.0, a=1.0)}
    label = shaded_figure(read(), maps, "the model says: no").get_label()
    assert label == "the model says: no. Most relevant token by method: ga: a; gae: watch"


def test_figure_breaks_lines_only_at_blanks():
    figure = shaded_figure(read(), {"ga": relevance(a=1.0)}, width=2.2)
    height = {word: y for word, _, y in drawn_words(figure)}
    assert height["un"] == height["watch"] == height["-"] > height["able"]
    assert height["a"] > height["[SEP]"]


def test_figure_cuts_long_texts_with_dots():
    text = "word " * 100
    tokens = read(text=text, spans=tuple((5 * i, 5 * i + 4) for i in range(100)))
    values = torch.ones(102)
    figure = shaded_figure(tokens, {"ga": values}, width=4.0, lines=2)
    words = drawn_words(figure)
    assert [word for word, *_ in words].count("…") == 1
    assert len({y for word, _, y in words if word == "word"}) == 2
    whole = shaded_figure(tokens, {"ga": values}, width=4.0)
    assert [word for word, *_ in drawn_words(whole)].count("word") == 100


def test_figure_splits_text_without_blanks():
    text = "x" * 80
    tokens = read(text=text, spans=tuple((i, i + 1) for i in range(80)))
    figure = shaded_figure(tokens, {"ga": torch.ones(82)}, width=3.0)
    places = [x for word, x, _ in drawn_words(figure) if word == "x"]
    assert len(places) == 80 and max(places) < 3.0 * 72


# Attention


def test_attention_rows_name_tokens_and_blocks():
    figure = attention_rows(torch.rand(3, 4), ["[CLS]", "good", ".", "[SEP]"], "where it looks")
    axis = figure.axes[0]
    assert [label.get_text() for label in axis.get_xticklabels()][1] == "good"
    assert [label.get_text() for label in axis.get_yticklabels()] == ["1", "2", "3"]


# Errors


@pytest.mark.wrong_types
def test_errors():
    with pytest.raises(ValueError, match=r"token_shades: a map \(3,\) for 17 tokens; needed is"):
        shaded_html(read(), torch.zeros(3))
    for maps, lines in (({}, None), ({"ga": relevance(a=1.0)}, 0)):
        with pytest.raises(ValueError, match=f"shaded_figure: {len(maps)} maps and {lines} lines"):
            shaded_figure(read(), maps, lines=lines)

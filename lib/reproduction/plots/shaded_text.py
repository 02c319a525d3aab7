"""Texts and their relevance: tokens shaded, as in Beyond Intuition Figs. 13, 14.

These take the text as it was written, so that pieces of a word stand together as they did there.
Shades run from no relevance (white) to the highest token of the text; values below 0 are white.
Special tokens and the end that the model did not read are grey, and a rationale is underlined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from jaxtyping import Float
from matplotlib.colors import to_hex
from torch import Tensor

from relevit.text.tokens import Tokens
from reproduction.plots.style import SHADES

SPECIAL_NAMES = ("[CLS]", "[SEP]")  # BERT's, at the text's beginning and end
MAP_WARNING = "this map says nothing"
# White paper whatever the page's colours are, so that shades mean the same on a dark one.
PAPER = "line-height:1.7;max-width:60em;padding:0.2em 0.6em;overflow-wrap:anywhere;"
PAPER += "background:#fff;color:#000"
ASIDE = "#666b74"  # grey that can be read on it
LINE = "text-decoration:underline;text-decoration-thickness:2px;text-underline-offset:3px"
GREY = f'<span style="color:{ASIDE}">{{}}</span>'
Spans = Sequence[tuple[int, int]]


def token_shades(tokens: Tokens, values: Float[Tensor, " tokens"]) -> np.ndarray:
    """Shade of each token in 0..1: its share of the text's highest value, 0 for special tokens.

    All 0 for a map that is not finite or has no value above 0, which says nothing.
    """
    numbers = np.where(tokens.special, 0.0, values.detach().cpu().double().numpy())
    if not np.isfinite(numbers).all() or numbers.max() <= 0:
        return np.zeros(len(numbers))
    return numbers.clip(min=0) / numbers.max()


def ink(shade: float) -> str:
    """Black or white, whichever is easier to read on a shade: 4.5 to 1 or better (WCAG 2)."""
    channels = np.array(SHADES(shade)[:3])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    return "#000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#ffffff"


def shaded_html(
    tokens: Tokens,
    values: Float[Tensor, " tokens"],
    title: str | None = None,
    rationale: Spans | None = None,
) -> str:
    """The text with its tokens shaded, as a piece of HTML for `IPython.display.HTML`.

    `rationale` are spans of characters to underline. What a token's value is relative to the
    highest stands in its tooltip.
    """
    shades = token_shades(tokens, values)
    head = f"<b>{escape(title)}</b><br>" if title else ""
    note = "" if shades.any() else f' <i style="color:{ASIDE}">({MAP_WARNING})</i>'
    body = _shaded(tokens, shades, rationale or ())
    return f'<div style="{PAPER}">{head}{body}{note}</div>'


def shaded_methods(
    tokens: Tokens,
    maps: Mapping[str, Float[Tensor, " tokens"]],
    title: str,
    rationale: Spans | None = None,
) -> str:
    """The same text once for each method under its name, as one piece of HTML."""
    parts = [shaded_html(tokens, values, name, rationale) for name, values in maps.items()]
    return f"<p>{escape(title)}</p>{''.join(parts)}"


def _shaded(tokens: Tokens, shades: np.ndarray, rationale: Spans) -> str:
    """The text as HTML, special tokens and what was not read in grey."""
    parts, end, last_marked = [], 0, False
    for (start, stop), special, shade in zip(tokens.offsets, tokens.special, shades, strict=True):
        if special:
            name = SPECIAL_NAMES[min(len(parts), 1)]
            parts.append(" " * bool(parts) + GREY.format(name))
            continue
        gap = escape(tokens.text[end:start] if end else " " * len(parts))
        spans = [span for span in rationale if start < span[1] and span[0] < stop]
        # The gap is underlined too where one span holds both of its sides.
        if gap and last_marked and any(span[0] < end for span in spans):
            gap = f'<span style="{LINE}">{gap}</span>'
        text, style = escape(tokens.text[start:stop]), [LINE] * bool(spans)
        if shade >= 0.005:  # so that a long text stays small
            style.insert(0, f"background:{to_hex(SHADES(shade))};color:{ink(shade)}")
        if style:
            text = f'<span title="{shade:.2f}" style="{";".join(style)}">{text}</span>'
        parts.append(gap + text)
        end, last_marked = stop, bool(spans)
    if tokens.left_out:
        parts.append(" " + GREY.format(f"… {tokens.left_out} tokens not read"))
    return "".join(parts)

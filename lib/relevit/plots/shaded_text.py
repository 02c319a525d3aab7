"""Texts and their relevance: tokens shaded, as in Beyond Intuition Figs. 13, 14.

These take the text as it was written, so that pieces of a word stand together as they did there.
Shades run from no relevance (white) to the highest token of the text; values below 0 are white.
Special tokens and the end that the model did not read are grey, and a rationale is underlined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import NamedTuple

import numpy as np
import seaborn as sns
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path
from torch import Tensor

from relevit.plots.style import ORIGINAL, SHADES, subplots
from relevit.text.tokens import Tokens

SPECIAL_NAMES = ("[CLS]", "[SEP]")  # BERT's, at the text's beginning and end
FONT_SIZE = 9.0
LINE = 1.7  # height of a line of text, in font sizes
MAP_WARNING = "this map says nothing"
Spans = Sequence[tuple[int, int]]


class Piece(NamedTuple):
    """One token to draw, with the text between it and the one before."""

    before: str
    text: str
    shade: float | None  # 0 to 1; None is grey
    marked: bool  # in the rationale
    joined: bool  # `before` too


def token_shades(tokens: Tokens, values: Float[Tensor, " tokens"]) -> np.ndarray:
    """Shade of each token in 0..1: its share of the text's highest value, 0 for special tokens.

    All 0 for a map that is not finite or has no value above 0, which says nothing.
    Raises: ValueError unless there is one value a token.
    """
    if values.shape != (len(tokens.ids),):
        raise ValueError(
            f"token_shades: a map {tuple(values.shape)} for {len(tokens.ids)} tokens; needed is "
            "one value a token, special ones included: use attribute"
        )
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
    *,
    special_names: tuple[str, str] = SPECIAL_NAMES,
) -> str:
    """The text with its tokens shaded, as a piece of HTML for `IPython.display.HTML`.

    `rationale` are spans of characters to underline. What a token's value is relative to the
    highest stands in its tooltip. Raises: ValueError as `token_shades`.
    """
    shades = token_shades(tokens, values)
    head = f"<b>{escape(title)}</b><br>" if title else ""
    note = "" if shades.any() else f' <i style="color:{ORIGINAL}">({MAP_WARNING})</i>'
    body = "".join(map(_html, _pieces(tokens, shades, rationale or (), special_names)))
    style = "line-height:1.7;max-width:60em;background:#fff;color:#000;overflow-wrap:anywhere"
    return f'<div style="{style}">{head}{body}{note}</div>'


def shaded_figure(
    tokens: Tokens,
    maps: Mapping[str, Float[Tensor, " tokens"]],
    title: str | None = None,
    rationale: Spans | None = None,
    *,
    width: float = 9.0,
    lines: int | None = None,
    special_names: tuple[str, str] = SPECIAL_NAMES,
) -> Figure:
    """The same text once for each method, its name at the left; for the report.

    `width` is in inches. `lines` cuts each method's text after so many lines, which is marked by
    dots; None shows all. Raises: ValueError as `token_shades`, and without a map or a line.
    """
    if not maps or (lines is not None and lines < 1):
        raise ValueError(
            f"shaded_figure: {len(maps)} maps and {lines} lines; give at least one of each"
        )
    shades = {name: token_shades(tokens, values) for name, values in maps.items()}
    left = 14 + max(_advance(name, FONT_SIZE, bold=True) for name in maps)
    wrapped = {}
    for name, shade in shades.items():
        pieces = _pieces(tokens, shade, rationale or (), special_names)
        if not shade.any():
            pieces.insert(0, Piece(" ", f"({MAP_WARNING})", None, False, False))
        wrapped[name] = _wrapped(pieces, 72 * width - left - 8, lines)
    rows = sum(map(len, wrapped.values())) + 0.6 * len(wrapped)
    top = 24 if title else 4
    height = rows * LINE * FONT_SIZE + top + 32
    figure, axis = subplots(figsize=(width, height / 72), layout=None)
    axis.set_position((0, 0, 1, 1))
    axis.set(xlim=(0, 72 * width), ylim=(0, height))  # points
    axis.axis("off")
    darkest = "; ".join(f"{name}: {tokens.words[s.argmax()]}" for name, s in shades.items())
    figure.set_label(f"{title or 'A text'}. Most relevant token by method: {darkest}")
    if title:
        axis.text(8, height - 6, title, fontsize=10, va="top", parse_math=False)
    y, drawn = height - top - LINE * FONT_SIZE, []
    for name, placed in wrapped.items():
        axis.text(8, y, name, fontsize=FONT_SIZE, weight="bold", parse_math=False)
        for line in placed:
            drawn += [(left + x, y, piece) for x, piece in line]
            y -= LINE * FONT_SIZE
        y -= 0.6 * LINE * FONT_SIZE
    _draw(axis, drawn)
    _key(figure, axis, bool(rationale))
    return figure


def attention_rows(
    rows: Float[Tensor, "blocks tokens"], words: Sequence[str], title: str
) -> Figure:
    """How much the class token attends to each token, one row a block, the first on top.

    `words` name the tokens; texts of up to about 40 can be read.
    """
    figure, axis = subplots(figsize=(9, 1.6 + 0.28 * len(rows)))
    sns.heatmap(
        rows.numpy(),
        ax=axis,
        vmin=0,
        cmap=SHADES,
        xticklabels=words,
        yticklabels=range(1, len(rows) + 1),
        cbar_kws={"label": "attention"},
    )
    axis.set(ylabel="block", title=title)
    axis.tick_params(axis="x", rotation=60)
    axis.tick_params(axis="y", rotation=0)
    return figure


def _pieces(
    tokens: Tokens, shades: np.ndarray, rationale: Spans, names: tuple[str, str]
) -> list[Piece]:
    """What to draw, in the order of the text."""
    pieces, end, last_marked = [], 0, False
    for (start, stop), special, shade in zip(tokens.offsets, tokens.special, shades, strict=True):
        if special:
            name = names[min(len(pieces), 1)]
            pieces.append(Piece(" " if pieces else "", name, None, False, False))
            continue
        before = tokens.text[end:start] if end else " " * len(pieces)
        spans = [span for span in rationale if start < span[1] and span[0] < stop]
        # The gap is underlined too where one span holds both of its sides.
        joined = last_marked and any(span[0] < end for span in spans)
        pieces.append(Piece(before, tokens.text[start:stop], float(shade), bool(spans), joined))
        end, last_marked = stop, bool(spans)
    if tokens.left_out:
        pieces.append(Piece(" ", f"… {tokens.left_out} tokens not read", None, False, False))
    return pieces


def _html(piece: Piece) -> str:
    line = "text-decoration:underline;text-decoration-thickness:2px;text-underline-offset:3px"
    before, text = escape(piece.before), escape(piece.text)
    if piece.joined and before:
        before = f'<span style="{line}">{before}</span>'
    if piece.shade is None:
        return f'{before}<span style="color:{ORIGINAL}">{text}</span>'
    style = [line] if piece.marked else []
    if piece.shade >= 0.005:  # so that a long text stays small
        style.insert(0, f"background:{to_hex(SHADES(piece.shade))};color:{ink(piece.shade)}")
    if not style:
        return before + text
    return f'{before}<span title="{piece.shade:.2f}" style="{";".join(style)}">{text}</span>'


@lru_cache(maxsize=4096)  # the same words, method after method
def _advance(text: str, size: float, *, bold: bool = False) -> float:
    """Width of a text in points."""
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]


def _wrapped(
    pieces: list[Piece], width: float, lines: int | None
) -> list[list[tuple[float, Piece]]]:
    """Lines of pieces, each with its place in points; breaks only where the text has blanks."""
    blank = _advance(" ", FONT_SIZE)
    placed: list[list[tuple[float, Piece]]] = [[]]
    x = 0.0
    for word in _words(pieces, width):
        long = sum(_advance(piece.text, FONT_SIZE) for piece in word)
        gap = blank if _parted(word[0]) else 0.0
        if placed[-1] and x + gap + long > width:
            placed.append([])
            x, gap, word[0] = 0.0, 0.0, word[0]._replace(joined=False)
        x += gap if placed[-1] else 0.0
        for piece in word:
            placed[-1].append((x, piece))
            x += _advance(piece.text, FONT_SIZE)
    return placed if lines is None or len(placed) <= lines else _cut(placed[:lines], width)


def _words(pieces: list[Piece], width: float) -> list[list[Piece]]:
    """Pieces that no blank parts, as long as they fit into a line together."""
    words: list[list[Piece]] = []
    for piece in pieces:
        fits = words and width > sum(_advance(p.text, FONT_SIZE) for p in [*words[-1], piece])
        if fits and not _parted(piece):
            words[-1].append(piece)
        else:
            words.append([piece])
    return words


def _parted(piece: Piece) -> bool:
    return any(map(str.isspace, piece.before))


def _cut(placed: list[list[tuple[float, Piece]]], width: float) -> list[list[tuple[float, Piece]]]:
    """End the last line with dots."""
    dots = Piece(" ", "…", None, False, False)
    while True:
        x, last = placed[-1][-1]
        x += _advance(last.text + " ", FONT_SIZE)
        if len(placed[-1]) == 1 or x + _advance(dots.text, FONT_SIZE) <= width:
            placed[-1].append((x, dots))
            return placed
        placed[-1].pop()


def _draw(axis: Axes, placed: Sequence[tuple[float, float, Piece]]) -> None:
    """Tokens at their places in points, each on its shade."""
    blank = _advance(" ", FONT_SIZE)
    boxes, colours, lines = [], [], []
    for x, y, piece in placed:
        long, shade = _advance(piece.text, FONT_SIZE), piece.shade
        axis.text(
            x,
            y,
            piece.text,
            fontsize=FONT_SIZE,
            parse_math=False,
            color=ORIGINAL if shade is None else ink(shade),
        )
        if shade:
            boxes.append(Rectangle((x, y - 0.34 * FONT_SIZE), long, 1.36 * FONT_SIZE))
            colours.append(SHADES(shade))
        if piece.marked:
            start = x - blank * (piece.joined and _parted(piece))
            lines.append((start, x + long, y - 0.38 * FONT_SIZE))
    axis.add_collection(PatchCollection(boxes, facecolors=colours, linewidths=0))
    starts, ends, heights = np.reshape(lines, (-1, 3)).T
    axis.hlines(heights, starts, ends, color="black", linewidth=1.1)


def _key(figure: Figure, axis: Axes, underlined: bool) -> None:
    """What shade and line mean, below the text."""
    bar = axis.inset_axes((8, 18, 90, 7), transform=axis.transData)
    figure.colorbar(ScalarMappable(Normalize(0, 1), SHADES), cax=bar, orientation="horizontal")
    bar.set_xticks([])
    bar.set_xlabel("")
    note = "relevance, 0 to the highest of the text"
    note += "; underlined: rationale" if underlined else ""
    axis.text(104, 18, note, fontsize=7.5, color="#444444", parse_math=False)

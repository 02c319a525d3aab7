"""What the pictures share: what each colour means, how figures look, and how they are stored.

One colour for each meaning and each attribution method, in all notebooks. Colours of one picture
differ in brightness too, so that they are told apart in print and by the colour-blind.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager, get_font
from matplotlib.ticker import MaxNLocator
from PIL import Image

from relevit.evaluate.looking import RIGHT, WRONG

if TYPE_CHECKING:
    from seaborn.objects import Plot

# Models
ORIGINAL = "#8a8f98"  # as it was before
OURS = "#d1495b"  # finetuned with relevance; nothing else is red
CONTROL = "#e8b84a"  # the same images and steps, without relevance
GAIN, LOSS = RIGHT, WRONG  # better and worse: a change, an answer, a subset found or not
CHANGE = LinearSegmentedColormap.from_list("change", [LOSS, "#f3c9a2", "white", "#a9c8ea", GAIN])
# Things
OBJECT, PALE_OBJECT = "#17706b", "#84cdc3"  # what a mask shows; its draft or its lesser part
PROPS, REST = "#c9a06c", "#dddfe3"  # things about the object; all else
INK = "#30343b"  # limits, marks, what has no meaning of its own
FAINT = "#d3d6db"  # other lines, behind those that a panel is about
# What a legend calls them
MEANINGS = {
    "original": ORIGINAL,
    "ours": OURS,
    "with relevance": OURS,
    "without, same images and steps": CONTROL,
    "annotated masks": OBJECT,
    "tokencut masks": PALE_OBJECT,
    "classes A": "#54358c",  # finetuned
    "classes B": "#b9a5dc",  # never shown
    "seen classes": "#54358c",
    "unseen classes": "#b9a5dc",
    "all classes": INK,
}
CLASS_COLOURS = {group: MEANINGS[f"classes {group}"] for group in "AB"}
# Attribution methods, by what they are made of.
FAMILIES = {
    "attention": {"raw_attention": "#26367d", "rollout": "#8c9ce0"},
    "gradients": {
        "gradcam": "#5c4a00",
        "smoothgrad": "#a1811a",
        "integrated_gradients": "#d9bf55",
        "libra_grad": "#2b2200",
    },
    "LRP": {
        "partial_lrp": "#a0d199",
        "lrp": "#55a058",
        "transformer_attribution": "#1a5a2e",
        "attn_lrp": "#0c2f14",
    },
    "attention x gradient": {
        "gae": "#7a1f6b",
        "ga": "#d98fca",
        "attention_gradient": "#b0529f",
        "readout": "#eebfe4",
        "legrad": "#45103c",
    },
    "Beyond Intuition": {"head_wise": "#76d3cf", "token_wise": "#00666c"},
}
METHODS = {name: colour for family in FAMILIES.values() for name, colour in family.items()}
CHANCE = "random"  # the order of methods that know nothing
NAMES = {  # of methods, where `raw_attention` as "raw attention" is not what one would say
    "gradcam": "Grad-CAM",
    "partial_lrp": "partial LRP",
    "lrp": "LRP",
    "attn_lrp": "AttnLRP",
    "gae": "GAE",
    "input_gradient": "input times gradient",
    "ga": "GA",
    "legrad": "LeGrad",
    "libra_grad": "LibraGrad",
    "smoothgrad": "SmoothGrad",
    "head_wise": "head-wise",
    "token_wise": "token-wise",
}
PROTOCOLS = {
    "published": ("#27303b", "o"),
    "mended": ("#2b7a99", "s"),
    "described": ("#d987b4", "^"),
}

DPI, SHARP = 80, 2  # pixels an inch on a page; stored pixels of each, for screens that have them
FONT = "DejaVu Sans"  # comes with matplotlib
QUALITY: dict[str, dict[str, Any]] = {"jpeg": {"pil_kwargs": {"quality": 78}}, "png": {}}
SAID = 12  # captions of one picture that its alternative text repeats
GREY = {"cmap": "gray", "vmin": -80, "vmax": 335}  # of an image below its heatmap
HEAT = {"cmap": "inferno", "alpha": 0.72, "vmin": 0, "vmax": 1}
# Of maps with both signs: blue speaks for a class, orange against it, zero hides nothing.
SIGNS = LinearSegmentedColormap.from_list(
    "signs", [(LOSS, 1), ("#ffb45c", 0.6), ("white", 0), ("#6db3ff", 0.6), (GAIN, 1)]
)
SIGNED_HEAT = {"cmap": SIGNS, "vmin": -1, "vmax": 1}
SIGNED_TICKS = ([-1, 0, 1], ("against\nthe class", "0", "for\nthe class"))
SHADES = LinearSegmentedColormap.from_list("relevance", ["white", "#fbb61a", "#781c6d"])  # on white


def one_zero(value: float) -> str:
    """A number of a table as it is, to six decimals as pandas has them; no zero has a sign."""
    return f"{value if abs(value) < 1e-4 else round(value, 6):z}"


def set_style() -> None:
    """The look of all figures and tables, and how a notebook stores them."""
    pd.set_option("display.float_format", one_zero)
    plt.style.use(files("reproduction") / "assets" / "figures.mplstyle")
    plt.rcParams.update({"figure.dpi": DPI, "savefig.dpi": SHARP * DPI})
    python = sys.modules.get("IPython")  # the command does without
    if python and (shell := python.get_ipython()) is not None:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("jpeg")  # so that a later choice of formats replaces ours
        formatters = shell.display_formatter.formatters
        for kind in ("png", "jpeg"):
            formatters[f"image/{kind}"].for_type(Figure, partial(stored, kind=kind))


@cache
def font_of(letter: str) -> str | None:
    """The family of an installed font that draws a letter, FONT before all; None: a box."""
    for font in sorted(fontManager.ttflist, key=lambda font: font.name != FONT):
        with suppress(RuntimeError, OSError):  # what matplotlib cannot open
            face = get_font(font.fname)
            known = face.scalable and "Last Resort" not in font.name  # no bitmaps, no boxes
            if known and face.get_char_index(ord(letter)):
                return font.name
    return None


def font_families(text: str) -> list[str] | None:
    """The families that draw a text, each for the letters that those before it lack; or None.

    Spaces and marks without a picture of their own need none.
    """
    letters = {each for each in text if unicodedata.category(each)[0] not in "ZC"}
    found = {font_of(letter) for letter in letters} | {FONT}
    return None if None in found else sorted(found, key=lambda name: (name != FONT, name))


def readable(text: str, otherwise: str = "") -> str:
    """A text that fonts here draw, as it is; of others `otherwise`, or numbers for such letters."""
    if font_families(text):
        return text
    escaped = (each.encode("ascii", "backslashreplace").decode() for each in text)
    letters = zip(text, escaped, strict=True)
    return otherwise or "".join(each if font_families(each) else code for each, code in letters)


def write(setter: Callable[..., object], text: str | Sequence[str], **style: Any) -> None:
    """Set a title or labels with names that people gave: no formulas, and no boxes for letters."""
    said = readable(text) if isinstance(text, str) else [readable(each) for each in text]
    fonts = font_families("".join(said))
    setter(said, parse_math=False, **({} if fonts == [FONT] else {"fontfamily": fonts}), **style)


def stored(figure: Figure, kind: str, margin: float = 0.1) -> tuple[bytes, dict[str, Any]] | None:
    """The picture as a file, with its alternative text and its size on a page, in pixels.

    Figures with images are JPEG, as noise textures are several times smaller so, all others PNG;
    None for the other kind. `margin` is in inches.
    """
    if kind != picture_kind(figure):
        return None
    file, sharp = BytesIO(), {"dpi": SHARP * DPI, "bbox_inches": "tight", "pad_inches": margin}
    FigureCanvasAgg(figure).print_figure(file, format=kind, **sharp, **QUALITY[kind])
    if kind == "png":  # in few colours, which lines and bars have: a third of the size
        drawn = Image.open(file).convert("RGB")
        # Median cut, the default, joins what differs: a blue of a scale of colours became green.
        few = drawn.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(file := BytesIO(), "png", optimize=True)
    width, height = (side // SHARP for side in Image.open(file).size)
    return file.getvalue(), {"alt": alternative_text(figure), "width": width, "height": height}


def picture_kind(figure: Figure) -> str:
    """`jpeg` for a figure with images, `png` for one of lines and bars."""
    return "jpeg" if any(axis.images for axis in figure.axes) else "png"


def alternative_text(figure: Figure) -> str:
    """What a figure shows, in words for those who do not see it: its label, titles and names."""
    axes = [axis for axis in figure.axes if axis.get_visible()]
    legends = [*figure.legends, *(axis.get_legend() for axis in axes)]
    entries = [text.get_text() for legend in legends if legend for text in legend.get_texts()]
    images = any(axis.images for axis in axes)
    parts = {
        "": [str(figure.get_label()), figure.get_suptitle()],
        "Captions" if images else "Panels": [axis.get_title() for axis in axes],
        "Images, by row" if images else "Upwards": [axis.get_ylabel() for axis in axes],
        "Across": [axis.get_xlabel() for axis in axes],
        "Colours and lines": entries,
    }
    said = []
    for name, texts in parts.items():
        words = [" ".join(text.split()) for text in dict.fromkeys(texts) if text.strip()]
        if len(words) > SAID:
            words = [*words[:SAID], f"and {len(words) - SAID} more"]
        said += (
            [f"{name}: {'; '.join(words)}." if name else f"{'. '.join(words)}."] if words else []
        )
    return " ".join(said) or "A picture without text."


def named(method: str) -> str:
    """An attribution method as one says it; what is in brackets or unknown without underscores."""
    return NAMES.get(method, method.replace("_", " "))


def method_colour(name: str) -> str:
    """The colour of an attribution method; of an order by chance and of unknown names, grey."""
    return METHODS.get(name, FAINT)


def families(names: Sequence[str]) -> dict[str, list[str]]:
    """The methods among `names` by family, in the order of FAMILIES; unknown ones come last."""
    known = {family: [n for n in members if n in names] for family, members in FAMILIES.items()}
    others = [name for name in names if name not in METHODS and name != CHANCE]
    return {family: found for family, found in (known | {"others": others}).items() if found}


def subplots(
    *shape: int, layout: str | None = "constrained", **options: Any
) -> tuple[Figure, np.ndarray | Axes]:
    """As `plt.subplots`, but known to the caller alone: a notebook shows it once, as a result."""
    figure, axes = plt.subplots(*shape, layout=layout, **options)
    plt.close(figure)
    return figure, axes


def drawn(
    plot: Plot, width: float, height: float, title: str = "", *, level: float | None = None
) -> Figure:
    """A plot of `seaborn.objects` as a figure in this style, in inches, its legend beside it.

    `level` is a line across the values: full at zero, dotted elsewhere, as at what chance gives.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    plot.theme(dict(plt.rcParams)).on(figure).plot()
    for axis in figure.axes:
        if level is not None:
            mark = axis.axvline if axis.yaxis_inverted() else axis.axhline  # names are upwards
            mark(level, color="black", linewidth=0.8, linestyle=":" if level else "-")
        places = [place for line in axis.lines for place in line.get_xdata()]
        free = isinstance(axis.xaxis.get_major_locator(), MaxNLocator)
        if free and places and not np.mod(places, 1).any():  # epochs, blocks, steps
            count_whole(axis)
    figure.suptitle(title, fontsize=10)
    for legend in figure.legends:  # seaborn lays it over the panels
        legend.set(frame_on=False, bbox_to_anchor=(1, 0.5), loc="center right")
        dpi = figure.dpi
        figure.set_dpi(SHARP * DPI)  # letters are wider there than those of a page
        figure.draw_without_rendering()
        beside = 0.02 + legend.get_window_extent().width / figure.bbox.width
        figure.set_dpi(dpi)
        figure.get_layout_engine().set(rect=(0, 0, 1 - beside, 1))
    return figure


def panels(count: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """So many panels side by side in a figure of that size, in inches."""
    figure, axes = subplots(1, count, figsize=(width, height), squeeze=False, **options)
    return figure, list(axes[0])


def count_whole(axis: Axes) -> None:
    """Ticks at whole epochs, blocks or steps alone."""
    axis.xaxis.get_major_locator().set_params(integer=True)


def mark_level(axis: Axes, height: float, **style: Any) -> None:
    """A dotted line across the panel: a limit, or what chance gives."""
    axis.axhline(height, color="black", linestyle=":", **style)


def reach(axis: Axes, low: float, high: float) -> None:
    """The panel goes at least from `low` to `high`, so that next to nothing looks like it."""
    bottom, top = axis.get_ylim()
    axis.set_ylim(min(bottom, low), max(top, high))

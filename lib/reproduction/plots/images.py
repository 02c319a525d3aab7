"""Images, masks and heatmaps in rows. Every function returns a matplotlib figure.

All grids are rows of `Tile`s: at most five stand side by side, and longer rows go on below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped, UInt8
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from torch import Tensor

from relevit.attribution import to_heatmap
from relevit.data.batch import Batch
from relevit.evaluate.looking import Look
from relevit.evaluate.sis import Subsets
from relevit.masks import AutomaticMasks, quality_rows
from relevit.models.spec import Mask
from reproduction.plots.style import (
    DPI,
    GAIN,
    GREY,
    HEAT,
    LOSS,
    OBJECT,
    PALE_OBJECT,
    REST,
    SIGNED_HEAT,
    SIGNED_TICKS,
    named,
    write,
)

COLUMNS = 5
SIDE, GAP, LINE = 2.0, 0.06, 0.16  # inches: of a tile (160 pixels), between two, of a line of text
BREAK = 0.15  # inches more, where rows go on below
DIMMED = 0.22  # brightness of what a mask leaves out
PIECES = {"other": REST, "dropped": PALE_OBJECT, "object": OBJECT}  # of a cut
HEAT_TICKS = ([0, 1], ("lowest", "highest\nof its map"))
OUTLINE = {"color": "white", "path_effects": [withStroke(linewidth=2.5, foreground="black")]}
Images = UInt8[Tensor, "count 3 height width"]
Masks = Bool[Tensor, "count 1 height width"]
Heatmaps = Float[Tensor, "count 1 height width"]


@dataclass(frozen=True)
class Tile:
    """One picture of a grid.

    Heat is from 0 to 1; if `signed`, diverging around 0 and over its largest size. `colours` say
    how pixels of one channel are drawn. A title in the colour LOSS is in italics, for print.
    """

    pixels: Shaped[np.ndarray, "height width *channels"]
    title: str = ""
    colour: str = "black"
    heat: Float[Tensor, "height width"] | None = None
    mask: Bool[Tensor, "height width"] | None = None
    signed: bool = False
    colours: Mapping[str, Any] | None = None


def tile_grid(
    rows: Sequence[tuple[str, Sequence[Tile]]],
    note: str = "",
    keys: Sequence[Patch | Line2D] = (),
    ends: tuple[str, str] = HEAT_TICKS[1],
    columns: int = COLUMNS,
) -> Figure:
    """Rows of tiles with a name at the left; `note` and `keys` stand below all.

    Rows longer than `columns` are broken alike, the parts as even as can be. `ends` says what 0
    and 1 of heat are.
    """
    longest = max(len(tiles) for _, tiles in rows)
    wide = -(-longest // -(-longest // columns))
    lines = [
        (name, tiles[start : start + wide])
        for start in range(0, longest, wide)
        for name, tiles in rows
    ]
    above = []
    for number, (_, tiles) in enumerate(lines):
        text = max([0, *(1 + tile.title.count("\n") for tile in tiles if tile.title)])
        above.append(GAP + LINE * text + BREAK * (number > 0 and number % len(rows) == 0))
    width, height = wide * (SIDE + GAP), len(lines) * SIDE + sum(above)
    figure = Figure(figsize=(width, height), dpi=DPI)
    top, scales = height, {}
    for (name, tiles), gap in zip(lines, above, strict=True):
        top -= gap + SIDE
        for column, tile in enumerate(tiles):
            place = (column * (SIDE + GAP) / width, top / height, SIDE / width, SIDE / height)
            axis = bare(figure.add_axes(place))
            drawn = draw_tile(axis, tile)
            if tile.heat is not None:
                scales.setdefault(tile.signed, (drawn, top))
            if column == 0:
                write(axis.set_ylabel, name, rotation=0, ha="right", va="center")
    _add_scales(figure, scales, ends)
    if note or keys:
        below = {"bbox_to_anchor": (0, 0), "frameon": False, "ncols": 4, "alignment": "left"}
        figure.legend(handles=list(keys), loc="upper left", title=note, title_fontsize=9, **below)
    return figure


def image_grid(
    rows: Sequence[tuple[str, Shaped[Tensor, "count 3 height width"]]],
    titles: Sequence[Sequence[str]] | None = None,
    note: str = "",
    colours: Sequence[Sequence[str]] | None = None,
) -> Figure:
    """Rows of images with a name at the left, and for each image a title and its colour.

    `note` stands below all: what marks in the titles or dimmed parts mean. Images are bytes or
    from 0 to 1.
    """
    tiles = []
    for place, (name, images) in enumerate(rows):
        words = titles[place] if titles else [""] * len(images)
        inks = colours[place] if colours else ["black"] * len(images)
        parts = zip(images, words, inks, strict=True)
        tiles.append((name, [Tile(pixels_of(image), *text) for image, *text in parts]))
    return tile_grid(tiles, note)


def heatmap_grid(
    images: Images,
    rows: Sequence[tuple[str, Heatmaps]],
    titles: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    ends: tuple[str, str] = HEAT_TICKS[1],
    masks: Masks | None = None,
    answers: Sequence[tuple[Sequence[str], Sequence[str]]] = (),
) -> Figure:
    """The images, and below them one row of heatmaps for each model, laid over the image.

    `colours` are those of the titles, as of a `Look`: blue is right and orange is wrong, which
    is in italics too. `ends` says what 0 and 1 are, and `masks` are outlined on the heatmaps.
    `answers` are titles and colours of the heatmaps themselves, of each row. Maps are in [0, 1]; a
    row with values below 0 is drawn in two colours, each map over its own largest size.
    """
    count, outlined = len(images), [None] * len(images) if masks is None else masks[:, 0]
    plain = ([""] * count, ["black"] * count)
    texts = zip(images, titles or plain[0], colours or plain[1], strict=True)
    tiles = [("image", [Tile(pixels_of(image), *words) for image, *words in texts])]
    for place, (name, maps) in enumerate(rows):
        words = answers[place] if answers else plain
        parts = zip(images, maps[:, 0], outlined, *words, strict=False)  # as many as images
        signed = bool((maps < 0).any())
        tiles.append((name, [Tile(pixels_of(i), t, c, h, m, signed) for i, h, m, t, c in parts]))
    keys = [Patch(color=GAIN, label="right"), Patch(color=LOSS, label="wrong")]
    keys = keys if colours or answers else []
    if masks is not None and masks.any():
        keys.append(Line2D([], [], label="the object", **OUTLINE))
    return tile_grid(tiles, keys=keys, ends=ends)


def looks_grid(
    images: Images, names: Sequence[str], looks: Mapping[str, Look], masks: Masks | None = None
) -> Figure:
    """The images under their `names`, and below them what each model sees in them and answers."""
    rows = [(name, seen.heatmaps) for name, seen in looks.items()]
    answers = [(seen.titles, seen.colours) for seen in looks.values()]
    return heatmap_grid(images, rows, names, masks=masks, answers=answers)


def parts_grid(parts: Sequence[Batch], names: Sequence[str], looks: Mapping[str, Look]) -> Figure:
    """As `looks_grid`, of images of several sets: `parts` has a batch of each."""
    images, masks = (torch.cat([getattr(p, key) for p in parts]) for key in ("images", "masks"))
    return looks_grid(images, names, looks, masks)


def looks_row(batch: Batch, name: str, looks: Mapping[str, Look]) -> Figure:
    """One image under its `name`, and what each model sees in it, answers, has on the object."""
    pixels, mask = pixels_of(batch.images[0]), batch.masks[0, 0]
    fills = 100 * float(mask.float().mean())
    tiles = [Tile(pixels, f"the image: {name}\nthe object fills {fills:.0f} %")]
    for model, seen in looks.items():
        title = f"{model}: {seen.titles[0]}\n{seen.on_object_pct[0]:.0f} % on the object"
        tiles.append(Tile(pixels, title, seen.colours[0], seen.heatmaps[0, 0], mask))
    return tile_grid([("", tiles)])


def phrase_figure(
    pairs: Batch,
    maps: Mapping[str, Float[Tensor, "pairs 2 patches"]],
    phrases: Sequence[str],
    grid: tuple[int, int],
) -> Figure:
    """Each image twice, for its first and its second class, one row of heatmaps for each method.

    Source: Beyond Intuition Figs. 7 and 9. `phrases` has what is asked for each class, `grid` says
    how many rows and columns of patches there are. The object that is asked for is outlined. Each
    heatmap is stretched over its own range.
    """
    size = tuple(pairs.images.shape[-2:])
    rows = [
        (named(name), to_heatmap(both.flatten(0, 1).float(), size, grid))
        for name, both in maps.items()
    ]
    titles = [fill(phrases[label], 26) for label in pairs.labels.flatten().tolist()]
    own = pairs.masks.flatten(0, 1)[:, None]
    return heatmap_grid(pairs.images.repeat_interleave(2, dim=0), rows, titles, masks=own)


def subset_grid(
    whole: Float[Tensor, "count 3 height width"],
    answers: Sequence[str],
    alone: Float[Tensor, "pairs 3 height width"],
    labels: Sequence[str],
    subsets: Subsets,
) -> Figure:
    """Each image under the model's answer, and beside it what is left for labels (Fig. 5).

    `alone` has what is left of each image for each label, `labels` names these; of an image the
    first four are shown, as many as stand beside it. Blue: a sufficient subset; orange italics:
    none was found, and this is the surest on the way.
    """
    each = len(alone) // len(whole)
    shares = zip(labels, subsets.confidence_pct, subsets.kept_pct, strict=True)
    said = [f"{name} {sure:.1f} %\n{kept:.0f} % of the pixels" for name, sure, kept in shares]
    inks = [GAIN if found else LOSS for found in subsets.found]
    parts = [slice(each * i, each * i + min(COLUMNS - 1, each)) for i in range(len(whole))]
    return image_grid(
        [("", torch.cat([whole[i : i + 1], alone[part]])) for i, part in enumerate(parts)],
        [[answers[i], *said[part]] for i, part in enumerate(parts)],
        colours=[["black", *inks[part]] for part in parts],
    )


def maps_grid(
    batch: Batch,
    maps: Mapping[str, Float[Tensor, "images patches"]],
    grid: tuple[int, int],
    titles: Sequence[str] | None = None,
) -> Figure:
    """The images of a batch, and below them the maps of each method, their objects outlined.

    `grid` says how many rows and columns of patches there are. A method's maps with values below 0
    are drawn in two colours, each over its own largest size, all others each over its own range.
    One that is NaN, as some methods publish it, stays dark.
    """
    size = tuple(batch.images.shape[-2:])
    heats = {name: _heat(values, size, grid) for name, values in maps.items()}
    rows = [(named(name).replace("|", " x\n"), heat) for name, heat in heats.items()]
    return heatmap_grid(batch.images, rows, titles, masks=batch.masks)


def scene_figure(
    scene: Batch,
    drawn: Images,
    titles: Sequence[str],
    maps: Mapping[str, Float[Tensor, "1 patches"]],
    grid: tuple[int, int],
) -> Figure:
    """A scene as it is `drawn` whole and without parts, and below, in two rows, maps of it.

    `titles` are those of the first row; a map's name is its title. Drawn as by `maps_grid`.
    """
    top = [Tile(pixels_of(image), title) for image, title in zip(drawn, titles, strict=True)]
    whole, mask, below = pixels_of(scene.images[0]), scene.masks[0, 0], []
    for name, values in maps.items():
        heat = _heat(values, tuple(whole.shape[:2]), grid)[0, 0]
        below.append(Tile(whole, name, heat=heat, mask=mask, signed=bool((heat < 0).any())))
    half = -(-len(below) // 2)
    rows = [("", top), ("", below[:half]), ("", below[half:])]
    return tile_grid(rows, keys=[Line2D([], [], label="the object", **OUTLINE)])


def _heat(values: Tensor, size: tuple[int, int], grid: tuple[int, int]) -> Heatmaps:
    """Over each map's own range; with values below 0 they stay as they are."""
    found = values.detach().cpu().nan_to_num()
    return to_heatmap(found, size, grid, normalise=not (found < 0).any())


def cut_out(images: Images, masks: Masks) -> Images:
    """The images with all that lies outside the masks dimmed."""
    return (images * masks + DIMMED * images * ~masks).to(images.dtype)


def mask_gallery(batch: Batch, found: AutomaticMasks, count: int) -> Figure:
    """The best and the worst of automatic masks, both stages, by the overlap of the refined ones.

    The overlap with the exact mask stands above, and a cross where the rules drop the mask.
    """
    rows = quality_rows(found, batch.masks).query("stage == 'refined'")
    iou = rows.set_index("index")["iou_pct"].sort_values()
    tiles, titles = [], []
    for name, ordered in {"best": iou[::-1], "worst": iou}.items():
        places = ordered.index[:count].tolist()
        for stage in ("coarse", "refined"):
            shown = cut_out(batch.images[places], getattr(found, stage)[places])
            tiles.append((f"{name}, {stage}", shown))
        said = [f"{'' if found.kept[place] else '× '}{iou[place]:.0f} %" for place in places]
        titles += [[""] * len(places), said]
    return image_grid(tiles, titles, note="%: overlap with the exact mask; ×: not kept")


def cut_steps(
    images: Images, steps: Sequence[tuple[str, Shaped[Tensor, "count rows columns"]]]
) -> Figure:
    """The images, and below them one row of maps for each step.

    A map of real numbers has its own scale of colours, symmetric about its mean, yellow above it;
    one of truth values or of 0, 1, 2 shows what is other, dropped and the object.
    """
    rows = [("image", [Tile(pixels_of(image)) for image in images])]
    rows += [(name, [_step(values) for values in maps[: len(images)]]) for name, maps in steps]
    keys = [Patch(color=colour, label=name) for name, colour in PIECES.items()]
    return tile_grid(rows, keys=keys)


def outline(axis: Axes, mask: Mask) -> None:
    """A white line around the object of a picture, with a dark edge that is seen on white."""
    if mask.any():  # an image of some sets has none
        axis.autoscale(False)
        rows, columns = (np.arange(-1, side + 1) for side in mask.shape)
        style = {"levels": [0.5], "colors": "white", "linewidths": 1}
        line = axis.contour(columns, rows, np.pad(mask, 1), **style)  # closed at the border, too
        line.set_path_effects(OUTLINE["path_effects"])


def bare(axis: Axes) -> Axes:
    """Axes without ticks, lines or frame, whatever style the notebook has set."""
    axis.set(xticks=[], yticks=[])
    axis.grid(False)
    axis.spines[:].set_visible(False)
    return axis


def shortened(name: str, most: int) -> str:
    """A name of at most so many characters; what is too much is left out of its middle."""
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - half]}…{name[-half:]}"


def pixels_of(image: Shaped[Tensor, "3 height width"]) -> Shaped[np.ndarray, "height width 3"]:
    """As matplotlib draws it."""
    return image.permute(1, 2, 0).cpu().numpy()


def draw_tile(axis: Axes, tile: Tile) -> AxesImage:
    """A tile on a given axis, a heatmap over its image in grey; what a colour bar needs."""
    if tile.heat is not None:
        axis.imshow(tile.pixels.mean(axis=2), **GREY)
        values = tile.heat.detach().float().cpu().numpy()
        values = values / (np.abs(values).max() or 1.0) if tile.signed else values
        drawn = axis.imshow(values, **(SIGNED_HEAT if tile.signed else HEAT))
    else:
        drawn = axis.imshow(tile.pixels, interpolation="nearest", **(tile.colours or {}))
    if tile.mask is not None:
        outline(axis, tile.mask.cpu().numpy())
    style = {"color": tile.colour, "style": "italic" if tile.colour == LOSS else "normal"}
    write(axis.set_title, tile.title, fontsize=9, pad=3, **style)
    return drawn


def _step(values: Shaped[Tensor, "rows columns"]) -> Tile:
    if not values.is_floating_point():
        numbers = 2 * values if values.dtype == torch.bool else values
        pieces = {"cmap": ListedColormap(list(PIECES.values())), "vmin": 0, "vmax": 2}
        return Tile(numbers.numpy(), colours=pieces)
    numbers = values.double().numpy()
    middle = numbers.mean()
    reach = np.abs(numbers - middle).max() or 1.0
    scale = {"cmap": "cividis", "vmin": middle - reach, "vmax": middle + reach}
    return Tile(numbers, colours=scale)


def _add_scales(
    figure: Figure, scales: Mapping[bool, tuple[AxesImage, float]], ends: tuple[str, str]
) -> None:
    """At the right, the scale of each kind of heat beside the first row that has it."""
    width, height = figure.get_size_inches()
    for signed, (drawn, low) in scales.items():
        place = ((width + 0.05) / width, low / height, 0.12 / width, SIDE / height)
        scale_bar(figure, place, drawn, SIGNED_TICKS if signed else (HEAT_TICKS[0], ends))


def scale_bar(
    figure: Figure,
    place: tuple[float, float, float, float],
    heat: AxesImage,
    ticks: tuple[Sequence[float], Sequence[str]],
) -> None:
    """The colours of a heatmap at a place in the figure, and what its ends mean."""
    bar = figure.add_axes(place, facecolor="0.5")  # as the grey image below a heatmap
    figure.colorbar(heat, cax=bar).set_ticks(ticks[0], labels=ticks[1])
    bar.tick_params(labelsize=8, length=2)
    names = bar.get_yticklabels()  # within the bar's height: another may stand below it
    names[0].set_va("bottom")
    names[-1].set_va("top")

"""What pages on one's own model are made of: tables, pictures, and the parts on its audits.

A page has all pictures in it. Tables and pictures scroll where they do not fit, and tiles wrap.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from relevit.base.files import write_atomically
from relevit.evaluate.lean import CONDITIONS, shown_as
from relevit.finetune.own_audit import Audited, Mean
from reproduction.plots.style import picture_kind, stored
from reproduction.runs.in_words import gaps_in_words

INTERVAL = "95 %"
# What tables call the fields of an audit's rows; the first is their index.
CONDITION = {
    "condition": "shown",
    "images": "images",
    "top1_pct": "top-1 (%)",
    "probability_pct": "probability of the right class (%)",
}
MAP = {
    "method": "map",
    "images": "images",
    "on_object_pct": "on the object (%)",
    "right_pct": "where it is right (%)",
    "wrong_pct": "where it is wrong (%)",
}
CLASS = {
    "name": "class",
    "images": "images",
    "gap_pts": "gap (points)",
    "top1_pct": "top-1 (%)",
    "filled_pct": "object painted over (%)",
}
SHOWN_AS = ("original", "same", "other", "filled")  # of CONDITIONS, in examples
QUALITY = 85  # of a JPEG


class Tile(NamedTuple):
    """A small picture with answers below it, and whether each is right; None: it is no answer."""

    caption: str
    answers: Sequence[tuple[str, bool | None]]
    image: Markup


@dataclass(frozen=True)
class Part:
    """A section of a page. An example is a file with a row of tiles."""

    heading: str
    texts: Sequence[str] = ()
    code: str = ""
    tables: Sequence[Markup] = ()
    figures: Sequence[Markup] = ()
    examples: Sequence[tuple[str, Sequence[Tile]]] = ()


def write_page(
    path: Path,
    title: str,
    finding: str,
    parts: Sequence[Part],
    *,
    texts: Sequence[str] = (),
    notes: Sequence[str] = (),
    files_beside: Sequence[str] = (),
) -> Path:
    """Write a page to `path`, and give it back."""
    source = (files("reproduction") / "assets" / "own_page.html.j2").read_text("utf-8")
    about = {"title": title, "finding": finding, "parts": parts}
    about |= {"texts": texts, "notes": notes, "files": files_beside}
    write_atomically(path, jinja2.Template(source, autoescape=True).render(about))
    return path


def html(table: pd.DataFrame) -> Markup:
    with pd.option_context("display.max_colwidth", None):
        plain = table.rename_axis(index=None, columns=None)
        inside = plain.to_html(border=0, float_format="{:z.1f}".format, na_rep="")
    return Markup(f'<div class="wide">{inside}</div>')


def drawn(figure: Figure, margin: float = 0.05) -> Markup:
    """A figure as an element of the page, with its text for those who do not see it."""
    kind = picture_kind(figure)
    data, said = stored(figure, kind, margin)
    return _element(data, kind, said["alt"], Markup(' width="{}"').format(said["width"]))


def _element(data: bytes, kind: str, alt: str, more: str = "") -> Markup:
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return Markup('<img alt="{}"{} src="{}">').format(alt, more, source)


# Audits: of one model, or of some side by side


def audit_parts(audits: Mapping[str, Audited]) -> list[Part]:
    """What `relevit audit` says of each model, by its name; the first has the examples."""
    first, several = next(iter(audits.values())).audit, len(audits) > 1
    texts = [
        "The background gap is top-1 on backgrounds of the same class (third row) less that on "
        "another's (fourth), image by image, in points. Both have the same seams and fills. The "
        "second row is the control: what pasting alone costs. Who is right in the last row is "
        "right for the wrong reason. All intervals are 95 %, over images."
    ]
    if (share := first.background_share_pct) and not several:
        texts.append(
            f"Of the answer's logit the background carries {share.value:.0f} % ({_ends(share)}), "
            "the object the rest (Shapley's value of the two)."
        )
    tables = [html(gaps_in_words(audits)), _beside(audits, "conditions", CONDITION)]
    parts = [Part("How much it leans on the background", texts, tables=tables)]
    if first.maps:
        text = (
            "How much of an attribution map for the answer lies on the object, in images as they "
            f"are. A flat map would have {first.maps[0].object_pct:.0f} % there."
        )
        parts.append(Part("Where it looks", [text], tables=[_beside(audits, "maps", MAP)]))
    best = (
        f"Right as they are and on a background of their class, wrong on another's"
        f"{f', by the {first.model}' if several else ''}; where there are too few such, those "
        "whose right class loses most. Blue is right; orange, in italics, is wrong. The number is "
        "the probability of the right class."
    )
    parts.append(Part("The images that say it best", [best], examples=_examples(audits)))
    classes = _beside(audits, "classes", CLASS)
    return [*parts, Part("By class, the one that leans most first", tables=[classes])]


def _beside(audits: Mapping[str, Audited], field: str, words: Mapping[str, str]) -> Markup:
    """A table of an audit; of several the means and their intervals, under the models' names."""
    tables = {name: _table(getattr(found.audit, field), words) for name, found in audits.items()}
    if len(tables) == 1:
        return html(*tables.values())
    behind = [list(table).index(INTERVAL) for table in tables.values()]
    means = [table.iloc[:, [at - 1, at]] for table, at in zip(tables.values(), behind, strict=True)]
    return html(pd.concat(means, axis=1, keys=tables))


def _table(rows: Sequence[Any], words: Mapping[str, str]) -> pd.DataFrame:
    """Rows of an audit, their fields under these words; a mean has its interval behind it."""
    found = []
    for row in rows:
        cells: dict[str, Any] = {}
        for field, word in words.items():
            value = getattr(row, field)
            mean = isinstance(value, Mean)
            cells |= {word: value.value, INTERVAL: _ends(value)} if mean else {word: value}
        found.append(cells)
    return pd.DataFrame(found).set_index(next(iter(words.values()))).rename(index=CONDITIONS)


def _ends(mean: Mean) -> str:
    return f"{mean.low:z.0f} to {mean.high:z.0f}"


def _examples(audits: Mapping[str, Audited]) -> list[tuple[str, list[Tile]]]:
    """The images that say it best of the first, in the ways of SHOWN_AS, with all answers."""
    found, several = next(iter(audits.values())), len(audits) > 1
    images, names = found.images, found.names
    answers = {name: each.rows.set_index(["image", "condition"]) for name, each in audits.items()}
    tiles: dict[int, list[Tile]] = {place: [] for place in found.examples}

    def tile(place: int, condition: str, picture: Tensor) -> Tile:
        rows = {name: each.loc[(place, condition)] for name, each in answers.items()}
        said = [
            (
                f"{f'{name}: ' * several}{names[row['answer']]} {100 * row['probability']:.0f} %",
                bool(row["right"]),
            )
            for name, row in rows.items()
        ]
        file, shown = BytesIO(), Image.fromarray(picture.permute(1, 2, 0).numpy())
        shown.save(file, "jpeg", quality=QUALITY)
        alt = f"{names[images.labels[place]]}, {CONDITIONS[condition]}"
        return Tile(CONDITIONS[condition], said, _element(file.getvalue(), "jpeg", alt))

    shown = shown_as(images.images, images.masks > 0.5, images.labels, seed=found.audit.seed)
    for condition, places, pictures in shown:
        for place, picture in zip(places.tolist(), pictures, strict=True):
            if place in tiles and condition in SHOWN_AS:
                tiles[place].append(tile(place, condition, picture))
    heads = [names[images.labels[place]] for place in tiles]
    return [
        (f"{label}: {file}", row)
        for label, file, row in zip(heads, found.audit.examples, tiles.values(), strict=True)
    ]

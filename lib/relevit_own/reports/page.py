"""What pages on one's own model are made of: tables, pictures, and the parts on its audits.

A page has all pictures in it. Tables and pictures scroll where they do not fit, and tiles wrap.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
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
from relevit_own.audit import Audited, Mean
from relevit_own.images import TOKENCUT
from reproduction.plots.style import picture_kind, stored

# What tables call the fields of an audit's rows: first their name, then a count, then a mean.
CONDITION = {
    "condition": "shown",
    "images": "images",
    "top1_pct": "right (%)",
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
    "top1_pct": "right (%)",
    "filled_pct": "right, painted over (%)",
}
SHOWN_AS = {  # of CONDITIONS, in few words
    "original": "as it is",
    "same": "on another of its class",
    "other": "on another class",
    "filled": "painted over",
}
QUALITY = 85  # of a JPEG
Tile = tuple[str, list[tuple[str, bool]], Markup]  # its words, answers (are they right?), picture


class Part(NamedTuple):
    """A section of a page. Examples are files, each with a row of tiles (`_examples`)."""

    heading: str
    texts: Sequence[str] = ()
    code: str = ""
    tables: Sequence[Markup] = ()
    figures: Sequence[Markup] = ()
    examples: Sequence[tuple[str, list[Tile]]] = ()


def write_page(path: Path, **about: Any) -> Path:
    """Write a page of `title`, `finding`, `parts` and, if there are, `texts`, `notes`, `files`."""
    source = (files("relevit_own") / "assets" / "own_page.html.j2").read_text("utf-8")
    write_atomically(path, jinja2.Template(source, autoescape=True).render(about))
    return path


def html(table: pd.DataFrame) -> Markup:
    with pd.option_context("display.max_colwidth", None):
        plain = table.rename_axis(index=None, columns=None)
        inside = plain.to_html(border=0, float_format="{:z.1f}".format, na_rep="")
    return Markup(f'<div class="wide">{inside}</div>')


def drawn(figure: Figure) -> Markup:
    """A figure as an element of the page, with its text for those who do not see it."""
    kind = picture_kind(figure)
    data, said = stored(figure, kind)
    return _element(data, kind, said["alt"], Markup(' width="{}"').format(said["width"]))


def _element(data: bytes, kind: str, alt: str, more: str = "") -> Markup:
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return Markup('<img alt="{}"{} src="{}">').format(alt, more, source)


# Audits: of one model, or of some side by side


def gaps_in_words(audits: Mapping[str, Audited]) -> pd.DataFrame:
    """The background gap of each audited model, by its name, with its verdict."""
    found = [(each.audit.gap_pts, each.audit.verdict) for each in audits.values()]
    shown = (
        {row.condition: row.images for row in each.audit.conditions} for each in audits.values()
    )
    return pd.DataFrame(
        {
            "images": [images["same"] for images in shown],
            "background gap, points": [f"{gap.value:+z.1f}" for gap, _ in found],
            "95 % interval": [f"{gap.low:+z.1f} to {gap.high:+z.1f}" for gap, _ in found],
            "verdict": [verdict for _, verdict in found],
        },
        index=pd.Index(audits, name="model"),
    )


def audit_parts(audits: Mapping[str, Audited]) -> list[Part]:
    """What `relevit audit` says of each model, by its name; the first has the examples."""
    first, several = next(iter(audits.values())).audit, len(audits) > 1
    texts = [
        "The background gap is the share of right answers on backgrounds of the same class (third "
        "row) less that on another's (fourth), image by image, in points. Both have the same seams "
        "and fills. Models that do not lean have one, too, and the verdict asks for more. The "
        "second row is the control: what pasting alone costs. Who is right in the last row is "
        "right for the wrong reason. Right answers are in percent; all intervals are 95 %, over "
        "images."
    ]
    if first.background_share_pct and not several:
        texts.append(
            f"Of the answer's logit the background carries {_cell(first.background_share_pct)} %, "
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
        "Right as they are and on a background of their class, wrong on another's"
        f"{f', by the {first.model}' if several else ''}; first those whose right class loses most."
    )
    if first.masks == TOKENCUT:
        best += (
            " A mask of TokenCut's may have missed its object. So only those are here whose object "
            "is right alone, on grey, as are the objects of the two that lend the backgrounds."
        )
    best += (
        " Blue is right; orange, in italics, is wrong. The number is the probability of the right "
        "class."
        if first.examples
        else " There is none."
    )
    parts.append(Part("The images that say it best", [best], examples=_examples(audits)))
    classes = _beside(audits, "classes", CLASS)
    text = ["The background gap, in points."] if several else []
    return [*parts, Part("By class, the one that leans most first", text, tables=[classes])]


def _beside(audits: Mapping[str, Audited], field: str, words: Mapping[str, str]) -> Markup:
    """A table of an audit; of several their means, under their names."""
    tables = {name: _table(getattr(found.audit, field), words) for name, found in audits.items()}
    if len(tables) == 1:
        return html(*tables.values())
    return html(pd.concat({name: table.iloc[:, 1] for name, table in tables.items()}, axis=1))


def _table(rows: Sequence[Any], words: Mapping[str, str]) -> pd.DataFrame:
    """Rows of an audit, their fields under these words."""
    cells = [[_cell(getattr(row, field)) for field in words] for row in rows]
    table = pd.DataFrame(cells, columns=list(words.values()))
    return table.set_index(table.columns[0]).rename(index=CONDITIONS)


def _cell(value: Any) -> str:
    """As a table has it; a mean with its interval."""
    if isinstance(value, Mean):
        return f"{value.value:z.0f} ({value.low:z.0f} to {value.high:z.0f})"
    if isinstance(value, float):
        return f"{value:.0f}"
    return "" if value is None else str(value)


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
        return SHOWN_AS[condition], said, _element(file.getvalue(), "jpeg", alt)

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

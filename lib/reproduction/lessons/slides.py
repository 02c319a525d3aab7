"""What a class reads: slides with notes, made by nbconvert, and pages for paper and screen.

Both are Markdown in `workshop/`, with formulas between dollar signs. A slide begins at a line
`---`; what follows a line `Note:` is for the speaker (key S). A line
`figure: NOTEBOOK CELL [crop LEFT,TOP,RIGHT,BOTTOM] | what it shows` is the first picture that the
cell of that committed notebook stores, or the part of it between these percents of its width and
height. Such lines below each other stand side by side. A picture that is not stored leaves its
words on the slide.
"""

from __future__ import annotations

import base64
import io
import re
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from docutils.utils.math.latex2mathml import tex2mathml
from jinja2 import Template
from nbconvert import SlidesExporter
from nbconvert.filters.markdown import markdown2html
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from PIL import Image

from reproduction.params.order import notebook_file
from reproduction.pipeline.notebooks import committed

FIGURE = re.compile(
    r"(?m)^figure: (?P<name>\S+) (?P<cell>\S+)"
    r"(?: crop (?P<crop>[\d.]+(?:,[\d.]+){3}))? \| (?P<shown>.+)$"
)
FIGURES = re.compile(r"(?m)(?:^figure: .*\n?)+")
STYLE = re.compile(r'<link rel="stylesheet" href="([\w.]+)">')
SCRIPT = re.compile(r'<script src="([\w.]+)"></script>')
FORMULA = re.compile(r"\$([^$\n]+)\$")
PICTURES = ("image/png", "image/jpeg")
ASSETS = files("reproduction") / "assets"
TEMPLATE = "slides"  # in ASSETS: reveal.js, and a page that holds it


class Made(NamedTuple):
    """How many slides there are, and which figures are not stored."""

    slides: int
    lost: list[str]


def deck(source: Path, notebooks: Path) -> tuple[NotebookNode, list[str]]:
    """The slides as a notebook of Markdown cells, each followed by one of notes if it has any.

    And a sentence for each figure whose cell, as committed, stores no picture (the notebook was
    stripped, or edited): its words stand in its place.
    Raises: ValueError for a notebook that there is not, and a figure written in another form.
    """
    read: dict[str, NotebookNode] = {}
    lost: list[str] = []

    def picture(match: re.Match[str]) -> str:
        name, cell = match["name"], match["cell"]
        if name not in read:
            path = notebooks / Path(notebook_file(name)).relative_to("notebooks")
            if not path.is_file():
                raise ValueError(f"{source}: {match.group()!r}: there is no {path}")
            read[name] = committed(path)
        outputs = [o for c in read[name].cells if c.id == cell for o in c.get("outputs", [])]
        found = [(k, o["data"][k]) for o in outputs for k in PICTURES if k in o.get("data", {})]
        if not found:
            lost.append(
                f"{source.name}: {match['shown']!r}: cell {cell!r} of {name}, as committed, stores "
                "no picture; make reproduce and make notebooks store those of a run"
            )
            return f"<em>{match['shown']}</em>"
        address = _address(*found[0], match["crop"])
        return f'<img alt="{match["shown"]}" src="{address}">'

    def row(match: re.Match[str]) -> str:
        for line in match.group().splitlines():
            if not FIGURE.fullmatch(line):
                raise ValueError(
                    f"{source}: {line!r} is no figure; write figure: NOTEBOOK CELL "
                    "[crop LEFT,TOP,RIGHT,BOTTOM] | what it shows"
                )
        return f'<p class="figures">{FIGURE.sub(picture, match.group())}</p>\n'

    cells = []
    parts = re.split(r"(?m)^---$", source.read_text(encoding="utf-8"))
    for number, part in enumerate(parts, start=1):
        shown, _, said = _with_formulas(part).partition("\nNote:\n")
        for kind, text in (("slide", FIGURES.sub(row, shown.strip())), ("notes", said.strip())):
            if text:
                cells.append(new_markdown_cell(text, id=f"{kind}-{number:02d}"))
                cells[-1].metadata["slideshow"] = {"slide_type": kind}
    title = cells[0].source.partition("\n")[0].lstrip("# ")
    return new_notebook(cells=cells, metadata={"title": title}), lost


def write_slides(source: Path, notebooks: Path, target: Path) -> Made:
    """The deck as one HTML file, shown by reveal.js. Raises: as `deck`."""
    notebook, lost = deck(source, notebooks)
    exporter = SlidesExporter(template_name=TEMPLATE, extra_template_basedirs=[str(ASSETS)])
    target.write_text(exporter.from_notebook_node(notebook)[0], encoding="utf-8")
    kinds = [cell.metadata["slideshow"]["slide_type"] for cell in notebook.cells]
    return Made(kinds.count("slide"), lost)


def page(text: str) -> str:
    """Markdown as HTML that needs no network and prints on A4."""
    template = Template((ASSETS / TEMPLATE / "page.html.j2").read_text(encoding="utf-8"))
    title = text.partition("\n")[0].lstrip("# ")
    return template.render(title=title, body=markdown2html(_with_formulas(text)))


def homes(static: Path) -> str:
    """The page of homes as one file, which holds what it loads."""
    html = (static / "homes.html").read_text(encoding="utf-8")
    for loaded, kind in ((STYLE, "style"), (SCRIPT, "script")):
        for found in loaded.finditer(html):
            text = (static / found[1]).read_text(encoding="utf-8")
            html = html.replace(found.group(), f"<{kind}>\n{text}</{kind}>")
    scenes = base64.b64encode((static / "homes.webp").read_bytes()).decode()
    return html.replace('"homes.webp"', f'"data:image/webp;base64,{scenes}"')


def _with_formulas(text: str) -> str:
    """Formulas as MathML, on one line each, which Markdown leaves alone."""
    return FORMULA.sub(
        lambda found: re.sub(r"\n\s*", "", tex2mathml(found[1], as_block=False)), text
    )


def _address(kind: str, data: str, crop: str | None) -> str:
    """An address that holds the picture itself, or the part of it that `crop` names."""
    if crop:
        picture = Image.open(io.BytesIO(base64.b64decode(data)))
        sides = zip(map(float, crop.split(",")), picture.size * 2, strict=True)
        part = picture.crop([round(percent * side / 100) for percent, side in sides])
        part.save(into := io.BytesIO(), picture.format, quality=90)
        data = base64.b64encode(into.getvalue()).decode()
    return f"data:{kind};base64,{data.strip()}"

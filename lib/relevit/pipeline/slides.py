"""A deck of slides from the notebooks' figures: `workshop/slides.md`, made by nbconvert.

A slide begins at a line `---`. A line `figure: NOTEBOOK CELL [NUMBER] | what it shows` is the
picture that the cell of that committed notebook has stored, the first unless a number says which.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

FIGURE = re.compile(r"(?m)^figure: (\S+) (\S+)(?: (\d+))? \| (.+)$")
PICTURES = ("image/svg+xml", "image/png", "image/jpeg")
ASSETS = files("relevit") / "assets"
TEMPLATE = "slides"  # in ASSETS: reveal.js, and a page that holds it


def deck(source: Path, notebooks: Path) -> NotebookNode:
    """The slides as a notebook of Markdown cells.

    Raises: ValueError for a figure that is not there.
    """
    read: dict[str, NotebookNode] = {}

    def picture(match: re.Match[str]) -> str:
        name, cell, number, shown = match.groups()
        if name not in read:
            path = notebooks / f"{name}.ipynb"
            if not path.is_file():
                raise ValueError(f"{source}: {match.group()!r}: there is no {path}")
            read[name] = nbformat.read(path, as_version=4)
        found = _pictures(read[name], cell)
        wanted = int(number or 1)
        if not 1 <= wanted <= len(found):
            raise ValueError(
                f"{source}: {match.group()!r}: cell {cell!r} of {name} has {len(found)} pictures; "
                "give the id of a cell that shows one"
            )
        return f'<img alt="{shown}" src="{found[wanted - 1]}">'

    parts = re.split(r"(?m)^---$", source.read_text(encoding="utf-8"))
    cells = [new_markdown_cell(FIGURE.sub(picture, part.strip())) for part in parts]
    for number, cell in enumerate(cells):
        cell.id = f"slide-{number + 1:02d}"
        cell.metadata["slideshow"] = {"slide_type": "slide"}
    title = cells[0].source.partition("\n")[0].lstrip("# ")
    return new_notebook(cells=cells, metadata={"title": title})


def write_slides(source: Path, notebooks: Path, target: Path) -> int:
    """The deck as one HTML file, shown by reveal.js; the number of slides. Raises: as `deck`."""
    notebook = deck(source, notebooks)
    exporter = SlidesExporter(template_name=TEMPLATE, extra_template_basedirs=[str(ASSETS)])
    html, _ = exporter.from_notebook_node(notebook)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(html, encoding="utf-8")
    return len(notebook.cells)


def _pictures(notebook: NotebookNode, id: str) -> list[str]:
    """The addresses of a cell's pictures, which hold the pictures themselves."""
    found = []
    outputs = [out for cell in notebook.cells if cell.id == id for out in cell.get("outputs", [])]
    for data in (output.get("data", {}) for output in outputs):
        kind = next((kind for kind in PICTURES if kind in data), None)
        if kind == "image/svg+xml":
            found.append(f"data:{kind};utf8,{_quoted(data[kind])}")
        elif kind:
            found.append(f"data:{kind};base64,{data[kind].strip()}")
    return found


def _quoted(svg: str) -> str:
    from urllib.parse import quote

    return quote(svg)

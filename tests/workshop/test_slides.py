"""The deck: twenty slides, whose figures are stored in the notebooks."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from relevit.pipeline import slides

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "workshop" / "slides.md"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0#1"/></svg>'


def test_deck_has_twenty_slides_and_every_figure(tmp_path):
    count = slides.write_slides(SOURCE, ROOT / "notebooks", tmp_path / "slides.html")
    assert count == 20
    html = (tmp_path / "slides.html").read_text()
    wanted = len(slides.FIGURE.findall(SOURCE.read_text()))
    pictures = re.findall(r'<img alt="([^"]+)" src="data:image/', html)
    assert wanted >= 12 and len(pictures) == wanted
    assert not slides.FIGURE.search(html)
    assert not re.search(r'(?:src|href)="(?:https?:)?//|@import', html), "needs a network"
    assert html.count("Reveal.initialize(") == 1


def test_figures_by_number_and_kind(tmp_path):
    outputs = [
        new_output("display_data", {"image/jpeg": "AAAA", "text/plain": "Figure"}),
        new_output("display_data", {"image/svg+xml": SVG}),
    ]
    cell = new_code_cell("plot()", id="p", outputs=outputs)
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "one.ipynb")
    source = tmp_path / "slides.md"
    source.write_text("# A\nfigure: one p | first\n---\nfigure: one p 2 | second\n")
    cells = slides.deck(source, tmp_path).cells
    assert '<img alt="first" src="data:image/jpeg;base64,AAAA">' in cells[0].source
    assert 'src="data:image/svg+xml;utf8,%3Csvg' in cells[1].source and "#" not in cells[1].source
    for line, said in (("one p 3", "has 2 pictures"), ("two p", "there is no")):
        source.write_text(f"figure: {line} | lost\n")
        with pytest.raises(ValueError, match=said):
            slides.deck(source, tmp_path)

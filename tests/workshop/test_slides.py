"""The deck and the pages: figures of committed notebooks, notes, formulas, no network."""

import base64
import io
import re
import subprocess
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image

from reproduction.lessons import slides
from reproduction.pipeline import notebooks

ROOT = Path(__file__).parents[2]
WORKSHOP = ROOT / "workshop"
NETWORK = re.compile(r'(?:src|href)="(?:https?:)?//|@import')


def png(width: int, height: int) -> str:
    Image.new("RGB", (width, height)).save(into := io.BytesIO(), "PNG")
    return base64.b64encode(into.getvalue()).decode()


def store(path: Path, *pictures: str) -> None:
    """A notebook of one cell `p` that stores these pictures."""
    outputs = [new_output("display_data", {"image/png": picture}) for picture in pictures]
    cell = new_code_cell("plot()", id="p", outputs=outputs, execution_count=1 if pictures else None)
    nbformat.write(new_notebook(cells=[cell]), path)


@pytest.fixture
def source(tmp_path) -> Path:
    (path := tmp_path / "slides.md").write_text("# A\nfigure: one p | it\n")
    return path


def test_deck_has_every_figure_and_its_notes(tmp_path):
    made = slides.write_slides(WORKSHOP / "slides.md", ROOT / "notebooks", tmp_path / "s.html")
    html = (tmp_path / "s.html").read_text()
    wanted = len(slides.FIGURE.findall((WORKSHOP / "slides.md").read_text()))
    assert made == (21, []) and made.slides == html.count('<aside class="notes">')
    assert len(re.findall(r'<img alt="[^"]+" src="data:image/', html)) == wanted >= 12
    assert not re.search(r"(?m)^figure:|^Note:", html) and not NETWORK.search(html)


@pytest.mark.parametrize("name", ["handout", "quiz"])
def test_pages_need_no_network_and_show_formulas(name):
    html = slides.page((WORKSHOP / f"{name}.md").read_text())
    assert not NETWORK.search(html) and "$" not in html
    assert html.count("<math") >= 5 if name == "handout" else html.count("<details>") == 10


def test_the_page_of_homes_is_one_file():
    html = slides.homes(ROOT / "docs" / "_static")
    assert not NETWORK.search(html) and html.count("<style>") == html.count("<script>") == 2
    assert 'data-scenes="data:image/webp;base64,' in html


def test_part_of_a_figure(tmp_path, source):
    store(tmp_path / "one.ipynb", png(40, 20))
    source.write_text("# A\nfigure: one p crop 50,0,100,50 | part\n")
    (cell,) = slides.deck(source, tmp_path)[0].cells
    data = re.search(r'src="data:image/png;base64,([^"]+)"', cell.source)[1]
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (20, 10)


def test_a_notebook_that_has_run_does_not_change_a_slide(tmp_path, source):
    store(tmp_path / "one.ipynb", png(8, 8))
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b"]
    before = slides.deck(source, tmp_path)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
        subprocess.run([*git, *command], check=True)
    store(tmp_path / "one.ipynb", png(9, 9))
    assert slides.deck(source, tmp_path) == before


def test_a_notebook_without_outputs_leaves_the_words_of_its_figure(tmp_path, source):
    store(tmp_path / "one.ipynb")
    notebook, (lost,) = slides.deck(source, tmp_path)
    assert "<em>it</em>" in notebook.cells[0].source
    assert re.fullmatch(r"slides.md: 'it': cell 'p' of one, .* no picture; .* those of a run", lost)
    source.write_text("# A\nfigure: one p\n")
    with pytest.raises(ValueError, match="'figure: one p' is no figure; write figure: NOTEBOOK"):
        slides.deck(source, tmp_path)
    with pytest.raises(ValueError, match=r"one.ipynb: .* git checkout .* make notebooks"):
        notebooks.check_whole(tmp_path / "one.ipynb")

"""Copies of the notebooks to work in."""

import re

import nbformat
import pytest

from relevit.base.files import project_root
from reproduction.lessons import lab
from reproduction.params.order import NOTEBOOKS

WORKED_IN = "02_finetune"


@pytest.fixture
def folder(tmp_path):
    assert lab.write_copies(project_root(), tmp_path) == []
    place = tmp_path / f"{WORKED_IN}.ipynb"
    notebook = nbformat.read(place, as_version=4)
    notebook.cells[3].source += "\nlr = 2.0e-5"
    nbformat.write(notebook, place)
    return tmp_path


def test_a_copy_has_all_that_the_notebook_shows_and_its_links(folder):
    found = [*folder.rglob("*.ipynb")]
    assert sorted(path.stem for path in found) == sorted(NOTEBOOKS)
    for path in found:
        text = path.read_text()
        assert '"outputs": [\n' in text
        for link in re.findall(r"\]\((\.\./[^)#]+)", text):
            assert (path.parent / link).exists(), link


def test_what_was_worked_in_is_kept_until_new_copies_are_asked_for(folder):
    place = folder / f"{WORKED_IN}.ipynb"
    before = place.read_text()
    assert lab.write_copies(project_root(), folder) == [WORKED_IN]
    assert place.read_text() == before
    assert lab.write_copies(project_root(), folder, fresh=True) == []
    assert place.read_text() != before

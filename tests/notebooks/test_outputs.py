"""What the notebooks of a finished `make quick` print in tagged cells is what is stored of them.

`make test` runs this after that pipeline, so that no notebook is run twice. Tagged cells hold
statements that are true in every preset and on any machine.
"""

import re

import nbformat
import pytest

from reproduction.params.order import NOTEBOOKS, notebook_file
from reproduction.pipeline.notebooks import finished_notebooks, project_root

TAG = "nbval-check-output"


@pytest.fixture(scope="module")
def executed() -> dict[str, nbformat.NotebookNode]:
    """Raises: FileNotFoundError, which says what to run, where the run is not finished."""
    found = finished_notebooks("quick")
    return {name: nbformat.read(path, as_version=4) for name, path in found.items()}


def printed(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What tagged cells print, by id; a cell that shows anything else says which."""
    cells = [cell for cell in notebook.cells if TAG in cell.metadata.get("tags", [])]
    return {
        cell.id: "".join(
            out.get("text", out["output_type"])
            for out in cell.outputs
            if out.get("name") != "stderr"
        )
        for cell in cells
    }


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_tagged_outputs_are_those_that_are_stored(executed, name):
    stored = nbformat.read(project_root() / notebook_file(name), as_version=4)
    assert printed(executed[name]) == printed(stored)


def test_the_report_asks_for_tables_that_are_made(executed):
    """It leaves out those of notebooks that were not run, and so a wrong name, too."""
    source = "".join(cell.source for cell in executed["99_report"].cells)
    asked = set(re.findall(r'"(\d\da?_\w+/\w+)"', source))
    folder = project_root() / "outputs" / "quick"
    assert len(asked) > 5
    asked -= {"09a_text/clip_perturbation"}  # of presets with CLIP
    assert [name for name in asked if not (folder / f"{name}.parquet").is_file()] == []

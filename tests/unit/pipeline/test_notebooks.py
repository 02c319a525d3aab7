"""Outputs of a finished run go into the committed notebooks, and nothing else of it does."""

from __future__ import annotations

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from relevit.pipeline import notebooks

WIDGET = {notebooks.WIDGET: {"model_id": "1"}, "text/plain": "Dropdown()"}


def printed(text: str, name: str = "stdout"):
    return new_output("stream", name=name, text=text)


@pytest.fixture
def committed(tmp_path):
    cells = [
        new_markdown_cell("# Title", id="a"),
        new_code_cell("x: int = 1", id="b", metadata={"tags": ["parameters"]}),
        new_code_cell("print(x)", id="c", outputs=[printed("1\n")], execution_count=7),
        new_code_cell("widget", id="d"),
    ]
    path = tmp_path / "00_start.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


def run_of(path, **sources: str):
    """The same notebook as the pipeline runs it, with a cell of papermill and noise."""
    run = nbformat.read(path, as_version=4)
    injected = new_code_cell("x = 5", id="p", metadata={"tags": [notebooks.INJECTED]})
    run.cells.insert(2, injected)
    run.cells[3].outputs = [printed("50 %|###", "stderr"), printed("5\n")]
    run.cells[3].metadata["papermill"] = {"duration": 1.0}
    run.cells[4].outputs = [new_output("display_data", WIDGET)]
    for cell in run.cells:
        cell.source = sources.get(cell.id, cell.source)
    return run


def test_outputs_are_stored_without_noise(committed):
    notebooks.store(committed, run_of(committed))
    cells = nbformat.read(committed, as_version=4).cells
    assert [cell.id for cell in cells] == ["a", "b", "c", "d"]
    assert cells[1].source == "x: int = 1", "the parameters are those of the repository"
    assert [out.text for out in cells[2].outputs] == ["5\n"]
    assert cells[3].outputs == []
    assert [cell.execution_count for cell in cells[1:]] == [1, 2, 3]
    assert "papermill" not in cells[2].metadata


def test_prose_may_have_changed_since_and_code_may_not(committed):
    notebooks.store(committed, run_of(committed, a="# Other title"))
    before = committed.read_text()
    with pytest.raises(ValueError, match="the run had another cell 'c'"):
        notebooks.store(committed, run_of(committed, c="print(x + 1)"))
    assert committed.read_text() == before


def test_without_a_run_nothing_is_stored(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(notebooks, "run_folder", lambda *_: tmp_path)
    assert notebooks.main(["quick", "00_start"]) == 2
    assert "make it with: python -m relevit.pipeline quick" in capsys.readouterr().err

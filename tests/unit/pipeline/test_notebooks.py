"""Outputs of a finished run go into the committed notebooks, and nothing else of it does."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from reproduction.pipeline import notebooks

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


def run_of(path, **sources: str) -> Path:
    """The same notebook as the pipeline runs it, with a cell of papermill and noise."""
    run = nbformat.read(path, as_version=4)
    injected = new_code_cell("x = 5", id="p", metadata={"tags": ["injected-parameters"]})
    run.cells.insert(2, injected)
    run.cells[3].outputs = [printed("50 %|###", "stderr"), printed("5\n")]
    run.cells[3].metadata["papermill"] = {"duration": 1.0}
    run.cells[4].outputs = [new_output("display_data", WIDGET)]
    for cell in run.cells:
        cell.source = sources.get(cell.id, cell.source)
    executed = path.with_name("executed.ipynb")
    nbformat.write(run, executed)
    return executed


def test_outputs_are_taken_without_noise(committed):
    cells = notebooks.filled(committed, run_of(committed)).cells
    assert [cell.id for cell in cells] == ["a", "b", "c", "d"]
    assert cells[1].source == "x: int = 1", "the parameters are those of the repository"
    assert [out.text for out in cells[2].outputs] == ["5\n"]
    assert cells[3].outputs == []
    assert [cell.execution_count for cell in cells[1:]] == [1, 2, 3]
    assert "papermill" not in cells[2].metadata


def test_prose_may_have_changed_since_and_code_may_not(committed):
    assert notebooks.filled(committed, run_of(committed, a="# Other title"))
    with pytest.raises(ValueError, match="the run had another cell 'c'"):
        notebooks.filled(committed, run_of(committed, c="print(x + 1)"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A project with two notebooks and their run."""
    monkeypatch.setattr(notebooks, "project_root", lambda: tmp_path)
    paths = {}
    (tmp_path / "notebooks").mkdir()
    for name in ("00_start", "01_masks"):
        cells = [new_code_cell("print(1)", id="c")]
        paths[name] = tmp_path / f"{name}.run.ipynb"
        nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks" / f"{name}.ipynb")
        cells = [new_code_cell("print(1)", id="c", outputs=[printed("1\n")])]
        nbformat.write(new_notebook(cells=cells), paths[name])
    monkeypatch.setattr(notebooks, "finished_notebooks", lambda _: paths)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    monkeypatch.setattr(notebooks, "result_files", lambda *_: {"sets.csv": "set\n"})
    return paths


def test_all_are_stored_or_none(run, tmp_path, capsys):
    other = new_notebook(cells=[new_code_cell("print(2)", id="c")])
    nbformat.write(other, run["01_masks"])
    stored = tmp_path / "notebooks" / "00_start.ipynb"
    before = stored.read_text()
    assert notebooks.main(["quick"]) == 2
    assert "01_masks.ipynb: the run had another cell 'c'" in capsys.readouterr().err
    numbers = tmp_path / "docs" / "results" / "sets.csv"
    assert stored.read_text() == before and not numbers.exists()
    assert notebooks.main(["quick", "00_start"]) == 0
    assert numbers.read_text() == "set\n"
    (cell,) = nbformat.read(stored, as_version=4).cells
    assert cell.outputs[0].text == "1\n"


@pytest.mark.parametrize("metadata", [{}, {"end_time": "now", "exception": True}, None])
def test_a_run_that_failed_or_goes_on_is_not_finished(tmp_path, monkeypatch, metadata):
    monkeypatch.setattr(notebooks, "project_root", lambda: tmp_path)
    path = tmp_path / "outputs" / "quick" / "00_start" / "executed.ipynb"
    for folder in (path.parent, tmp_path / "params"):
        folder.mkdir(parents=True)
    (tmp_path / "params" / "quick.yaml").touch()
    if metadata is not None:
        nbformat.write(new_notebook(metadata={"papermill": metadata}), path)
    said = r"no finished run, 00_start is not done; make it with: python -m reproduction\.pipe"
    with pytest.raises(FileNotFoundError, match=said):
        notebooks.finished_notebooks("quick")

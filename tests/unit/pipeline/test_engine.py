"""papermill's engine: kernels of stages side by side do not share sockets."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from papermill.engines import NBClientEngine, papermill_engines

from relevit.pipeline import engine
from relevit.pipeline.engine import LONGEST_FOLDER, LocalEngine


@pytest.fixture
def options(monkeypatch):
    """What papermill's own engine is asked for, call by call, instead of running anything."""
    calls = []
    monkeypatch.setattr(
        NBClientEngine,
        "execute_managed_notebook",
        classmethod(lambda cls, nb_man, kernel_name, **options: calls.append(options)),
    )
    return calls


def test_papermill_knows_the_engine_by_name():
    assert papermill_engines.get_engine("relevit") is LocalEngine


def test_every_kernel_gets_sockets_in_files_of_its_own(options, monkeypatch, tmp_path):
    short = tmp_path / "run"
    monkeypatch.setattr(engine, "LONGEST_FOLDER", len(str(short)))
    monkeypatch.setattr(engine, "jupyter_runtime_dir", lambda: str(short))
    for _ in range(2):
        LocalEngine.execute_managed_notebook(None, "python3", log_output=True)
    managers = [call["config"].KernelManager for call in options]
    assert {manager.transport for manager in managers} == {"ipc"}
    files = [Path(manager.connection_file) for manager in managers]
    assert {file.parent for file in files} == {short} and short.is_dir()
    assert len(set(files)) == 2
    assert all(call["log_output"] is True for call in options)


def test_long_folder_has_no_room_for_the_name_of_a_socket(options, monkeypatch):
    monkeypatch.setattr(engine, "jupyter_runtime_dir", lambda: "/" + "x" * LONGEST_FOLDER)
    LocalEngine.execute_managed_notebook(None, "python3")
    assert "config" not in options[0]


def test_notebook_runs_takes_its_parameters_and_leaves_no_socket(tmp_path, monkeypatch):
    runtime = Path(tempfile.mkdtemp(prefix="run"))  # pytest's folders have long names
    monkeypatch.setattr(engine, "jupyter_runtime_dir", lambda: str(runtime))
    cells = [
        new_code_cell("number = 1", metadata={"tags": ["parameters"]}),
        new_code_cell("print(number)"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, tmp_path / "in.ipynb")
    done = papermill.execute_notebook(
        tmp_path / "in.ipynb",
        tmp_path / "out.ipynb",
        {"number": 7},
        engine_name="relevit",
        progress_bar=False,
    )
    assert done.cells[-1].outputs[0].text == "7\n"
    assert list(runtime.iterdir()) == []
    runtime.rmdir()

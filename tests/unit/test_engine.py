"""papermill's engine: kernels of stages side by side do not share sockets."""

from __future__ import annotations

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from papermill.engines import NBClientEngine, papermill_engines

from relevit import engine
from relevit.engine import LONGEST_FOLDER, LocalEngine


@pytest.fixture
def options(monkeypatch):
    """What papermill's own engine is asked for, instead of running anything."""
    seen = {}
    monkeypatch.setattr(
        NBClientEngine,
        "execute_managed_notebook",
        classmethod(lambda cls, nb_man, kernel_name, **options: seen.update(options)),
    )
    return seen


def test_papermill_knows_the_engine_by_name():
    assert papermill_engines.get_engine("relevit") is LocalEngine


def test_kernel_gets_sockets_in_files(options, monkeypatch):
    monkeypatch.setattr(engine, "jupyter_runtime_dir", lambda: "/run")
    LocalEngine.execute_managed_notebook(None, "python3", log_output=True)
    assert options["config"].KernelManager.transport == "ipc"
    assert options["log_output"] is True


def test_long_folder_has_no_room_for_the_name_of_a_socket(options, monkeypatch):
    monkeypatch.setattr(engine, "jupyter_runtime_dir", lambda: "/" * (LONGEST_FOLDER + 1))
    LocalEngine.execute_managed_notebook(None, "python3")
    assert "config" not in options


def test_notebook_runs_and_takes_its_parameters(tmp_path):
    cells = [
        new_code_cell("number = 1", metadata={"tags": ["parameters"]}),
        new_code_cell("print(number)"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, tmp_path / "in.ipynb")
    done = papermill.execute_notebook(
        tmp_path / "in.ipynb", tmp_path / "out.ipynb", {"number": 7}, engine_name="relevit",
        progress_bar=False,
    )  # fmt: skip
    assert done.cells[-1].outputs[0].text == "7\n"

"""What happens when notebooks run: parameters arrive or are refused, outputs are compared."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from relevit.config import StartParams

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CHECKED = "nbval-check-output"
SOON_S = 30  # 10 s on a machine with nothing else to do


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float


def call(folder: Path, module: str, *arguments: str | Path) -> Ended:
    """Run `python -m module arguments` in a folder."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    return Ended(done.returncode, done.stdout, done.stderr, time.perf_counter() - start)


# Wrong parameters


@pytest.mark.parametrize(
    ("notebook", "name", "value", "words"),
    [
        (
            "00_start",
            "sed",
            "1",
            ("sed = 1 is no parameter; allowed are", *StartParams.model_fields),
        ),
        # Without a dot it is text in YAML; the message must say how to write it.
        ("02_finetune", "lr", "3e-6", ("lr = '3e-6' (str)", "write it with a dot, like 3.0e-6")),
    ],
)
def test_wrong_parameter_stops_at_once(tmp_path, notebook, name, value, words):
    file = tmp_path / "wrong.yaml"
    file.write_text(f"output_root: {tmp_path / 'outputs'}\n{name}: {value}\n")
    ended = call(
        ROOT, "papermill", NOTEBOOKS / f"{notebook}.ipynb", tmp_path / "out.ipynb", "-f", file
    )
    assert ended.code != 0
    assert all(each in ended.err for each in words)
    assert ended.seconds < SOON_S
    assert not (tmp_path / "outputs").exists()


# Right parameters


# nbval compares


def with_kernel(cells: list[NotebookNode]) -> NotebookNode:
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def nbval(folder: Path, *options: str) -> Ended:
    options = ("-p", "no:cacheprovider", "-rA", "-q", *options)
    return call(folder, "pytest", "--nbval-lax", "--nbval-current-env", *options)


@pytest.mark.slow
def test_nbval_finds_a_broken_number_in_a_stored_notebook(tmp_path):
    """The checked cell of a committed notebook, with what it needs, as stored and broken."""
    cells = nbformat.read(NOTEBOOKS / "00_start.ipynb", as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    checked = next(cell for cell in code if CHECKED in cell.metadata.get("tags", []))
    (printed,) = checked.outputs
    assert "40" in printed.text
    folder = tmp_path / "notebooks"  # beside params/, so that nothing is written elsewhere
    folder.mkdir()
    shutil.copytree(ROOT / "params", tmp_path / "params")
    nbformat.write(with_kernel([*code[:3], checked]), folder / "as_stored.ipynb")
    printed.text = printed.text.replace("40", "41")
    nbformat.write(with_kernel([*code[:3], checked]), folder / "broken.ipynb")
    ended = nbval(tmp_path)
    assert ended.code == 1, ended.out
    assert "PASSED notebooks/as_stored.ipynb::Cell 3" in ended.out
    assert "FAILED notebooks/broken.ipynb::Cell 3" in ended.out
    assert ended.out.count("FAILED ") == 1

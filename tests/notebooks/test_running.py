"""What happens when notebooks run: parameters arrive or are refused, outputs are compared."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_notebook

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CHECKED = "nbval-check-output"
SOON_S = 30  # 10 s on a machine with nothing else to do


def call(folder: Path, module: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `python -m module arguments` in a folder."""
    how = {"cwd": folder, "env": os.environ | {"NO_COLOR": "1"}, "text": True}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, **how)


def test_wrong_parameter_stops_at_once(tmp_path):
    """Without a dot it is text in YAML; the message must say how to write it."""
    file = tmp_path / "wrong.yaml"
    file.write_text(f"output_root: {tmp_path / 'outputs'}\nlr: 3e-6\n")
    notebook, start = NOTEBOOKS / "02_finetune.ipynb", time.perf_counter()
    ended = call(ROOT, "papermill", notebook, tmp_path / "out.ipynb", "-f", file)
    assert ended.returncode != 0 and time.perf_counter() - start < SOON_S
    told = "lr = '3e-6' (str)", "write it with a dot, like 3.0e-6"
    assert all(words in ended.stderr for words in told)
    assert not (tmp_path / "outputs").exists()


@pytest.mark.slow
def test_nbval_finds_a_broken_number_in_a_stored_notebook(tmp_path):
    """The checked cell of a committed notebook, broken, with what it needs."""
    cells = nbformat.read(NOTEBOOKS / "00_start.ipynb", as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    checked = next(cell for cell in code if CHECKED in cell.metadata.get("tags", []))
    (printed,) = checked.outputs
    assert "40" in printed.text
    printed.text = printed.text.replace("40", "41")
    for name in ("params", "notebooks"):  # whose cells say what parameters there are
        shutil.copytree(ROOT / name, tmp_path / name)
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    broken = new_notebook(cells=[*code[:3], checked], metadata={"kernelspec": kernel})
    nbformat.write(broken, tmp_path / "notebooks" / "00_start.ipynb")
    options = ("-p", "no:cacheprovider", "-rA", "-q", "--nbval-lax", "--nbval-current-env")
    ended = call(tmp_path, "pytest", "notebooks/00_start.ipynb", *options)
    assert ended.returncode == 1, ended.stdout
    assert "PASSED notebooks/00_start.ipynb::Cell 2" in ended.stdout
    assert "FAILED notebooks/00_start.ipynb::Cell 3" in ended.stdout
    assert ended.stdout.count("FAILED ") == 1

"""Run every notebook with its defaults and keep the outputs: `python -m
relevit.pipeline.notebooks`.

The committed notebooks carry the outputs of the quick run, made by this and never by hand.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import papermill
from nbformat import NotebookNode

from relevit.base.files import project_root, write_atomically
from relevit.config import NOTEBOOKS

# What differs between two runs with equal results, and what papermill notes for itself.
NOISE = ("papermill", "execution", "ExecuteTime", "widgets")
WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(path: Path) -> float:
    """Run one notebook and store it with its outputs; seconds taken.

    The file is replaced only when every cell has run. Raises: papermill's error.
    """
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        executed = Path(folder) / path.name
        papermill.execute_notebook(
            path,
            executed,
            engine_name="relevit",
            kernel_name="python3",
            progress_bar=False,
            cwd=path.parent,
        )
        notebook = clean(nbformat.read(executed, as_version=4))
    write_atomically(path, lambda target: target.write_text(nbformat.writes(notebook) + "\n"))
    return time.perf_counter() - start


def clean(notebook: NotebookNode) -> NotebookNode:
    """Drop timings, progress bars, widgets and papermill's notes; number the code cells from 1."""
    for name in NOISE:
        notebook.metadata.pop(name, None)
    notebook.metadata.get("language_info", {}).pop("version", None)
    number = 0
    for cell in notebook.cells:
        for name in NOISE:
            cell.metadata.pop(name, None)
        if not cell.metadata.get("tags"):
            cell.metadata.pop("tags", None)
        if cell.cell_type != "code":
            continue
        number += 1
        cell.execution_count = number
        cell.outputs = [out for out in cell.outputs if not _is_noise(out)]
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
    return notebook


def _is_noise(output: NotebookNode) -> bool:
    """Progress bars, and widgets, which need a kernel: their ids differ from run to run."""
    return output.get("name") == "stderr" or WIDGET in output.get("data", {})


def main(arguments: list[str] | None = None) -> int:
    """Command line: all notebooks, or those named."""
    parser = argparse.ArgumentParser(
        prog="python -m relevit.pipeline.notebooks", description=__doc__
    )
    parser.add_argument("names", nargs="*", help="for example 02_finetune; all when none is given")
    names = parser.parse_args(arguments).names
    folder = project_root() / "notebooks"
    for path in (folder / f"{name}.ipynb" for name in NOTEBOOKS):  # in the order they need
        if not names or path.stem in names:
            print(f"{path.name}: {execute(path):.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

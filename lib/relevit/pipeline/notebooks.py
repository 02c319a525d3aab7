"""Store the outputs of a finished run in the committed notebooks: `relevit.pipeline.notebooks`.

Whoever opens a notebook first sees what `make reproduce` computed, and not what fits into a minute.
The outputs are copied, never computed by hand, and only where the run had the same cells.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from relevit.base.files import project_root, run_folder, write_atomically
from relevit.base.stages import EXECUTED, read_pipeline
from relevit.config import NOTEBOOKS

# What differs between two runs with equal results, and what papermill notes for itself.
NOISE = ("papermill", "execution", "ExecuteTime", "widgets")
WIDGET = "application/vnd.jupyter.widget-view+json"
INJECTED = "injected-parameters"  # papermill's tag of the cell that it adds


def executed_notebook(preset: str, name: str) -> Path:
    """Where a run of the pipeline has left a notebook; of many seeds, the first."""
    run = f"seed{read_pipeline(preset).seeds[0]}" if name == "02_finetune" else ""
    return run_folder(preset, name, run) / EXECUTED


def read_run(preset: str, name: str) -> NotebookNode:
    """A notebook as the pipeline ran it, without the cell that papermill added.

    Raises: FileNotFoundError that says how to make it.
    """
    path = executed_notebook(preset, name)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing; make it with: python -m relevit.pipeline {preset}"
        )
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [c for c in notebook.cells if INJECTED not in c.metadata.get("tags", [])]
    return notebook


def store(path: Path, run: NotebookNode) -> None:
    """Put the outputs of a run into a committed notebook.

    Raises: ValueError where a code cell of the run was another one.
    """
    notebook = nbformat.read(path, as_version=4)
    made = {cell.id: cell for cell in run.cells}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if cell.id not in made or made[cell.id].source != cell.source:
            raise ValueError(
                f"{path.name}: the run had another cell {cell.id!r}, before the notebook was "
                "changed: run the preset again, which makes what has changed"
            )
        cell.outputs = made[cell.id].outputs
    text = nbformat.writes(clean(notebook)) + "\n"
    write_atomically(path, lambda target: target.write_text(text))


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
    """Command line: all notebooks of a finished run, or those named; 2 for a wrong input."""
    parser = argparse.ArgumentParser(
        prog="python -m relevit.pipeline.notebooks", description=__doc__
    )
    parser.add_argument("preset", help="whose run, for example workshop")
    parser.add_argument("names", nargs="*", help="for example 02_finetune; all when none is given")
    options = parser.parse_args(arguments)
    names = options.names or list(NOTEBOOKS)
    try:
        runs = {name: read_run(options.preset, name) for name in names}  # all, or none is stored
        for name, run in runs.items():
            store(project_root() / "notebooks" / f"{name}.ipynb", run)
            print(f"{name}: stored", flush=True)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Store the outputs of a finished run in the committed notebooks.

Whoever opens a notebook first sees what `make reproduce` computed, and not what fits into a minute.
The outputs are copied, never computed by hand, and only where the run had the same cells. The same
run's numbers go into `docs/results/` (`reproduction.pipeline.results`), and the answers that a
lesson sets beside a reader's into the package (`reproduction.runs.stored`).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from relevit.base.files import project_root, write_atomically
from reproduction.claims import ResultTables
from reproduction.params.order import NOTEBOOKS, notebook_file
from reproduction.pipeline.results import result_files
from reproduction.runs import stored as kept
from reproduction.stages import EXECUTED

# What papermill and others note for themselves, and what needs a kernel.
NOISE = ("papermill", "execution", "ExecuteTime", "widgets")
WIDGET = "application/vnd.jupyter.widget-view+json"
# What differs between two runs with equal results: a table's id of pandas, an object's address.
TABLE, ADDRESS = re.compile(r"\bT_[0-9a-f]{5}(?![0-9a-f])"), re.compile(r" at 0x[0-9a-f]{6,}(?=>)")


def finished_notebooks(preset: str) -> dict[str, Path]:
    """The executed notebook of every stage, by name, in the order of the pipeline.

    Raises: ValueError for an unknown preset, FileNotFoundError where the run is not finished.
    """
    known = sorted(path.stem for path in project_root().glob("params/*.yaml"))
    if preset not in known:
        raise ValueError(f"preset {preset!r} is unknown; use one of {known}")
    found = {name: project_root() / "outputs" / preset / name / EXECUTED for name in NOTEBOOKS}
    for name, path in found.items():
        noted = json.loads(path.read_text(encoding="utf-8"))["metadata"] if path.is_file() else {}
        noted = noted.get("papermill", {})  # which stores a notebook after every cell
        if not noted.get("end_time") or noted.get("exception"):
            raise FileNotFoundError(
                f"preset {preset!r} has no finished run, {name} is not done; make it with: "
                f"python -m reproduction.pipeline {preset}"
            )
    return found


def filled(path: Path, executed: Path) -> NotebookNode:
    """A committed notebook with the outputs of a run.

    Raises: ValueError where a code cell of the run was another one.
    """
    notebook = nbformat.read(path, as_version=4)
    made = {cell.id: cell for cell in nbformat.read(executed, as_version=4).cells}
    for cell in _code(notebook):
        if cell.id not in made or made[cell.id].source != cell.source:
            raise ValueError(
                f"{path.name}: the run had another cell {cell.id!r}, before the notebook was "
                "changed: run the preset again, which makes what has changed"
            )
        cell.outputs = made[cell.id].outputs
    return clean(notebook)


def committed(path: Path) -> NotebookNode:
    """A notebook as git has it, whatever was run in it since; as it lies there without git."""
    git = shutil.which("git") or ""
    asked = [git, "show", f"HEAD:./{path.name}"]
    found = subprocess.run(asked, cwd=path.parent, capture_output=True) if git else None
    stored = found.stdout if found and found.returncode == 0 else path.read_bytes()
    return nbformat.reads(stored.decode("utf-8"), as_version=4)


def check_whole(path: Path) -> None:
    """Raises: ValueError for a notebook that was run in part, or stripped of its outputs."""
    counts = [cell.execution_count for cell in _code(nbformat.read(path, as_version=4))]
    if counts != list(range(1, len(counts) + 1)):
        raise ValueError(
            f"{path}: its outputs are not of one whole run; for the committed ones run "
            f"git checkout {path}, for those of a run make reproduce and make notebooks"
        )


def clean(notebook: NotebookNode) -> NotebookNode:
    """Drop what differs between two runs with equal results, and number the code cells from 1.

    That is timings, progress bars, widgets, papermill's notes, ids, and where the project lies.
    """
    for name in NOISE:
        notebook.metadata.pop(name, None)
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        for name in NOISE if cell.metadata.get("tags") else (*NOISE, "tags"):
            cell.metadata.pop(name, None)
    for number, cell in enumerate(_code(notebook), start=1):
        cell.execution_count = number
        cell.outputs = [
            out
            for out in cell.outputs
            if out.get("name") != "stderr" and WIDGET not in out.get("data", {})
        ]
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
    text = ADDRESS.sub("", nbformat.writes(notebook).replace(f"{project_root()}/", ""))
    tables: dict[str, str] = {}
    text = TABLE.sub(lambda found: tables.setdefault(found[0], f"T_{len(tables):05x}"), text)
    return nbformat.reads(text, as_version=4)


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def main(arguments: list[str] | None = None) -> int:
    """Command line: all notebooks of a finished run, or those named; 2 for a wrong input."""
    name = "python -m reproduction.pipeline.notebooks"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("preset", help="whose run, for example workshop")
    parser.add_argument("names", nargs="*", help="for example 02_finetune; all when none is given")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(NOTEBOOKS):
        parser.error(f"{sorted(unknown)[0]!r} is no notebook; use some of {', '.join(NOTEBOOKS)}")
    root = project_root()
    try:
        executed = finished_notebooks(options.preset)
        made = {  # all of them, before any is stored
            root / notebook_file(name): filled(root / notebook_file(name), executed[name])
            for name in options.names or executed
        }
        texts = {path: nbformat.writes(notebook) + "\n" for path, notebook in made.items()}
        stored, others = root / "docs" / "results", {}
        with suppress(FileNotFoundError):  # the run that readers make first: its times are told
            others["quick"] = finished_notebooks("quick")
        numbers = result_files(executed, options.preset, stored, others)
        texts |= {stored / name: numbers[name] for name in numbers}
        for path, text in texts.items():
            write_atomically(path, text)
        if options.preset == kept.PRESET:
            tables = ResultTables({name: path.parent for name, path in executed.items()})
            write_atomically(root / kept.FILE, kept.collected(tables).to_parquet)
    except (ValueError, KeyError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"stored the outputs of {len(made)} notebooks, and {len(numbers)} files of numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main())

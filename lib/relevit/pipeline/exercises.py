"""What a workshop hands out: `python -m relevit.pipeline.exercises` makes copies and slides.

The sources of exercises are `workshop/exercises/*.py`, notebooks as text (jupytext's percent
format). A solution stands between nbgrader's marks. A student's copy has a stub in its place; a
teacher's has both, the solution in a cell of its own that is folded. Neither has outputs. The
checks lie beside.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import re
import shutil
import sys
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from relevit.base.files import project_root
from relevit.pipeline.slides import write_slides

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
SOLUTION = re.compile(rf"(?ms)^([ ]*){BEGIN}\n(.*?)^[ ]*{END}\n?")
MARK = re.compile(rf"(?m)^[ ]*(?:{BEGIN}|{END})\n?")
CHECKS = "checks"
MADE = "exercise_as_made"  # in a copy's metadata: what its cells were
FOLDED = {"jupyter": {"source_hidden": True}, "tags": ["solution", "hide-input"]}


def read_source(path: Path) -> NotebookNode:
    """The notebook of a source. Raises: ValueError for marks that are no pair."""
    notebook = jupytext.read(path)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{path.stem}-{number:02d}"  # the same in every copy
        found = [line.strip() for line in cell.source.splitlines() if line.strip() in (BEGIN, END)]
        if cell.cell_type == "code" and found not in ([], [BEGIN, END]):
            raise ValueError(
                f"{path}: cell {number} has the marks {found}; a solution stands between one "
                f"{BEGIN!r} and one {END!r}"
            )
    notebook.metadata.pop("jupytext", None)
    return notebook


def has_solution(cell: NotebookNode) -> bool:
    """Whether a student is to write in this cell."""
    return cell.cell_type == "code" and bool(SOLUTION.search(cell.source))


def stub(source: str) -> str:
    """A cell's source with a place to write in where its solution is.

    In a function it also raises NotImplementedError, which the checks know.
    """

    def place(match: re.Match[str]) -> str:
        indent = match.group(1)
        lines = ["# Your code here."] + (["raise NotImplementedError"] if indent else [])
        return "".join(f"{indent}{line}\n" for line in lines)

    return SOLUTION.sub(place, source).rstrip("\n")


def solution(source: str) -> str:
    """A cell's source with its solution, without the marks."""
    return MARK.sub("", source).rstrip("\n")


def students_copy(source: NotebookNode) -> NotebookNode:
    """Without any solution."""
    notebook = copy.deepcopy(source)
    for cell in filter(has_solution, notebook.cells):
        cell.source = stub(cell.source)
    return notebook


def teachers_copy(source: NotebookNode) -> NotebookNode:
    """What the students see, and each solution folded below its stub."""
    notebook = students_copy(source)
    cells = []
    for cell, written in zip(notebook.cells, source.cells, strict=True):
        cells.append(cell)
        if has_solution(written):
            shown = nbformat.v4.new_code_cell(solution(written.source), metadata=FOLDED)
            shown.id = f"{cell.id}-solution"
            cells.append(shown)
    notebook.cells = cells
    return notebook


COPIES = {"students": students_copy, "teachers": teachers_copy}


def write_copies(sources: Path, folder: Path) -> list[Path]:
    """Both copies of every source, and the checks beside them; the notebooks written.

    Raises: FileNotFoundError without sources; ValueError where somebody has worked in a copy, and
    as `read_source`.
    """
    paths = sorted((sources / "exercises").glob("*.py"))
    if not paths:
        raise FileNotFoundError(f"exercises: no sources in {sources / 'exercises'}")
    notebooks = {path.stem: read_source(path) for path in paths}
    _check_untouched(folder)
    written = []
    for name, make in COPIES.items():
        place = folder / name
        shutil.rmtree(place / CHECKS, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(sources / CHECKS, place / CHECKS, ignore=ignored)
        for stem, notebook in notebooks.items():
            written.append(place / f"{stem}.ipynb")
            made = make(notebook)
            made.metadata[MADE] = _text_of(made)
            nbformat.write(made, written[-1])
    return written


def _check_untouched(folder: Path) -> None:
    """A copy whose cells are no longer those that were made, or have run, is somebody's work."""
    for path in sorted(path for place in COPIES for path in (folder / place).glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        ran = any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
        if ran or notebook.metadata.get(MADE) != _text_of(notebook):
            raise ValueError(
                f"exercises: {path} has been worked on; name another folder with --out, or move it "
                "away"
            )


def _text_of(notebook: NotebookNode) -> str:
    """Tells two notebooks' cells apart."""
    text = "\0".join(cell.source for cell in notebook.cells)
    return hashlib.sha256(text.encode()).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m relevit.pipeline.exercises", description=__doc__
    )
    parser.add_argument("--out", type=Path, default=project_root() / "outputs" / "exercises")
    folder = parser.parse_args(arguments).out
    root = project_root()
    try:
        written = write_copies(root / "workshop", folder)
        deck = folder / "slides.html"
        slides = write_slides(root / "workshop" / "slides.md", root / "notebooks", deck)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(written) // 2} notebooks for students and for teachers, {slides} slides: {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

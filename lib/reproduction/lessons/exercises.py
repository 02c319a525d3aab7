"""What `make class` hands out: students' copies of notebooks, handout and quiz, and slides.

The exercises are cells of the notebooks, and the committed notebooks have the solutions, between
nbgrader's marks. A student's copy is such a notebook with a stub in the place of each solution,
which stands in the third hint, and without outputs. What checks an answer, and goes on with the
solution where it is not right yet, is in `pipeline/checks.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import sys
import textwrap
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from relevit.base.files import project_root
from reproduction.lessons.slides import homes, page, write_slides

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
SOLUTION = re.compile(rf"(?ms)^([ ]*){BEGIN}\n.*?^[ ]*{END}$")
ELSEWHERE = re.compile(r"\[([^\]]*)\]\((?:\.\./|appendix/)[^)]*\)")  # a link, with its words
GIVEN = re.compile(
    r"(?m)^[ ]*### GIVEN (.*\n)"
)  # what a student begins with, where it is not empty
STUB = "# Your code here.\nraise NotImplementedError\n"
ANSWER = re.compile(r"(?s)<details><summary>Answer</summary>.*?</details>\n*")
GOES_ON = "raises-exception"  # a tag: Run All goes on behind such a cell, whatever is written there
MADE = "exercise_as_made"  # in a copy's metadata: what its cells were


def stub(source: str) -> str:
    """A cell's source with a place to write in where its solution is.

    That is what the lines `### GIVEN` hold, such as code to debug; without any it raises
    NotImplementedError, which the checks know.
    """

    def begun(found: re.Match[str]) -> str:
        lines = "".join(GIVEN.findall(found.group())) or STUB
        return textwrap.indent(lines, found[1]).rstrip("\n")

    return SOLUTION.sub(begun, source)


def solution(source: str) -> str:
    """The lines between a cell's marks, without what a student is given."""
    lines = GIVEN.sub("", SOLUTION.search(source).group()).splitlines()[1:-1]
    return textwrap.dedent("\n".join(lines))


def students_copy(path: Path) -> NotebookNode:
    """A notebook without any solution or output, for a folder that may lie anywhere.

    The solution stands in the last hint above its cell. The glossary lies beside the copy; other
    links to files of the project are words alone. Raises: ValueError for marks that are no pair.
    """
    notebook = nbformat.read(path, as_version=4)
    for above, cell in zip([None, *notebook.cells], notebook.cells, strict=False):
        if _marks(cell) not in ([], [BEGIN, END]):
            raise ValueError(
                f"{path}: cell {cell.id!r} has the marks {_marks(cell)}; a solution stands between "
                f"one {BEGIN!r} and one {END!r}"
            )
        if SOLUTION.search(cell.source):
            hints, end, rest = above.source.rpartition("</details>")
            code = f"\n```python\n{solution(cell.source)}\n```\n"
            above.source = f"{hints}{code}{end}{rest}"
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), GOES_ON]
        if cell.cell_type == "code":
            cell.update(source=stub(cell.source), outputs=[], execution_count=None)
        else:
            source = cell.source.replace("](../workshop/glossary.md", "](glossary.html")
            cell.source = ELSEWHERE.sub(r"\1", source)
    return notebook


def _marks(cell: NotebookNode) -> list[str]:
    found = [line.strip() for line in cell.source.splitlines()]
    return [line for line in found if line in (BEGIN, END)]


def write_copies(notebooks: Path, folder: Path) -> list[Path]:
    """A student's copy of every notebook; the files written.

    Raises: ValueError where somebody has worked in a copy, and as `students_copy`.
    """
    made = {path.name: students_copy(path) for path in sorted(notebooks.glob("*.ipynb"))}
    _check_untouched(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, copy in made.items():
        nbformat.write(mark(copy), folder / name)
    return [folder / name for name in made]


def _check_untouched(folder: Path) -> None:
    for path in sorted(folder.glob("*.ipynb")):
        if not untouched(path):
            raise ValueError(
                f"exercises: {path} has been worked on; name another folder with --out, or move it "
                "away"
            )


def mark(notebook: NotebookNode) -> NotebookNode:
    """Note in a copy what its cells are, for `untouched`."""
    notebook.metadata[MADE] = _text_of(notebook)
    return notebook


def untouched(path: Path) -> bool:
    """Whether a copy is still as it was made; else it is somebody's work."""
    notebook = nbformat.read(path, as_version=4)
    return notebook.metadata.get(MADE) == _text_of(notebook)


def _text_of(notebook: NotebookNode) -> str:
    """Tells two notebooks' cells apart, what they show included."""
    text = "\0".join(f"{cell.source}{cell.get('outputs', '')}" for cell in notebook.cells)
    return hashlib.sha256(text.encode()).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message and exit code 2."""
    root = project_root()
    name = "python -m reproduction.lessons.exercises"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("--out", type=Path, default=root / "outputs" / "class")
    folder = parser.parse_args(arguments).out.expanduser()
    texts = root / "workshop"
    try:
        write_copies(root / "notebooks", folder / "students")
        made = write_slides(texts / "slides.md", root / "notebooks", folder / "slides.html")
        read = {name: (texts / f"{name}.md").read_text(encoding="utf-8")
                for name in ("handout", "quiz", "glossary")}  # fmt: skip
        given = {f"students/{name}": page(ANSWER.sub("", text)) for name, text in read.items()}
        given |= {
            "students/homes": homes(root / "docs" / "_static"),
            "quiz_key": page(read["quiz"]),
        }
        for name, html in given.items():
            (folder / f"{name}.html").write_text(html, encoding="utf-8")
        archive = shutil.make_archive(str(folder / "class"), "zip", folder, "students")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"for students: {folder / 'students'}, the same as {archive}")
    print(f"for the speaker: {folder / 'slides.html'}, {made.slides} slides, notes with the key S")
    print(f"the quiz's answers: {folder / 'quiz_key.html'}")
    for lost in made.lost:
        print(f"without its picture, {lost}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

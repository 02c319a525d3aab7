"""Copies of the notebooks to work in: `make lab` opens these, and the stored figures stay.

A copy has all that the committed notebook has, its links too. One that has been worked in is kept.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from relevit.base.files import project_root
from reproduction.lessons.exercises import mark, untouched
from reproduction.params.order import NOTEBOOKS, notebook_file

FOLDER = Path("outputs", "lab")


def write_copies(root: Path, folder: Path, fresh: bool = False) -> list[str]:
    """A copy of every notebook; the names of those that were kept, as somebody works in them.

    `fresh`: none is kept.
    """
    kept = []
    for name in NOTEBOOKS:
        source = root / notebook_file(name)
        place = folder / source.relative_to(root / "notebooks")
        if place.is_file() and not fresh and not untouched(place):
            kept.append(name)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(mark(with_links(source, place.parent)), place)
    return kept


def with_links(path: Path, folder: Path) -> NotebookNode:
    """A notebook whose links to files of the project lead there from `folder`, too."""
    notebook = nbformat.read(path, as_version=4)
    links = f"]({Path(os.path.relpath(path.parent.parent, folder)).as_posix()}/"
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            # An appendix's link to its lesson leads to the copy beside it.
            cell.source = re.sub(r"\]\(\.\./(?!\d\d_)", links, cell.source)
    return notebook


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m reproduction.lessons.lab", description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="also for those that were worked in")
    root = project_root()
    try:
        kept = write_copies(root, root / FOLDER, parser.parse_args(arguments).fresh)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"copies of the notebooks to work in: {FOLDER}")
    if kept:
        print(f"kept as they are, with your work: {', '.join(kept)} (make lab FRESH=1: all anew)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

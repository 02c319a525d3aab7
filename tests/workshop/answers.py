"""How answers to exercises are tried: parts of a source, and what a check says."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checks.feedback import Wrong
from nbformat import NotebookNode

from relevit.pipeline import exercises

SOURCES = Path(__file__).parents[2] / "workshop" / "exercises"
Case = tuple[Callable, Any, str]


def said(cases: list[Case]) -> Callable:
    """A test that each answer is told what is wrong with it."""
    names = [f"{check.__name__}-{number}" for number, (check, _, _) in enumerate(cases)]

    @pytest.mark.parametrize(("check", "answer", "sentence"), cases, ids=names)
    def test(check, answer, sentence):
        with pytest.raises(Wrong) as found:
            check(answer)
        assert sentence in str(found.value)
        assert len(found.value._render_traceback_()) == 1

    return test


def checked_at_once(path: Path) -> Iterator[tuple[NotebookNode, NotebookNode]]:
    """Cells to write in whose check comes next, with it: that of a prediction comes later."""
    code = [cell for cell in exercises.read_source(path).cells if cell.cell_type == "code"]
    for cell, check in itertools.pairwise(code):
        if exercises.has_solution(cell) and is_check(check):
            yield cell, check


def is_check(cell: NotebookNode) -> bool:
    """Whether a cell calls one of the checks and does nothing else."""
    modules = [path.stem for path in SOURCES.parent.glob("checks/*.py")]
    return cell.source.startswith(tuple(f"{module}." for module in modules))

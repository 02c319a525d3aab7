"""Every exercise: its form, its solution, its stub, and the copies that are made of it."""

from __future__ import annotations

import importlib
import inspect
import itertools
import re

import nbformat
import pytest
from checks.feedback import Wrong
from nbclient import NotebookClient

from relevit import models
from relevit.models import load_model
from relevit.pipeline import exercises

from .answers import SOURCES, checked_at_once, is_check

PATHS = sorted(SOURCES.glob("*.py"))
TITLE = re.compile(r"## Exercise (\d): .+ \(\d+ minutes.*\)")
sources = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def parts(path) -> list[list]:
    """The cells of each exercise, from its title on."""
    found: list[list] = []
    for cell in exercises.read_source(path).cells:
        if cell.source.startswith("## Exercise"):
            found.append([])
        if found:
            found[-1].append(cell)
    return found


@sources
def test_form(path):
    """Two to four exercises, each with time, two hints, a place to write in and a check."""
    found = parts(path)
    assert 2 <= len(found) <= 4
    for number, cells in enumerate(found, start=1):
        title = TITLE.match(cells[0].source)
        assert title and int(title.group(1)) == number, cells[0].source.splitlines()[0]
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        hints = re.findall(r"<details><summary>(.+?)</summary>", text)
        assert hints == ["Hint 1", "Hint 2"], f"exercise {number}"
        assert sum(exercises.has_solution(cell) for cell in cells) == 1, f"exercise {number}"
        assert sum(is_check(cell) for cell in cells) == 1, f"exercise {number}"


@pytest.mark.slow
@pytest.mark.wrong_types  # what checks types in tests is not there for students
@sources
def test_solutions_pass_and_stubs_do_not(path, capsys, monkeypatch, tmp_path):
    """All cells in their order, as in the teacher's copy, with the smallest model."""
    monkeypatch.chdir(tmp_path)
    if path.stem != "08_iav":  # which looks at a block that this one lacks
        monkeypatch.setattr(models, "load_model", lambda name: load_model("tiny"))
    names: dict = {"display": lambda *shown: None}
    code = [cell for cell in exercises.read_source(path).cells if cell.cell_type == "code"]
    at_once = [cell.source for cell, _ in checked_at_once(path)]
    for cell, after in itertools.zip_longest(code, code[1:]):
        if cell.source in at_once:
            exec(exercises.stub(cell.source), names)
            with pytest.raises(Wrong, match=r"empty|no answer yet|no prediction yet"):
                exec(after.source, names)
        capsys.readouterr()
        solved = exercises.has_solution(cell)
        exec(exercises.solution(cell.source) if solved else cell.source, names)
        assert not is_check(cell) or capsys.readouterr().out.startswith("✓ "), cell.source


@sources
def test_two_wrong_answers_are_told_apart(path):
    """Each check but that of a prediction, which takes every number."""
    module = importlib.import_module(checked(path))
    cases = importlib.import_module(f"workshop.test_{module.__name__.split('.')[1]}").WRONG
    for check, function in inspect.getmembers(module, inspect.isfunction):
        own = function.__module__ == module.__name__ and not check.startswith("_")
        if own and "answer" in inspect.signature(function).parameters:
            sentences = {sentence for case, _, sentence in cases if case is function}
            assert len(sentences) >= 2, check


def checked(path) -> str:
    """The module of checks that a source imports."""
    found = re.search(r"(?m)^from checks import (\w+)$", path.read_text())
    assert found, path
    return f"checks.{found.group(1)}"


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exercises")
    assert exercises.main(["--out", str(folder)]) == 0
    return folder


def test_students_copies_hold_no_solution_and_no_output(copies):
    for path in PATHS:
        solved = [c for c in exercises.read_source(path).cells if exercises.has_solution(c)]
        cells = nbformat.read(copies / "students" / f"{path.stem}.ipynb", as_version=4).cells
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
        text = "\n".join(cell.source for cell in cells)
        assert "SOLUTION" not in text
        for cell in solved:
            body = exercises.SOLUTION.search(cell.source).group(2).strip()
            assert body not in text
        assert text.count("# Your code here.") == len(solved)


def test_teachers_copies_fold_the_solutions(copies):
    for path in PATHS:
        cells = nbformat.read(copies / "teachers" / f"{path.stem}.ipynb", as_version=4).cells
        folded = [cell for cell in cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
        solved = [c for c in exercises.read_source(path).cells if exercises.has_solution(c)]
        assert [cell.source for cell in folded] == [exercises.solution(c.source) for c in solved]


@pytest.mark.slow
def test_a_stubs_check_says_one_sentence_in_the_notebook(copies):
    """No traceback, which a beginner would not read, and no look at the check's own source."""
    code = [
        "from checks import finetune",
        "def gae(attention, gradients):\n    raise NotImplementedError",
        "finetune.gae(gae)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in code])
    where = {"metadata": {"path": str(copies / "students")}}
    client = NotebookClient(notebook, allow_errors=True, resources=where, kernel_name="python3")
    client.execute()
    (output,) = notebook.cells[-1].outputs
    assert output.traceback == [
        "✗ The function is still empty: write its body, run its cell, and then this one."
    ]


def test_a_copy_that_was_worked_on_is_not_overwritten(tmp_path, capsys):
    assert exercises.main(["--out", str(tmp_path)]) == 0
    jupyters_own = tmp_path / ".ipynb_checkpoints" / "other.ipynb"
    jupyters_own.parent.mkdir()
    jupyters_own.write_text("of a notebook beside the copies")
    assert exercises.main(["--out", str(tmp_path)]) == 0, "an untouched copy may be made again"
    path = tmp_path / "students" / PATHS[0].with_suffix(".ipynb").name
    notebook = nbformat.read(path, as_version=4)
    next(cell for cell in notebook.cells if cell.cell_type == "code").source = "my_work = 1"
    nbformat.write(notebook, path)
    assert exercises.main(["--out", str(tmp_path)]) == 2
    assert f"{path} has been worked on" in capsys.readouterr().err
    assert "my_work = 1" in path.read_text()


def test_marks_that_are_no_pair_are_refused(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("# %%\nx = 1\n### BEGIN SOLUTION\nx = 2\n")
    with pytest.raises(ValueError, match=r"broken\.py: cell 0 has the marks .*one '### BEGIN"):
        exercises.read_source(path)
    with pytest.raises(FileNotFoundError, match="no sources"):
        exercises.write_copies(tmp_path, tmp_path / "out")

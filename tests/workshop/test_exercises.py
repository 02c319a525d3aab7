"""The exercises of the notebooks: their form, what is said to an answer, and students' copies."""

import ast
import inspect
import itertools
import re
import shutil
import textwrap
from pathlib import Path

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

from reproduction.lessons import exercises
from reproduction.params.order import NOTEBOOKS as NAMES
from reproduction.pipeline import checks

from .answers import RIGHT, WRONG

pytestmark = pytest.mark.wrong_types  # what checks types in tests is not there for students

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
KINDS = {"write", "debug", "design", "interpret"}
ABOUT = re.compile(r"\*\*Your turn\*\* \((\w+), (★{1,3}), (\d+) minutes\)\.")
HINTS = ["Hint 1", "Hint 2", "Hint 3: the solution"]


def exercises_of(path: Path) -> list[tuple]:
    """Prose, exercise and check of a notebook, one after the other."""
    cells = nbformat.read(path, as_version=4).cells
    return [
        part
        for part in zip(cells, cells[1:], cells[2:], strict=False)
        if part[1].cell_type == "code" and exercises.SOLUTION.search(part[1].source)
    ]


FOUND = {
    re.search(r'answer\("(\w+)"', check.source)[1]: (
        path.stem, prose.source, cell.source, check.source
    )
    for path in sorted(NOTEBOOKS.glob("*.ipynb"))
    for prose, cell, check in exercises_of(path)
}  # fmt: skip
each = pytest.mark.parametrize("name", FOUND)


def said(name: str, capsys, **names) -> str:
    """What the check says, which goes on with the answer if it is right, else with the solution."""
    on = checks.answer(name, names)
    solution = checks.EXERCISES[name].solution
    line = capsys.readouterr().out.removesuffix("\n")
    right = line.startswith("✓ ")
    assert right or (line.startswith("✗ ") and line.endswith(f" {checks.GOES_ON}"))
    assert on is (names[name] if right else solution) and "\n" not in line
    return line.removesuffix(f" {checks.GOES_ON}")


def test_every_lesson_has_an_exercise_and_every_check_is_one():
    lessons = [name for name in NAMES if name[2] != "a" and name != "99_report"]
    assert {notebook for notebook, *_ in FOUND.values()} == set(lessons)
    assert set(checks.EXERCISES) == set(FOUND) == set(RIGHT) == set(WRONG)
    assert {ABOUT.search(prose)[1] for _, prose, *_ in FOUND.values()} == KINDS


def test_the_page_for_teachers_lists_them():
    rows = []
    for name, (notebook, prose, *_) in FOUND.items():
        kind, stars, minutes = ABOUT.search(prose).groups()
        rows.append(f"| `{notebook}` | `{name}` | {kind} | {stars} | {minutes} |")
    assert "\n".join(rows) in (ROOT / "workshop" / "README.md").read_text(encoding="utf-8")


@each
def test_an_exercise_has_three_hints_a_solution_and_an_empty_place(name, capsys):
    _, prose, cell, check = FOUND[name]
    assert ABOUT.search(prose) and re.findall(r"<summary>(.+?)</summary>", prose) == HINTS
    assert check.splitlines()[-1] == f'{name} = checks.answer("{name}", globals())'
    names = {"torch": torch}
    for _, _, source, _ in FOUND.values():  # a later one may build on an earlier one
        exec(source, names)
    assert said(name, capsys, **{name: names[name]}).startswith("✓ ")
    exec(exercises.stub(cell), names)
    assert said(name, capsys, **{name: names[name]}).startswith("✗ ")


@each
def test_the_notebook_goes_on_with_the_solution_that_it_explains(name):
    solution = checks.EXERCISES[name].solution
    (shown,) = ast.parse(FOUND[name][2]).body
    if not callable(solution):
        assert ast.literal_eval(shown.value) == solution
        return
    (goes_on,) = ast.parse(textwrap.dedent(inspect.getsource(solution))).body
    shown.body = [line for line in shown.body if not isinstance(line, ast.Expr)]  # its docstring
    assert ast.dump(shown) == ast.dump(goes_on)


@each
def test_right_answers_other_than_ours(name, capsys):
    for given in RIGHT[name]:
        assert said(name, capsys, **{name: given}).startswith("✓ ")


@each
def test_wrong_answers(name, capsys):
    """Twenty each. At most four hear no more than by how much they are off."""
    heard = [(said(name, capsys, **{name: given}), part) for given, part in WRONG[name]]
    assert [(line, part) for line, part in heard if part not in line or line[0] == "✓"] == []
    assert len(heard) >= 20 and sum("Not right yet" in line for line, _ in heard) <= 4


@each
def test_no_two_slips_come_to_the_same(name):
    """Else a sentence would be said of another slip than its own."""
    exercise = checks.EXERCISES[name]
    assert exercise.said or len(exercise.slips) >= 4
    for number, example in enumerate(exercise.examples()):
        found = checks.slips_of(exercise, number)
        found["right"] = checks._number(exercise.solution(*example.inputs))
        pairs = itertools.combinations(found, 2)
        assert [pair for pair in pairs if checks._same(*map(found.get, pair))] == []


def test_who_is_stuck_hears_what_it_is_and_goes_on(capsys):
    assert "There is no `gae`: its cell was not run" in said("gae", capsys)
    assert "is the solution now" in said("gae", capsys, gae=checks.EXERCISES["gae"].solution)
    assert "A function is asked for, and this is '3'" in said("gae", capsys, gae=3)

    def area(shares, accuracy):
        raise NotImplementedError

    def beyond_chance(shares, accuracy, orders):
        return area(shares, accuracy)

    assert "function is still empty" in said("area", capsys, area=area)
    assert "calls `area`, which is still empty" in said(
        "beyond_chance", capsys, beyond_chance=beyond_chance
    )
    with pytest.raises(ValueError, match=r"checks: 'gea' is no exercise; use one of reading, "):
        checks.answer("gea", {})


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> list[Path]:
    return exercises.write_copies(NOTEBOOKS, tmp_path_factory.mktemp("class") / "students")


def test_copies_hold_the_solution_in_the_last_hint_alone_and_no_output(copies):
    read = {path.stem: nbformat.read(path, as_version=4).cells for path in copies}
    for cells in read.values():
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
        assert not any("### " in cell.source for cell in cells if cell.cell_type == "code")
    for notebook, _, source, _ in FOUND.values():
        cells, code = read[notebook], exercises.solution(source)
        (place,) = (i for i, cell in enumerate(cells) if cell.source == exercises.stub(source))
        assert not any(code in textwrap.dedent(c.source) for c in cells if c.cell_type == "code")
        assert cells[place - 1].source.count(f"```python\n{code}\n```\n</details>") == 1
        assert exercises.GOES_ON in cells[place].metadata["tags"]


def test_links_of_a_copy_hold_wherever_its_folder_lies(tmp_path):
    assert exercises.main(["--out", str(tmp_path / "class")]) == 0
    moved = shutil.move(tmp_path / "class" / "students", tmp_path / "elsewhere")
    for path in Path(moved).glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        text = "".join(cell.source for cell in cells if cell.cell_type == "markdown")
        links = re.findall(r"\]\(((?!http|#)[^)#\s]+)", text)
        assert "glossary.html" in links
        assert [link for link in links if not (path.parent / link).is_file()] == []


def test_a_copy_that_was_worked_on_is_not_overwritten(tmp_path, capsys):
    main = ["--out", str(tmp_path)]
    assert [exercises.main(main), exercises.main(main)] == [0, 0], "an untouched one may be"
    path = next((tmp_path / "students").glob("*.ipynb"))
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-1].source = "my work"
    nbformat.write(notebook, path)
    capsys.readouterr()
    assert exercises.main(main) == 2
    assert f"{path} has been worked on" in capsys.readouterr().err
    assert "my work" in path.read_text()


def test_the_quiz_has_its_answers_for_the_teacher_alone(tmp_path):
    assert exercises.main(["--out", str(tmp_path)]) == 0
    students, key = (tmp_path / name for name in ("students/quiz.html", "quiz_key.html"))
    assert students.read_text().count("<details>") == 0 < key.read_text().count("<details>")
    assert students.read_text().count("<strong>") == key.read_text().count("?</strong>") == 10


def test_marks_that_are_no_pair_are_refused(tmp_path):
    path = tmp_path / "notebooks" / "broken.ipynb"
    path.parent.mkdir()
    cell = new_code_cell("x = 1\n### BEGIN SOLUTION\nx = 2", id="here")
    nbformat.write(new_notebook(cells=[cell]), path)
    with pytest.raises(ValueError, match=r"broken\.ipynb: cell 'here' has the marks .*one '### B"):
        exercises.write_copies(path.parent, tmp_path / "out")

"""The exercises of the notebooks: their form, what is said to an answer, and students' copies."""

import math
import re
import shutil
from pathlib import Path

import nbformat
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from nbformat.v4 import new_code_cell, new_notebook

from reproduction.lessons import exercises
from reproduction.pipeline import checks
from reproduction.pipeline.checks import Wrong

pytestmark = pytest.mark.wrong_types  # what checks types in tests is not there for students

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NAMES = {"torch": torch}  # what a solution needs


def exercises_of(path: Path) -> list[tuple]:
    """Prose, exercise and check of a notebook, one after the other."""
    cells = nbformat.read(path, as_version=4).cells
    return [
        part
        for part in zip(cells, cells[1:], cells[2:], strict=False)
        if part[1].cell_type == "code" and exercises.SOLUTION.search(part[1].source)
    ]


FOUND = {
    check.source: (prose, cell)
    for path in sorted(NOTEBOOKS.glob("*.ipynb"))
    for prose, cell, check in exercises_of(path)
}
each = pytest.mark.parametrize("check", FOUND)


def run(source: str, check: str, names: dict = NAMES) -> None:
    """A cell, and then its check."""
    names = {**names, "checks": checks}
    exec(source, names)
    exec(check, names)


@each
def test_the_solution_passes_and_the_stub_does_not_below_two_hints(check, capsys):
    prose, _ = FOUND[check]
    assert "**Your turn.**" in prose.source and re.fullmatch(r"checks\.(\w+)\(\1\)", check)
    assert re.findall(r"<summary>(.+?)</summary>", prose.source) == ["Hint 1", "Hint 2"]
    names = dict(NAMES)
    for _, cell in FOUND.values():  # a later one may build on an earlier one
        exec(cell.source, names)
    run(FOUND[check][1].source, check, names)
    assert capsys.readouterr().out.startswith("✓ ")
    with pytest.raises(Wrong, match="still empty"):
        run(exercises.stub(FOUND[check][1].source), check, names)


@each
def test_every_slip_hears_its_own_sentence(check, monkeypatch):
    name = re.match(r"checks\.(\w+)", check).group(1)
    judge, called = checks._judge, []
    monkeypatch.setattr(checks, "_judge", lambda *parts: called.append(parts))
    getattr(checks, name)(None)
    ((_, inputs, right, praise, slips),) = called
    assert 1 <= len(slips) <= 4, "the likeliest"
    for text, slip in slips.items():
        with pytest.raises(Wrong) as said:
            judge(lambda *_, slip=slip: slip, inputs, right, praise, slips)
        assert str(said.value) == text


def recursion(body: str, start: str = "torch.eye(a.shape[-1])", read: str = "R[0, 1:]") -> str:
    loop = f"R = {start}\n  for A, G in zip(a, g): R = {body}\n  return {read}"
    return f"def gae(a, g):\n  {loop}"


MEAN = "(A * G).clamp(min=0).mean(0)"
WRONG = [
    (recursion(f"R + {MEAN} @ R", read="R[1:, 0]"), "transposed"),
    (recursion(f"{MEAN} @ R"), "identity out"),
    (recursion(f"R + R @ {MEAN}"), "wrong side"),
    (recursion(f"R + {MEAN} @ R", start="torch.eye(3)"), "stopped with RuntimeError"),
    ("def background_loss(r, s): return ((r * (1 - s)) ** 2).sum()", "take the sum"),
    ("def background_loss(r, s):\n  r *= 1 - s\n  return r.square().mean()", "input number 1"),
    ("def background_loss(r, s): return (r ** 2 * (1 - s)).mean().item()", "cut off from the map"),
    ("def background_loss(r, s): return float((r ** 2 * (1 - s)).mean())", "cut off from the map"),
    ("def background_loss(r, s): return (r.detach() * (1 - s)).pow(2).mean()", "cut off"),
    ("def background_loss(r, s): return (r * s).square().mean()", "the background is 1 - mask"),
    ("def background_loss(r, s): (r * (1 - s)).square().mean()", "returns nothing"),
    ("def adds(t): return 100 * (t['with'] - t['without']).mean()", "large set counts more"),
    ("def adds(t): return (t['with'] - t['without']).groupby('dataset').mean().mean()", "share"),
    ("def follow(m):\n  r = torch.eye(5)\n  for a in m: r = r + r @ a\n  return r", "wrong side"),
    ("def area(s, a): return sum(a)", "without the widths"),
    ("def beyond_chance(s, a, r):\n  f = lambda y: torch.trapezoid(torch.tensor([*y, 0.]),"
     " torch.tensor([*s, 100.])) / 100\n  return f(a) - f(r[0])", "Not right yet"),
    ("def beyond_chance(s, a, r): return torch.tensor(r).mean(0) - torch.tensor(a)",
     "an area is one number"),
    ("def ia_score(a, m): return (a.softmax(-1) * m.softmax(-1)).sum(-1)", "softmax"),
    ("def ia_score(a, m): return [(a * m).sum(-1), 1]", "returns a list"),
    ("def ia_score(a, m): return a.log().sum(-1) * math.nan", "NaN"),
    ("def centred_score(a, m):\n  a = a - a.mean()\n  m = m - m.mean()\n"
     "  return (a * m).sum(-1) / a.norm(dim=-1) / m.norm()", "one mean for all heads"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "sentence"), WRONG, ids=range(len(WRONG)))
def test_wrong_answers(source, sentence):
    name = re.match(r"def (\w+)", source).group(1)
    with pytest.raises(Wrong) as said:
        run(source, f"checks.{name}({name})", {"torch": torch, "math": math})
    assert sentence in str(said.value)
    assert said.value._render_traceback_() == [f"✗ {said.value}"]


RIGHT = [
    recursion("R + (A.double() * G.double()).relu().mean(0) @ R", "torch.eye(5).double()"),
    "def background_loss(r, s): return (r ** 2 * (1 - s)).mean()",
    "def adds(t):\n  m = t.groupby(level=0).mean() * 100\n  return (m['with'] - m.without).mean()",
    "def miou(c, m): return sum(float((a & b).sum() / (a | b).sum()) for a, b in "
    "((c, m), (~c, ~m))) * 50",
    "def ia_score(a, m): return torch.nn.functional.cosine_similarity(a, m, dim=-1)",
]


@pytest.mark.parametrize("source", RIGHT, ids=range(len(RIGHT)))
def test_right_answers_other_than_ours(source, capsys):
    name = re.match(r"def (\w+)", source).group(1)
    run(source, f"checks.{name}({name})")
    assert capsys.readouterr().out.startswith("✓ ")


def test_a_notebook_shows_the_sentence_alone(capsys):
    """No traceback, which a beginner would not read, and no look at the check's own source."""
    InteractiveShell().run_cell(
        "from reproduction.pipeline import checks\nchecks.gae(lambda a, g: None)"
    )
    said = capsys.readouterr()
    assert said.out + said.err == "✗ Your function returns nothing: end it with `return`.\n"


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> list[Path]:
    return exercises.write_copies(NOTEBOOKS, tmp_path_factory.mktemp("class") / "students")


def test_copies_hold_no_solution_and_no_output(copies):
    text = "".join(path.read_text() for path in copies)
    assert text.count("# Your code here.") == len(FOUND) >= 6
    for path in copies:
        cells = nbformat.read(path, as_version=4).cells
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
        for cell in nbformat.read(NOTEBOOKS / path.name, as_version=4).cells:
            if found := exercises.SOLUTION.search(cell.source):
                lines = [line.strip() for line in found.group().splitlines()]
                assert all(line not in text for line in lines if len(line) > 30)
    assert "SOLUTION" not in text


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


def test_marks_that_are_no_pair_are_refused(tmp_path):
    path = tmp_path / "notebooks" / "broken.ipynb"
    path.parent.mkdir()
    cell = new_code_cell("x = 1\n### BEGIN SOLUTION\nx = 2", id="here")
    nbformat.write(new_notebook(cells=[cell]), path)
    with pytest.raises(ValueError, match=r"broken\.ipynb: cell 'here' has the marks .*one '### B"):
        exercises.write_copies(path.parent, tmp_path / "out")

"""The form that all notebooks share: what the cells are, and which outputs are stored."""

import ast
import inspect
import io
import tokenize
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from reproduction.params.order import NOTEBOOKS, notebook_file

ROOT = Path(__file__).parents[2]
PATHS = [ROOT / notebook_file(name) for name in NOTEBOOKS]
LONGEST_CELL = 25  # lines
READ_BEFORE_THE_LAST = 12  # cells that are not folded, of a lesson
FIRST_IMPORTS = 5
PROSE_WITHIN = 3  # cells before a code cell, one of which is prose
FIRST_CELL_NAMES = ("Source", "You will learn", "Run time", "In the repository", "Not reproduced")
CHECKED = "nbval-check-output"
IMPORTS = ast.Import | ast.ImportFrom


@pytest.fixture(scope="module")
def stored() -> dict[str, NotebookNode]:
    """All notebooks by name, read once."""
    return {path.stem: nbformat.read(path, as_version=4) for path in PATHS}


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def path(request) -> Path:
    return request.param


@pytest.fixture
def notebook(path, stored) -> NotebookNode:
    return stored[path.stem]


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tagged(notebook: NotebookNode, tag: str) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]


def parameters_cell(notebook: NotebookNode) -> NotebookNode:
    (cell,) = tagged(notebook, "parameters")
    return cell


def begins(cell: NotebookNode) -> str:
    """Enough of a cell to find it by."""
    return cell.source.strip().splitlines()[0][:60] if cell.source.strip() else "(empty cell)"


def test_every_notebook_is_in_the_order_and_the_other_way_round():
    lie = {*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("notebooks/appendix/*.ipynb")}
    assert set(PATHS) == lie


def test_first_cell_says_what_the_notebook_is(notebook):
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    about = "".join(cell.source for cell in [first, *tagged(notebook, "sources")])
    assert [name for name in FIRST_CELL_NAMES if name not in about] == []


def test_prose_is_near_every_code_cell(notebook):
    kinds = [cell.cell_type for cell in notebook.cells]
    bare = [
        begins(cell)
        for i, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and "markdown" not in kinds[max(0, i - PROSE_WITHIN) : i]
    ]
    assert bare == []


def test_parameters_are_written_so_that_papermill_reads_them_right(notebook):
    source = parameters_cell(notebook).source
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            assert "=" not in token.string, "papermill takes it for an assignment"
        if token.type == tokenize.NUMBER and isinstance(ast.literal_eval(token.string), float):
            assert "." in token.string, "YAML reads 3e-6 as text"


def test_parameters_are_checked_at_once(path, notebook):
    cells = code_cells(notebook)
    after = cells[cells.index(parameters_cell(notebook)) + 1]
    assert f'cfg = take("{path.stem}", globals())' in after.source.splitlines()
    assert len(ast.parse(after.source).body) == 2, "only the import and cfg: nothing heavy before"


def test_a_lesson_is_read_in_one_sitting(path, notebook):
    """At most so many cells before its last sentence, and imports where they are used."""
    cells, folded = notebook.cells, {"sources", "parameters", "bookkeeping"}
    (last,) = tagged(notebook, "lesson")
    read = [
        cell
        for cell in cells[: cells.index(last)]
        if not folded & set(cell.metadata.get("tags", []))
    ]
    opening = code_cells(notebook)[2]
    imports = [node for node in ast.parse(opening.source).body if isinstance(node, IMPORTS)]
    if path.stem[2] != "a":  # an appendix answers a referee
        assert len(read) <= READ_BEFORE_THE_LAST
        assert len(imports) <= FIRST_IMPORTS


def test_code_is_plain_python_in_short_cells_that_leave_the_machine_alone(notebook):
    for cell in code_cells(notebook):
        ast.parse(cell.source)  # so there is no !pip and no %cd
        if cell != parameters_cell(notebook):  # one line a parameter, however many there are
            assert len(cell.source.splitlines()) <= LONGEST_CELL, begins(cell)
        for words in ("pip install", "os.chdir", "os.system", "get_ipython", "subprocess"):
            assert words not in cell.source, begins(cell)


def test_outputs_are_of_one_whole_run_without_error_or_progress_bar(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), "make notebooks stores outputs in order"
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.output_type != "error", begins(cell)
            assert output.get("name") != "stderr", begins(cell)
            assert "jupyter.widget" not in " ".join(output.get("data", {})), begins(cell)
    assert "widgets" not in notebook.metadata


def test_a_widget_is_stored_as_its_first_picture_with_its_words(stored):
    (cell,) = [cell for cell in stored["00_start"].cells if cell.id == "00-hand"]
    (output,) = cell.outputs
    assert output.metadata["image/jpeg"]["alt"].startswith("ant: at home (forest) the answer is")


def test_checked_cells_have_something_to_check(notebook):
    """nbval skips a cell without output for good."""
    cells = tagged(notebook, CHECKED)
    assert cells and all(cell.cell_type == "code" and cell.outputs for cell in cells)


OURS = ("relevit", "habitats", "reproduction")


def test_calls_of_the_library_fit_what_it_offers(notebook):
    """Also in branches that only a larger preset takes: names are there, and take what is given."""
    names, wrong = {}, []
    nodes = [node for cell in code_cells(notebook) for node in ast.walk(ast.parse(cell.source))]
    for node in nodes:
        if isinstance(node, IMPORTS):
            exec(compile(ast.Module([node], []), "cell", "exec"), names)
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        first, *rest = ast.unparse(call.func).split(".")
        if first not in names or not all(map(str.isidentifier, rest)):
            continue
        starred = [each for each in call.args if isinstance(each, ast.Starred)]
        given = {each.arg: None for each in call.keywords if each.arg}
        spread = bool(starred) or len(given) < len(call.keywords)
        try:
            called = names[first]
            for part in rest:
                called = getattr(called, part)
            if str(getattr(called, "__module__", "")).startswith(OURS):
                taken = inspect.signature(called)
                fixed = [each for each in call.args if each not in starred]
                (taken.bind_partial if spread else taken.bind)(*fixed, **given)
        except (AttributeError, TypeError) as error:
            wrong.append(f"{ast.unparse(call)[:60]}: {error}")
    assert wrong == []

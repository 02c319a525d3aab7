"""The documentation: its pages have no broken link, and what it tells people to type works."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest

from relevit.attribution import METHODS
from relevit.config import NOTEBOOKS
from relevit.pipeline import cli, docs

from .pages import Page, broken
from .projects import ROOT

# The theme and MyST use what Sphinx 11 will take away.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")

WRITTEN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PLACES = [ROOT / name for name in ("Dockerfile", "binder/postBuild", "docs/start.md")]
FENCE = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")
CUDA = re.compile(r"torch|torchvision|triton|(nvidia|cuda)-.*")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return docs.write_docs(tmp_path_factory.mktemp("docs") / "pages")


@pytest.mark.slow
def test_no_warning_and_no_broken_link(written):
    assert written.warnings == []
    assert broken(written.folder) == []


@pytest.mark.slow
def test_pages_hold_what_they_are_for(written):
    links = Page(written.folder / "index.html").links
    assert {"start.html", "your_own.html", "api_attribution.html", "site/index.html"} <= set(links)
    api = (written.folder / "api_attribution.html").read_text()
    assert 'id="relevit.attribution.gae.gae"' in api
    assert "Generic attention explainability (GAE)" in api
    gallery = (written.folder / "gallery.html").read_text()
    assert 'href="site/07_iav.html#cell-id=iav-space"' in gallery
    assert gallery.count("<img") > 30
    for path in written.folder.glob("*.html"):
        assert str(ROOT) not in path.read_text(), path.name


def test_every_room_offers_something_with_words():
    for room in docs.ROOMS:
        text = docs.room_page(room)
        assert text.count("autofunction") + text.count("autoclass") > 2, room
    assert "relevit.attribution.attention_methods.rollout" in docs.room_page("attribution")


def test_every_page_of_docs_has_its_place():
    placed = {docs.HOME, *(name for names in docs.PAGES.values() for name in names)}
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert there <= placed and all((ROOT / name).is_file() for name in placed)


def test_docstrings_in_plain_words():
    plain = ["Rows of `A`s, a * b.", "Source: Eq. 1.", "    not code", "", "    x = f(y)", "End."]
    assert docs.as_rst(plain) == [
        r"Rows of ``A``\ s, a \* b.",
        "",
        "**Source:** Eq. 1.",
        "not code",
        "",
        "::",
        "",
        "    x = f(y)",
        "",
        "End.",
        "",
    ]


def test_a_cell_that_is_not_there_is_named(tmp_path):
    text = "| x | [00_start](../notebooks/00_start.ipynb#cell-id=nosuch) |"
    with pytest.raises(FileNotFoundError, match="cell nosuch of 00_start, which is not there"):
        docs.with_pictures(text, ROOT / "notebooks", tmp_path)


def test_an_out_that_is_none_is_refused(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert docs.main(["--out", str(tmp_path)]) == 2
    assert "name another folder with --out" in capsys.readouterr().err


def test_the_examples_of_extending_run(monkeypatch, capsys):
    text = (ROOT / "docs" / "extending.md").read_text()
    blocks = [code for kind, code in FENCE.findall(text) if kind == "python"]
    assert len(blocks) > 5
    for name in list(METHODS):  # what the example adds is taken away again
        monkeypatch.setitem(METHODS, name, METHODS[name])
    monkeypatch.setitem(METHODS, "last_block", None)
    names: dict = {"__name__": "extending"}
    for number, code in enumerate(blocks):
        exec(compile(code, f"extending.md, block {number + 1}", "exec"), names)
    assert "last_block: mIoU" in capsys.readouterr().out


def lines_of(path):
    """What a page tells its reader to type, without what it explains behind a #."""
    for kind, code in FENCE.findall(path.read_text()):
        if kind in ("", "bash"):
            yield from (line.split(" #")[0].strip() for line in code.splitlines())


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_commands_are_there(path):
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    for line in lines_of(path):
        line = re.sub(r"^\.venv[/\\](bin|Scripts)[/\\]", "", line).replace("<data root>", "data")
        if line.startswith("relevit "):
            cli._parser().parse_args(shlex.split(line)[1:])
        elif line.startswith("make "):
            called = [word for word in line.split()[1:] if "=" not in word]
            assert set(called) <= targets, line
        elif line.startswith("papermill "):
            assert re.search(r"notebooks/(\w+)\.ipynb", line)[1] in NOTEBOOKS


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


# Without CUDA


def test_all_places_leave_the_same_out_of_the_lock():
    found = {re.search(r"awk '([^']+)'", path.read_text())[1] for path in PLACES}
    assert len(found) == 1
    both = {re.search(r"grep -oE '([^']+)'", path.read_text())[1] for path in PLACES}
    assert len(both) == 1


@pytest.mark.skipif(not shutil.which("awk"), reason="needs awk")
def test_the_lock_without_cuda_is_whole_but_for_it():
    lock = ROOT / "requirements.lock"
    (program,) = {re.search(r"awk '([^']+)'", path.read_text())[1] for path in PLACES}
    done = subprocess.run(["awk", program, lock], capture_output=True, text=True, check=True)
    entries = re.findall(r"(?m)^([\w.-]+)==.*(?:\n    --hash.*)+", lock.read_text())
    kept = re.findall(r"(?m)^([\w.-]+)==.*(?:\n    --hash.*)+", done.stdout)
    assert kept == [name for name in entries if not CUDA.fullmatch(name)]
    assert len(kept) < len(entries)
    (pattern,) = {re.search(r"grep -oE '([^']+)'", path.read_text())[1] for path in PLACES}
    command = ["grep", "-oE", pattern, lock]
    pins = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert [pin.split("==")[0] for pin in pins] == ["torch", "torchvision"]

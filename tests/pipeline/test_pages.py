"""The pages: what the notebooks store, and the docs, without a warning or a broken link."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from reproduction.params.order import NOTEBOOKS

from .pages import Page, broken
from .projects import ROOT


def build(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`make site` into another folder; a page that is in no contents is a warning, too."""
    command = [sys.executable, "-m", "sphinx", "-M", "html", ".", out, "-c", "docs", "-q", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(out)
    assert (done.returncode, done.stderr) == (0, "")
    return out / "html"


@pytest.mark.slow
@pytest.mark.timeout(600)  # the pages are made for it
def test_every_link_and_picture_is_there_and_a_page_has_one_title(pages):
    assert broken(pages) == []
    assert {path.stem for path in (pages / "notebooks").rglob("*.html")} == set(NOTEBOOKS)
    assert not [path for path in pages.rglob("*.html") if str(ROOT) in path.read_text()]
    titled = [*pages.glob("R*.html"), *pages.glob("[dnw]*/*.html")]
    assert [path for path in titled if path.read_text().count("<h1") != 1] == []


@pytest.mark.slow
def test_pages_show_what_they_are_for(pages):
    texts = Page(pages / "docs" / "gallery.html").texts
    assert len(texts) > 30 and set(texts) != {"Figure"}, "pictures of cells, with their texts"
    verdicts = (pages / "docs" / "verdicts.html").read_text()
    assert verdicts.count("<summary>criterion</summary>") == 5 + 87
    api = (pages / "docs" / "api" / "relevit.attribution.html").read_text()
    assert "<code" in api and 'id="relevit.attribution.explain"' in api
    finetune = (pages / "notebooks" / "02_finetune.html").read_text()
    assert "<math" in finetune and 'admonition-title">Parameters</p>' in finetune
    report = (pages / "notebooks" / "99_report.html").read_text()
    assert "cell_input" not in report and "IPython.core" not in report
    start = (pages / "notebooks" / "00_start.html").read_text()
    cures = (pages / "notebooks" / "appendix" / "04a_cures.html").read_text()
    assert 'href="../../docs/differences.html#B9">B9</a>' in cures
    assert "sort.js" in start and "pages.js" in start


@pytest.mark.slow
def test_the_poster_says_what_the_report_found(pages):
    poster = (pages / "docs" / "index.html").read_text()
    report = (pages / "notebooks" / "99_report.html").read_text()
    number = r"([+-][\d.]+)"
    relevance, without, adds, low, high = re.search(
        rf"by {number} points on.*?changes it by {number}\..*?<strong>{number} points</strong>"
        rf" \(95 % interval {number} to {number},",
        report,
        re.DOTALL,
    ).groups()
    assert f"with relevance {relevance} (" in poster and f"labels alone {without} (" in poster
    assert f"relevance adds {adds} ({low} to {high})" in poster
    drawn = re.search(
        r'<svg[^>]*viewBox="0 0 (\d+) \d+"[^>]*Change on the.*?</svg>', poster, re.DOTALL
    )
    lines = re.findall(r"M(\d+) \d+H(\d+)", drawn[0])
    places = [int(x) for x in re.findall(r'<text x="(\d+)"', drawn[0])]  # a name, its number
    assert min(int(left) for left, _ in lines) > max(places[::2]), "no line runs into a name"
    assert max(places[1::2]) < int(drawn[1]) - 40, "no number is cut off"


def test_pages_of_a_run_that_is_not_there_are_refused(tmp_path):
    done = build(tmp_path, "-D", "preset=nosuch")
    assert done.returncode and "preset 'nosuch' is unknown" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "html" / "docs").exists()


def test_the_checker_sees_what_is_broken(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<a href="no.html"></a><a href="#no"></a><img src="no.png">'
        '<script src="https://example.org/x.js"></script>'
    )
    assert len(broken(tmp_path)) == 5

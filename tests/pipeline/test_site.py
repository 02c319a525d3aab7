"""A finished run as pages: every link leads somewhere, and nothing but a site is ever replaced."""

from __future__ import annotations

import base64
import json
import platform
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from relevit.config import NOTEBOOKS
from relevit.pipeline import notebooks, site

from .pages import Page, broken
from .projects import PRESET, ROOT, RUN_S, results

# The theme and MyST use what Sphinx 11 will take away.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")

START, FINETUNE, REPORT = "00_start", "02_finetune", "99_report"
PIXEL = (  # a PNG of one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FORMULA = re.compile(r"(?s)\$\$(.+?)\$\$|(?<![\\$\w])\$([^$\n]+?)\$(?![\w$])")


def html_output(text: str):
    return new_output("display_data", {"text/html": text, "text/plain": "?"})


def picture(**metadata):
    data = {"image/png": PIXEL, "text/plain": "<Figure>"}
    return new_output("display_data", data, metadata={"image/png": metadata})


def fake_notebooks(project: Path) -> dict[str, list]:
    start = [
        new_markdown_cell(
            "# Start\n\nSee `02_finetune`, [the same](02_finetune.ipynb), "
            "[words](../docs/words.md#rollout), [code](../lib/x.py) and [a place](#The-Model).\n\n"
            r"$$\bar A = \mathbb{E}_h\big[(\nabla A)^+\big]$$"
        ),
        new_code_cell('preset = "quick"', metadata={"tags": ["parameters"]}),
        new_code_cell('preset = "smallest"', metadata={"tags": ["injected-parameters"]}),
        new_markdown_cell("## The Model"),
        new_code_cell("show()", id="00-x", outputs=[picture(alt="A map"), picture()]),
        new_code_cell(
            "print(1)",
            outputs=[
                new_output("stream", name="stderr", text="/tmp/ipykernel_1/2.py: a warning"),
                new_output("stream", text=f"written: {project}/outputs/x.parquet"),
            ],
        ),
        new_markdown_cell("A claim in words.", id="00-w", metadata={"tags": ["RV-02"]}),
    ]
    report = [
        new_markdown_cell("# Report"),
        new_code_cell(
            "links = secret()",
            outputs=[
                html_output('<a href="00_start.ipynb#cell-id=00-x">00_start</a>'),
                html_output('<a href="00_start.ipynb#cell-id=00-w">00_start (2)</a>'),
                html_output('<a href="02_finetune.ipynb">02_finetune</a>'),
                html_output('<a href="#The-End">end</a> <a href="../lost.csv">lost</a>'),
                new_output("display_data", {"text/markdown": "", "text/plain": "<Markdown>"}),
            ],
        ),
        new_markdown_cell("## The End"),
    ]
    return {START: start, FINETUNE: [new_markdown_cell("# Finetuning")], REPORT: report}


def put(path: Path, cells: list, **papermill) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = new_notebook(cells=cells)
    notebook.metadata["papermill"] = {"end_time": "2026-01-02", "exception": None} | papermill
    notebook.metadata["language_info"] = {"name": "python"}
    path.write_text(nbformat.writes(notebook), encoding="utf-8")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """Three notebooks of a run that is done."""
    folder = tmp_path / "project"
    (folder / "notebooks").mkdir(parents=True)
    shutil.copytree(ROOT / "params" / "quick", folder / "params" / PRESET)
    common = folder / "params" / PRESET / "common.yaml"
    common.write_text(common.read_text().replace("quick", PRESET))
    (folder / "docs").mkdir()
    (folder / "docs" / "words.md").write_text(
        "# Words\n\n## Rollout\n\nA product; [more](more.md), and in `00_start`.\n\n"
        "![A dot](dot.png) ![None](nothing.png)\n"
    )
    (folder / "docs" / "dot.png").write_bytes(base64.b64decode(PIXEL))
    for name, cells in fake_notebooks(folder).items():
        stage = results(folder) / name
        put((stage / "seed0" if name == FINETUNE else stage) / "executed.ipynb", cells)
        (stage / "summary.json").write_text("{}")
    monkeypatch.chdir(folder)
    for module in (site, notebooks):
        monkeypatch.setattr(module, "NOTEBOOKS", (START, FINETUNE, REPORT))
    return folder


@pytest.fixture
def pages(project) -> Path:
    folder, warnings = site.write_site(PRESET)
    assert warnings == []
    return folder


def text_of(pages: Path, name: str) -> str:
    return (pages / f"{name}.html").read_text()


def test_no_link_or_picture_is_broken(pages):
    assert broken(pages) == []
    links = Page(pages / "index.html").links
    places = ["00_start.html#cell-id=00-x", "00_start.html#cell-id=00-w", "02_finetune.html"]
    assert set(places) <= set(links)
    assert Page(pages / "words.html").texts == ["A dot"]
    assert sorted(path.stem for path in pages.glob("*.html")) == [
        START, FINETUNE, "index", "search", "words"
    ]  # fmt: skip


def test_the_checker_sees_what_is_broken(pages):
    with (pages / "index.html").open("a") as file:
        file.write('<a href="no.html"></a><a href="00_start.html#no"></a><img src="no.png">')
        file.write('<script src="https://example.org/x.js"></script><a href="#no"></a>')
    assert len(broken(pages)) == 6


def test_report_is_first_and_the_others_follow_in_order(pages):
    neighbour = r'class="(?:left-prev|right-next)"[^>]*href="([^"]+)"'
    found = {
        name: re.findall(neighbour, text_of(pages, name)) for name in ("index", START, FINETUNE)
    }
    assert found == {
        "index": ["00_start.html"],
        START: ["index.html", "02_finetune.html"],
        FINETUNE: ["00_start.html", "words.html"],
    }


def test_source_is_folded_and_that_of_the_report_left_out(pages):
    text = text_of(pages, START)
    assert text.count("<details") == 4
    assert "Parameters and their defaults" in text
    assert f"What the preset {PRESET} gives instead" in text
    assert "secret" not in text_of(pages, "index")
    assert "&lt;Markdown&gt;" not in text_of(pages, "index")


def test_formulas_and_pictures_need_no_script(pages):
    text = text_of(pages, START)
    assert "<math" in text and r"\mathbb" not in text
    assert Page(pages / f"{START}.html").texts == ["A map", "Figure: The Model"]


def test_every_page_says_where_it_comes_from_and_names_no_place(pages, project):
    found = json.loads((pages / site.MARK).read_text())
    for path in pages.glob("*.html"):
        text = path.read_text()
        assert f"preset {PRESET}. Pages made from commit unknown" in text
        assert f"{found['cores']} cores; torch {found['torch']}, timm {found['timm']}" in text
        assert str(project) not in text and "/tmp/" not in text
        assert not re.search(rf"\b{re.escape(platform.node())}\b", text)
    assert "written: outputs/x.parquet" in text_of(pages, START)


def test_a_site_is_replaced_and_nothing_else(project, tmp_path, capsys):
    out = tmp_path / "docs" / "site"
    arguments = [PRESET, "--out", str(out)]
    assert site.main(arguments) == 0 and site.main(arguments) == 0
    assert "Open" in capsys.readouterr().out
    assert [path.name for path in out.parent.iterdir()] == ["site"], "something is left behind"
    (out / "notes.txt").write_text("mine")
    assert site.main(arguments) == 2
    said = capsys.readouterr().err
    assert "holds notes.txt, which is of no site" in said and said.count("\n") == 1
    assert (out / "notes.txt").read_text() == "mine" and (out / "index.html").is_file()


@pytest.mark.parametrize("kind", ["file", "folder", "broken mark"])
def test_an_out_that_is_no_site_is_refused(project, tmp_path, capsys, kind):
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "mine.txt").write_text("mine")
    if kind == "broken mark":
        (out / site.MARK).write_text("[]")
    before = sorted(tmp_path.rglob("*"))
    assert site.main([PRESET, "--out", str(out)]) == 2
    assert "name another folder with --out" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_will_do(project, tmp_path):
    (tmp_path / "out").mkdir()
    assert site.main([PRESET, "--out", str(tmp_path / "out")]) == 0


def test_an_unknown_preset_is_refused(project, capsys):
    for name in ("nosuch", "..", ""):
        assert site.main([name]) == 2
        said = capsys.readouterr().err
        assert said == f"error: preset {name!r} has no pipeline; use one of ['smallest']\n"


@pytest.mark.parametrize("state", ["missing", "running", "failed", "cut"])
def test_a_run_that_is_not_done_is_refused(project, capsys, state):
    path = results(project) / REPORT / "executed.ipynb"
    if state == "missing":
        path.unlink()
    elif state == "cut":
        path.write_text(path.read_text()[:100])
    else:
        put(path, [], **{"running": {"end_time": None}, "failed": {"exception": True}}[state])
    assert site.main([PRESET]) == 2
    said = capsys.readouterr().err
    assert "has no finished run, 99_report is not done" in said and said.count("\n") == 1
    assert "python -m relevit.pipeline smallest" in said
    assert not (results(project) / "site").exists()


def test_a_failure_on_the_way_leaves_the_old_site(project, pages, monkeypatch, capsys):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(site, "run_sphinx", fail)
    before = sorted(results(project).rglob("*"))
    assert site.main([PRESET]) == 2
    assert "disk full" in capsys.readouterr().err
    assert sorted(results(project).rglob("*")) == before


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_formula_of_the_notebooks_is_known(name):
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        for block, inline in FORMULA.findall(cell.source * (cell.cell_type == "markdown")):
            assert "<math" in site.formula(block or inline, block=bool(block))


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_a_whole_run_ends_in_pages(finished):
    project, ended = finished
    assert "site: " not in ended.err, "Sphinx warned"
    pages = results(project) / "site"
    assert broken(pages) == []
    names = {"index" if name == REPORT else name for name in NOTEBOOKS}
    assert {path.stem for path in pages.glob("*.html")} >= names
    evidence = [link for link in Page(pages / "index.html").links if "#cell-id=" in link]
    assert len(evidence) > 80

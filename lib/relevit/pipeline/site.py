"""A finished run as pages: `python -m relevit.pipeline.site PRESET`.

The report comes first, then every executed notebook in the order of the pipeline, with search and
folded source. Sphinx writes them, by way of MyST-NB; nothing is executed. They need no network:
formulas become MathML, which browsers draw themselves.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import json
import mimetypes
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import nbformat
from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.console import nocolor
from sphinx.util.docutils import docutils_namespace, patch_docutils

from relevit.base.device import cores
from relevit.base.files import project_root
from relevit.base.stages import SUMMARY
from relevit.config import NOTEBOOKS, ReportParams
from relevit.pipeline.notebooks import clean, finished_notebooks

REPORT, INDEX = ReportParams.notebook, "index"
MARK = "site.json"  # tells a site from any other folder, and names what lies in it
LINK = re.compile(rf"(?:\.\./)?({'|'.join(NOTEBOOKS)})\.ipynb(#[^\s\"')]*)?")  # to a notebook
PROSE_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")
MENTION = re.compile(rf"(?<!\[)`({'|'.join(NOTEBOOKS)})`")
HREF = re.compile(r'\bhref="([^"]+)"')
ELSEWHERE = ("http://", "https://", "mailto:")
# docutils, which knows most of TeX's formulas, lacks these words.
SAME_TEX = {r"\\([bB]igg?)(?![a-zA-Z])": r"\\\1l", r"\\dots(?![a-zA-Z])": r"\\ldots"}
PROMPTS = {
    "parameters": "Parameters and their defaults",
    "injected-parameters": "What the preset {preset} gives instead",
}
# Source maps are for those who mend the theme, the rest for Sphinx's next run.
NOT_FOR_READERS = ("**/*.map", "_static/*-macros.html", ".buildinfo", "objects.inv")


class Site(NamedTuple):
    """Where the pages are, and what Sphinx warned of."""

    folder: Path
    warnings: list[str]


def write_site(preset: str, out: Path | None = None) -> Site:
    """Write the pages of a finished run to `out` (`outputs/<preset>/site`).

    A site that is there is replaced once the new one is whole.
    Raises: ValueError for an unknown preset, or an `out` that holds anything but such a site;
    FileNotFoundError where the run is not finished.
    """
    executed = finished_notebooks(preset)
    folder = executed[REPORT].parents[1]
    out = (out or folder / "site").resolve()
    check_out(out)
    found = origin(preset, folder)
    with replaced(out) as (work, pages):
        source = work / "source"
        write_sources(executed, source, preset)
        warnings = run_sphinx(source, pages, work / "doctrees", footer(found))
        finish(pages, found)
    return Site(out, warnings)


def finish(pages: Path, found: Mapping[str, str | int]) -> None:
    """Leave out what no reader needs, and mark the folder with what is known of it."""
    for pattern in NOT_FOR_READERS:
        for path in pages.glob(pattern):
            path.unlink()
    shutil.rmtree(pages / "_sources", ignore_errors=True)  # empty, since none are shown
    (pages / ".nojekyll").touch()  # else GitHub's pages leave out folders with an underscore
    names = sorted(path.name for path in pages.iterdir())
    (pages / MARK).write_text(
        json.dumps({**found, "holds": names}, indent=1) + "\n", encoding="utf-8"
    )


def check_out(out: Path) -> None:
    """Raise ValueError unless `out` is free, empty, or holds a site and nothing else."""
    if not out.exists():
        return
    inside = {path.name for path in out.iterdir()} if out.is_dir() else {out.name}
    try:
        ours = {MARK, *json.loads((out / MARK).read_text(encoding="utf-8"))["holds"]}
    except (OSError, ValueError, KeyError, TypeError):
        ours = set()
    if foreign := sorted(inside - ours):
        raise ValueError(
            f"site: {out} holds {foreign[0]}, which is of no site; name another folder with --out, "
            "or move it away"
        )


def origin(preset: str, folder: Path) -> dict[str, str | int]:
    """When a run in `folder` ended, and what its pages are made with. No name of a host."""
    newest = max((path.stat().st_mtime for path in folder.rglob(SUMMARY)), default=time.time())
    return {
        "preset": preset,
        "date": time.strftime("%Y-%m-%d", time.localtime(newest)),
        "commit": _commit(project_root()),
        "processor": _processor(),
        "cores": cores(),
        "torch": version("torch"),
        "timm": version("timm"),
    }


def footer(found: Mapping[str, str | int]) -> str:
    """What stands below every page, as HTML."""
    text = "Run of {date} with the preset {preset}. Pages made from commit {commit}, on "
    text += "{processor}, {cores} cores; torch {torch}, timm {timm}."
    return f'<p class="origin">{html.escape(text.format(**found))}</p>'


def write_sources(executed: Mapping[str, Path], folder: Path, preset: str) -> None:
    """Sphinx's sources: a notebook for each page, and the notes that notebooks link to."""
    (folder / "_static").mkdir(parents=True)
    style = files("relevit") / "assets" / "site.css"
    (folder / "_static" / "site.css").write_text(style.read_text(encoding="utf-8"))
    notes: dict[Path, str] = {}
    pages = {}
    for name, path in executed.items():
        notebook = clean(nbformat.read(path, as_version=4))
        pages[page_name(name)] = page(notebook, preset, notes, folded=name != REPORT)
    for path, name in notes.items():
        text = _linked(path.read_text(encoding="utf-8"), path.parent, notes, more=False)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    pages[INDEX].cells.append(_contents([name for name in pages if name != INDEX], notes))
    for name, notebook in pages.items():
        # Nobody is to read where a run's folder was.
        text = nbformat.writes(notebook).replace(f"{project_root()}/", "")
        (folder / f"{name}.ipynb").write_text(text, encoding="utf-8")


def page_name(notebook: str) -> str:
    """Name of a notebook's page, without its ending."""
    return INDEX if notebook == REPORT else notebook


def page(
    notebook: NotebookNode, preset: str, notes: dict[Path, str], *, folded: bool
) -> NotebookNode:
    """A notebook as it is shown: source folded or left out, links between pages, anchors.

    `notes` gathers the Markdown files of the project that it links to, with their pages' names.
    """
    notebook.cells = [cell for cell in notebook.cells if cell.source.strip()]
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "markdown":
            cell.source = _linked(cell.source, project_root() / "notebooks", notes)
            if tags:  # evidence of a claim
                cell.source = f'<span id="{_anchor(cell.id)}"></span>\n\n{cell.source}'
        elif cell.cell_type == "code":
            prompt = next((PROMPTS[tag] for tag in tags if tag in PROMPTS), None)
            if prompt:
                cell.metadata["mystnb"] = {"code_prompt_show": prompt.format(preset=preset)}
            cell.metadata["tags"] = [*tags, "hide-input" if folded else "remove-input"]
            cell.metadata["anchor"] = _anchor(cell.id)
            cell.metadata["alts"] = [_alt(output) for output in cell.outputs if _image(output)]
            cell.outputs = [output for output in cell.outputs if not _is_empty(output)]
            for output in cell.outputs:
                _link_output(output)
    return notebook


def setup(app: Sphinx) -> dict[str, bool]:
    """What our pages add to Sphinx, which calls this: anchors, alternative text, formulas."""
    app.connect("doctree-read", _name_parts)
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_inline_formula, None), block_renderers=(_formula, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def formula(tex: str, *, block: bool) -> str:
    """A formula as MathML. Raises: docutils' MathError for TeX that it does not know."""
    for written, known in SAME_TEX.items():
        tex = re.sub(written, known, tex)
    return tex2mathml(tex, as_block=block)


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m relevit.pipeline.site", description=__doc__)
    parser.add_argument("preset", help="of a finished run, for example workshop")
    parser.add_argument("--out", type=Path, help="folder for the pages (outputs/PRESET/site)")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    try:
        out, warnings = write_site(options.preset, options.out)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for line in warnings:
        sys.stderr.write(f"site: {line}\n")
    megabytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
    seconds = time.perf_counter() - start
    sys.stdout.write(f"{megabytes:.1f} MB in {seconds:.0f} s. Open {out / 'index.html'}\n")
    return 0


@contextmanager
def replaced(out: Path) -> Iterator[tuple[Path, Path]]:
    """A folder to work in and one for the pages, which takes the place of `out` at the end."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".site.", dir=out.parent) as name:
        work, pages = Path(name), Path(name) / "pages"
        yield work, pages
        if out.exists():
            os.replace(out, work / "before")
        os.replace(pages, out)


def run_sphinx(
    source: Path,
    pages: Path,
    doctrees: Path,
    below: str,
    others: Mapping[str, Any] = MappingProxyType({}),
) -> list[str]:
    """Run Sphinx, with `others` in place of our settings; what it warns of."""
    settings = {
        "project": "RelEViT",
        "html_title": "RelEViT",
        "extensions": ["myst_nb", "relevit.pipeline.site"],
        "nb_execution_mode": "off",
        "nb_merge_streams": True,
        "nb_render_markdown_format": "myst",
        "nb_code_prompt_show": "Show the code",
        "nb_code_prompt_hide": "Hide the code",
        "myst_enable_extensions": ["dollarmath", "amsmath"],
        "myst_heading_anchors": 3,
        "html_math_renderer": "mathml",
        "html_theme": "sphinx_book_theme",
        "html_theme_options": {
            "home_page_in_toc": True,
            "use_download_button": False,
            "footer_content_items": ["extra-footer.html"],
            "extra_footer": below,
            "show_toc_level": 2,
        },
        "html_context": {"default_mode": "light"},
        "html_static_path": ["_static"],
        "html_css_files": ["site.css"],
        "html_copy_source": False,
        "html_show_sourcelink": False,
        "html_use_index": False,
        **others,
    }
    nocolor()
    said = io.StringIO()
    with patch_docutils(), docutils_namespace():  # what it registers ends with the run
        app = Sphinx(
            source, None, pages, doctrees, "html", settings, None, said, parallel=min(cores(), 4)
        )
        app.build()
    return [line.replace(f"{source}/", "") for line in said.getvalue().splitlines() if line]


def _contents(names: list[str], notes: Mapping[Path, str]) -> NotebookNode:
    """The order of the pages, for Sphinx; not shown."""
    trees = [("Notebooks", names), *([("Notes", sorted(notes.values()))] if notes else [])]
    text = "\n\n".join(
        "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```"])
        for caption, entries in trees
    )
    return nbformat.v4.new_markdown_cell(text)


def _anchor(cell_id: str) -> str:
    """As in a link to a cell of a notebook, which JupyterLab follows."""
    return f"cell-id={cell_id}"


def _is_empty(output: NotebookNode) -> bool:
    """Markdown without a word, in whose place its object's name would be shown."""
    return output.get("data", {}).get("text/markdown", "more").strip() == ""


def _link_output(output: NotebookNode) -> None:
    """Lead the links of a result to the site's pages."""
    data = output.get("data", {})
    if "text/html" in data:
        data["text/html"] = HREF.sub(_led, data["text/html"])
    if "text/markdown" in data:
        data["text/markdown"] = _linked(data["text/markdown"], None, {})


def _led(match: re.Match[str]) -> str:
    """An attribute that leads to the site's page; none where the site has no such page."""
    target = match[1]
    if not target.startswith((*ELSEWHERE, "#")):
        target = _page_link(target)
    return f'href="{target}"' if target else ""


def _page_link(target: str) -> str | None:
    """Address of a notebook's page; None for any other target."""
    found = LINK.fullmatch(target)
    return f"{page_name(found[1])}.html{found[2] or ''}" if found else None


def _linked(text: str, base: Path | None, notes: dict[Path, str], *, more: bool = True) -> str:
    """Markdown with its links led to the site's pages; what is not in the site loses its link.

    `base` is the folder that links start from. With `more`, Markdown files join `notes`.
    """

    def lead(match: re.Match[str]) -> str:
        shown, label, target = match.groups()
        if target.startswith(ELSEWHERE):
            return match[0]
        name, _, part = target.partition("#")
        path = (base / name).resolve() if base else Path(name)
        there = path.is_relative_to(project_root()) and path.is_file()
        if shown:
            return f"![{label}]({_inlined(path)})" if there else label
        if to := target if target.startswith("#") else _page_link(target):
            return f'<a href="{to}">{label}</a>'
        if more and there and path.suffix == ".md":
            if path not in notes and path.stem in (*notes.values(), *NOTEBOOKS, INDEX):
                raise ValueError(f"site: two pages would be called {path.stem}: rename {path}")
            notes.setdefault(path, path.stem)
        if path in notes:
            return f"[{label}]({notes[path]}.md{'#' if part else ''}{part})"
        return label

    text = PROSE_LINK.sub(lead, HREF.sub(_led, text))
    return MENTION.sub(lambda match: f"[{match[0]}]({page_name(match[1])}.ipynb)", text)


def _inlined(picture: Path) -> str:
    """A picture as an address that holds it; Sphinx makes it a file again."""
    kind = mimetypes.guess_type(picture)[0]
    return f"data:{kind};base64,{base64.b64encode(picture.read_bytes()).decode()}"


def _image(output: NotebookNode) -> str | None:
    """The type of a result's picture, if it has one."""
    return next((kind for kind in output.get("data", {}) if kind.startswith("image/")), None)


def _alt(output: NotebookNode) -> str:
    """Alternative text of a picture; empty without any."""
    metadata = output.get("metadata", {})
    return metadata.get(_image(output), {}).get("alt") or metadata.get("alt") or ""


def _name_parts(app: Sphinx, doctree: nodes.document) -> None:
    """Give cells and headings the anchors of JupyterLab's links, and pictures a text."""
    for section in list(doctree.findall(nodes.section)):
        name = section[0].astext().replace(" ", "-")
        if name not in section["ids"]:
            section["ids"].append(name)
    for cell in list(doctree.findall(nodes.container)):
        metadata = cell.get("cell_metadata", {})
        if "anchor" not in metadata:
            continue
        cell["ids"].append(metadata["anchor"])
        pictures = list(cell.findall(nodes.image))
        for number, picture in enumerate(pictures):
            known = metadata["alts"][number : number + 1]
            picture["alt"] = (known and known[0]) or f"Figure: {_heading(cell)}"


def _heading(node: nodes.Node | None) -> str:
    """The heading that a node stands below; empty without one."""
    while node is not None and not isinstance(node, nodes.section):
        node = node.parent
    return node[0].astext() if node else ""


def _inline_formula(writer: nodes.NodeVisitor, node: nodes.math) -> None:
    writer.body.append(_drawn(node, block=False))
    raise nodes.SkipNode


def _formula(writer: nodes.NodeVisitor, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{_drawn(node, block=True)}</div>')
    raise nodes.SkipNode


def _drawn(node: nodes.Element, *, block: bool) -> str:
    """A formula as HTML; TeX that is not known stays as it is, and is warned of."""
    try:
        return formula(node.astext(), block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s in the formula %s", error, node.astext())
        tag = "pre" if block else "code"
        return f"<{tag}>{html.escape(node.astext())}</{tag}>"


def _commit(root: Path) -> str:
    """The checkout's commit; "unknown" for a folder that is no checkout."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True)
        return done.stdout.strip()

    if not ((root / ".git").exists() and shutil.which("git")):
        return "unknown"
    commit = git("rev-parse", "--short=10", "HEAD") or "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no")
    return f"{commit}, with changes" if changed else commit


def _processor() -> str:
    """What the processor is called; not every system says more than its kind."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = re.search(r"(?m)^model name\s*:\s*(.+)$", text)
    return named[1] if named else platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())

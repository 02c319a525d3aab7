"""How the pages are made: `make site`. Nothing is run for them.

Sphinx reads the Markdown and the notebooks where they lie, so that a link leads to the same place
in the repository and on the pages. `prepare` folds a notebook's bookkeeping, `name_cells` lets
links lead to its cells, and `ShowCells` brings what they have drawn to the gallery. What the poster
draws is in poster.py. Formulas become MathML, which needs neither a script nor a network.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import yaml
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from nbformat import NotebookNode
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.transforms.post_transforms import SphinxPostTransform

import relevit
from reproduction.params.order import NOTEBOOKS, notebook_file
from reproduction.pipeline.notebooks import check_whole, clean, finished_notebooks

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs"))
import poster  # noqa: E402
import quoted  # noqa: E402

# Tags of cells that are folded, and what then stands in their place. MyST-NB's own tags
# (hide-input, hide-cell, remove-cell, ...) may be used beside them.
FOLDED = {
    "sources": "Sources, run time, and what is not reproduced",
    "parameters": "Parameters",
    "injected-parameters": "Parameters of this run",
    "bookkeeping": "Bookkeeping",
}
REPORT = "notebooks/99_report"  # without source
INDEX, GALLERY = "docs/index", "docs/gallery"  # the latter shows what its cells have drawn
LISTED = "docs/differences"
DIFFERENCES = yaml.safe_load((ROOT / f"{LISTED}.yaml").read_text(encoding="utf-8"))
# F1 is a score, too.
DIFFERENCE = re.compile(rf"\b(?:{'|'.join(name for name in DIFFERENCES if name != 'F1')})\b")
NAMES = "|".join(NOTEBOOKS)
MENTION = re.compile(rf"(?<!\[)`({NAMES})`")
RESULT_LINK = re.compile(rf'href="((?:\.\./|appendix/)?(?:{NAMES}))\.ipynb')

run_of = cache(finished_notebooks)  # the executed notebooks of a preset
PROSE = (nodes.paragraph, nodes.emphasis, nodes.strong)

project = "RelEViT"
version = release = relevit.__version__
root_doc = INDEX
# Pages of the API that an earlier version has made, of what is gone.
for page in (ROOT / "docs" / "api").glob("*.rst"):
    place = ROOT.joinpath("lib", *page.stem.split("."))
    if not (place.is_dir() or place.with_suffix(".py").is_file()):
        page.unlink()
include_patterns = ["docs/*.md", "docs/api/*", "workshop/[Rg]*.md", "[CR]*.md"]
include_patterns += [notebook_file(name) for name in NOTEBOOKS]
exclude_patterns = [".*", "lib", "outputs", "tests"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
templates_path = [str(ROOT / "docs" / "_templates")]

nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3

autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
add_module_names = False
default_role = "code"  # `names` in docstrings

html_theme = "furo"
pygments_dark_style = "monokai"
highlight_language = "text"  # of what names none: commands, folders
html_title = f"RelEViT {version}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_favicon = "_static/icon.svg"
html_additional_pages = {"index": "to_docs.html"}  # the pages keep the repository's folders
html_copy_source = html_show_copyright = False
html_js_files = [("sort.js", {"defer": ""}), "pages.js"]
if repository := os.environ.get("GITHUB_REPOSITORY"):  # where they are published from
    html_theme_options = {
        "source_repository": f"https://github.com/{repository}/",
        "source_branch": "main",
        "source_directory": "",
    }


def prepare(app: Sphinx, docname: str, source: list[str]) -> None:
    """A page's source as it is shown: names of notebooks are links, and cells are folded."""
    if not docname.startswith("notebooks/"):
        source[0] = MENTION.sub(_link, fill(app, docname, source[0]))
        return
    if preset := app.config.preset:
        source[0] = run_of(preset)[Path(docname).name].read_text(encoding="utf-8")
    notebook = clean(nbformat.reads(source[0], as_version=4))
    for cell in notebook.cells:
        cell.metadata["place"] = f"cell-id={cell.id}"  # what a link ends in, as in JupyterLab
        tags = cell.metadata.get("tags", [])
        summary = next((FOLDED[tag] for tag in tags if tag in FOLDED), None)
        if cell.cell_type == "markdown":
            text = MENTION.sub(_link, cell.source)
            if summary:
                text = f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"
            cell.source = f'<span id="{cell.metadata["place"]}"></span>\n\n{text}'
        elif cell.cell_type == "code":
            hidden = ["hide-cell"] * bool(summary) + ["remove-input"] * (docname == REPORT)
            cell.metadata["tags"] = [*tags, *hidden]
            prepare_results(cell, summary)
    app.env.temp_data["cells"] = [cell.metadata["place"] for cell in notebook.cells]
    source[0] = nbformat.writes(notebook)


def fill(app: Sphinx, docname: str, text: str) -> str:
    """The poster's drawings, and the verdicts, in the places that their pages have for them."""
    report = ROOT / f"{REPORT}.ipynb"
    if preset := app.config.preset:
        report = run_of(preset)[report.stem]
    found = {}
    if docname == INDEX:
        found = {"flip": poster.flip(), "bars": poster.bars(), "doses": poster.doses()}
        for path in (
            ROOT / "docs" / "flip.json",
            quoted.RESULTS / "added.csv",
            quoted.RESULTS / "notes" / "doses.csv",
        ):
            app.env.note_dependency(path)
    elif docname == "docs/verdicts":
        app.env.note_dependency(report)
        found = dict(zip(("counts", "five", "all"), poster.verdicts(report), strict=True))
    for name, drawn in found.items():
        block = f'```{{raw}} html\n<div class="cell_output">{drawn}</div>\n```'
        text = text.replace(f"<!-- {name} -->", block)
    return text


def prepare_results(cell: NotebookNode, summary: str | None) -> None:
    """Give a code cell its summary, its pictures their text, its links their pages."""
    shown: dict[str, Any] = {"image": {"alt": "Figure"}}
    if summary:
        shown |= {"code_prompt_show": summary, "code_prompt_hide": summary}
    # Markdown without a word would be shown as its object's name.
    cell.outputs = [
        each for each in cell.outputs if each.get("data", {}).get("text/markdown") != ""
    ]
    for output in cell.outputs:
        for kind, data in output.get("data", {}).items():
            if kind.startswith("image/"):
                said = output.metadata.get(kind, {}) | output.metadata
                shown["image"]["alt"] = said.get("alt", shown["image"]["alt"])
            elif kind == "text/html":
                output.data[kind] = RESULT_LINK.sub(r'href="\1.html', data)
    cell.metadata["mystnb"] = shown


def _link(named: re.Match[str]) -> str:
    return f"[{named[0]}](/{notebook_file(named[1])})"


def name_cells(app: Sphinx, doctree: nodes.document) -> None:
    """Give code cells the places that links lead to, and tell MyST of those of all cells."""
    for cell in doctree.findall(nodes.container):
        if place := cell.get("cell_metadata", {}).get("place"):
            cell["ids"].append(place)
    known = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
    known |= {place: (0, place, place) for place in app.env.temp_data.get("cells", ())}


def link_differences(app: Sphinx, doctree: nodes.document) -> None:
    """Lead from an id such as A8 in prose to its row of the list of differences."""
    page = app.env.docname
    if page == LISTED:
        for row in doctree.findall(nodes.row):
            if row.astext().split("\n")[0] in DIFFERENCES:
                row["ids"].append(row.astext().split("\n")[0])
        return
    target = app.builder.get_relative_uri(page, LISTED)
    for text in list(doctree.findall(nodes.Text)):
        said, inside = text.astext(), text.parent
        if not isinstance(inside, PROSE) or not DIFFERENCE.search(said):
            continue
        parts, end = [], 0
        for found in DIFFERENCE.finditer(said):
            link = nodes.reference("", found[0], refuri=f"{target}#{found[0]}", internal=True)
            parts += [nodes.Text(said[end : found.start()]), link]
            end = found.end()
        inside.replace(text, [*parts, nodes.Text(said[end:])])


class ShowCells(SphinxPostTransform):
    """Below a link to a cell, in the gallery, its first picture."""

    default_priority = 1  # while links are not yet led, and kinds of results not yet chosen from

    def run(self, **_: Any) -> None:
        """What Sphinx calls for every page."""
        for link in list(self.document.findall(pending_xref)):
            place = link.get("reftargetid") or ""
            if self.env.docname != GALLERY or not place.startswith("cell-id="):
                continue
            page = self.env.get_doctree(link["reftarget"])
            results = [
                result.deepcopy()
                for cell in page.findall(nodes.container)
                if place in cell["ids"]
                for result in cell.findall(nodes.container)
                if result.get("nb_element") == "mime_bundle"
            ]
            results = [each for each in results if any(each.findall(nodes.image))][:1]
            after = link.parent.parent.index(link.parent) + 1
            link.parent.parent[after:after] = results


def draw_formula(writer: Any, node: nodes.Element) -> None:
    """A formula as MathML. docutils, which knows most of TeX, lacks \\big, a kind of \\bigl."""
    block = isinstance(node, nodes.math_block)
    drawn = tex2mathml(re.sub(r"\\([bB]igg?)\b", r"\\\1l", node.astext()), as_block=block)
    writer.body.append(f'<div class="formula">{drawn}</div>' if block else drawn)
    raise nodes.SkipNode


def check_outputs(app: Sphinx, config: Config) -> None:
    """Refuse what has not run as a whole, before any work."""
    try:
        if config.preset:
            run_of(config.preset)
        else:
            for name in NOTEBOOKS:
                check_whole(ROOT / notebook_file(name))
    except (ValueError, OSError) as error:
        sys.exit(f"site: {error}")


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls first."""
    app.add_config_value("preset", "", "env")  # whose run; "": what the notebooks store
    app.add_html_math_renderer("mathml", (draw_formula, None), (draw_formula, None))
    app.add_post_transform(ShowCells)
    app.connect("config-inited", check_outputs)
    app.connect("source-read", prepare)
    app.connect("doctree-read", name_cells)
    app.connect("doctree-read", link_differences)
    # It shows cells, and so is written anew when any notebook has changed.
    app.connect("env-updated", lambda *_: [GALLERY])
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The documentation as pages: `python -m relevit.pipeline.docs`.

The Markdown of `docs/`, some that lies beside it, and for each room what it offers, taken from its
docstrings. The finished run of `docs/site` comes along, so that links from a figure or a claim to
its cell lead somewhere. Sphinx writes the pages, with the settings of `relevit.pipeline.site`.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import inspect
import pkgutil
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
from sphinx.application import Sphinx

import relevit
from relevit.base.files import project_root
from relevit.pipeline import site

# In the order of the pages; paths from the project's folder.
PAGES = {
    "Begin": ("docs/start.md", "docs/windows.md", "docs/step_through.md"),
    "Use": ("docs/your_own.md", "docs/library.md", "docs/extending.md", "docs/paper_preset.md"),
    "Read": (
        "docs/results.md",
        "docs/gallery.md",
        "docs/differences.md",
        "docs/context.md",
        "docs/benchmarks.md",
        "docs/cite.md",
    ),
    "Teach": ("workshop/README.md", "workshop/glossary.md"),
    "Take part": ("CONTRIBUTING.md", "CHANGELOG.md"),
}
HOME, GALLERY = "docs/index.md", "docs/gallery.md"
NAMES = {"workshop/README.md": "workshop"}  # of pages, where that of the file says too little
RUN = "site"  # the finished run, below docs/ and below the pages
# What may be called from outside, from the method to its pictures.
ROOMS = (
    "losses",
    "attribution",
    "attention",
    "models",
    "data",
    "masks",
    "finetune",
    "evaluate",
    "iav",
    "text",
    "claims",
    "plots",
)
CELL = re.compile(r"\[([^\[\]]*)\]\(\.\./notebooks/(\w+)\.ipynb#cell-id=([\w-]+)\)")
ENDINGS = {"image/svg+xml": "svg", "image/jpeg": "jpg", "image/png": "png"}
FENCED = re.compile(r"(?ms)^(```.*?^```\n?)")
LABELS = re.compile(r"^(Sources?|Shapes?|Raises|Returns|Arguments|Columns)\b.{0,40}?:")
SETTINGS = {
    "extensions": ["myst_nb", "sphinx.ext.autodoc", "relevit.pipeline.site", __name__],
    "autodoc_typehints": "signature",
    "autodoc_preserve_defaults": True,
    "autodoc_class_signature": "mixed",
    "add_module_names": False,
    "python_use_unqualified_type_names": True,
    "python_maximum_signature_line_length": 80,
}


def write_docs(out: Path | None = None) -> site.Site:
    """Write the pages to `out` (`outputs/docs`).

    Pages that are there are replaced once the new ones are whole.
    Raises: ValueError for an `out` that holds anything but such pages; FileNotFoundError for a page
    or a cell of the gallery that is missing.
    """
    root = project_root()
    out = (out or root / "outputs" / "docs").resolve()
    site.check_out(out)
    with site.replaced(out) as (work, pages):
        source = work / "source"
        write_sources(root, source)
        below = f'<p class="origin">RelEViT {relevit.__version__}</p>'
        warnings = site.run_sphinx(source, pages, work / "doctrees", below, SETTINGS)
        shutil.copytree(root / "docs" / RUN, pages / RUN)
        site.finish(pages, {"version": relevit.__version__})
    return site.Site(out, warnings)


def write_sources(root: Path, folder: Path) -> None:
    """Sphinx's sources: the pages with their links led to each other, and one for each room."""
    (folder / "_static").mkdir(parents=True)
    shutil.copy(Path(relevit.__file__).parent / "assets" / "site.css", folder / "_static")
    written = [name for names in PAGES.values() for name in names]
    names = {(root / name).resolve(): page_name(name) for name in (HOME, *written)}
    for path, name in names.items():
        text = path.read_text(encoding="utf-8")
        if path == root / GALLERY:
            text = with_pictures(text, root / "notebooks", folder)
        text = linked(text, path.parent, names, root, folder)
        if path == root / HOME:
            text += contents()
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    for room in ROOMS:
        (folder / f"api_{room}.md").write_text(room_page(room), encoding="utf-8")


def page_name(path: str) -> str:
    """The name of a file's page, without its ending."""
    return NAMES.get(path, Path(path).stem.lower())


def contents() -> str:
    """The order of the pages, for Sphinx; not shown."""
    parts = {title: [page_name(name) for name in names] for title, names in PAGES.items()}
    parts["API"] = [f"api_{room}" for room in ROOMS]
    trees = [
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])
        for title, pages in parts.items()
    ]
    return "\n".join(trees)


def linked(text: str, base: Path, names: dict[Path, str], root: Path, folder: Path) -> str:
    """Markdown whose links lead to pages, or to the finished run; others are left as words.

    `base` is the folder that links start from. Pictures are copied to `folder`.
    """

    def lead(match: re.Match[str]) -> str:
        shown, label, target = match.groups()
        if target.startswith((*site.ELSEWHERE, "#")):
            return match[0]
        name, mark, part = target.partition("#")
        path = (base / name).resolve()
        if shown:
            if path.is_file() and not (folder / path.name).exists():
                shutil.copy(path, folder)
            return match[0].replace(target, path.name)
        if path in names:
            return f"[{label}]({names[path]}.md{mark}{part})"
        if path.suffix == ".ipynb":
            path = root / "docs" / RUN / f"{site.page_name(path.stem)}.html"
        if path.is_file() and path.is_relative_to(root / "docs" / RUN):
            to = path.relative_to(root / "docs").as_posix()
            return f'<a href="{to}{mark}{part}">{code_in_html(label)}</a>'
        return label

    def mention(match: re.Match[str]) -> str:
        page = f"{RUN}/{site.page_name(match[1])}.html"
        there = (root / "docs" / page).is_file()
        return f'<a href="{page}"><code>{match[1]}</code></a>' if there else match[0]

    parts = FENCED.split(text)  # code, at every second place, has no links
    parts[::2] = [site.MENTION.sub(mention, site.PROSE_LINK.sub(lead, part)) for part in parts[::2]]
    return "".join(parts)


def code_in_html(label: str) -> str:
    """What Markdown calls code, as HTML."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", label)


def with_pictures(text: str, notebooks: Path, folder: Path) -> str:
    """The gallery with the stored picture of each cell that a section's table names.

    Raises: FileNotFoundError for a cell that is not there.
    """
    opened: dict[str, Any] = {}
    sections = re.split(r"(?m)^(?=## )", text)
    for place, section in enumerate(sections):
        for line in section.splitlines():
            if not (found := CELL.search(line)):
                continue
            _, name, cell = found.groups()
            if name not in opened:
                opened[name] = nbformat.read(notebooks / f"{name}.ipynb", as_version=4)
            said = [part.strip() for part in line.strip("| ").split(" | ")[:-1]]
            title = said[-1] if len(said) == 1 else f"{said[0]}: {said[-1]}"
            if picture := stored_picture(opened[name], cell, name, folder):
                sections[place] += f"\n### {title}\n\n{picture}\n\n{found[0]}\n"
    return "".join(sections)


def stored_picture(notebook: nbformat.NotebookNode, cell: str, name: str, folder: Path) -> str:
    """A cell's first picture, written to `folder`, in Markdown; empty for a cell without any."""
    found = next((each for each in notebook.cells if each.id == cell), None)
    if found is None:
        raise FileNotFoundError(
            f"docs: the gallery names cell {cell} of {name}, which is not there; "
            "mend its link in docs/gallery.md"
        )
    for output in found.get("outputs", ()):
        for kind, ending in ENDINGS.items():
            data = output.get("data", {}).get(kind)
            if data is None:
                continue
            raw = data.encode() if kind == "image/svg+xml" else base64.b64decode(data)
            path = folder / f"{name}.{cell}.{ending}"
            path.write_bytes(raw)
            alt = output.metadata.get(kind, {}).get("alt", "").replace("\n", " ")
            return f"![{re.sub(r'[][]', '', alt) or name}]({path.name})"
    return ""


# What a room offers


def room_page(room: str) -> str:
    """The page of a room: its docstring, then what it offers, file by file, for autodoc."""
    module = importlib.import_module(f"relevit.{room}")
    lines = [f"# {room}", "", *_directive("automodule", module.__name__)]
    constants = [
        f"- `{name}`: {_values(value)}" for name, value in vars(module).items() if name.isupper()
    ]
    if constants:
        lines += ["## Constants", "", *constants, ""]
    for file, names in offered(module).items():
        if file is not module:
            title = file.__name__.removeprefix(f"{module.__name__}.")
            lines += [f"## {title}", "", *_directive("automodule", file.__name__)]
        else:
            lines += ["## Functions", ""]
        for name, value in names.items():
            kind = "autoclass" if inspect.isclass(value) else "autofunction"
            lines += _directive(kind, f"{file.__name__}.{name}")
    return "\n".join(lines)


def offered(room: ModuleType) -> dict[ModuleType, dict[str, Any]]:
    """Public functions and classes of a room by the file that defines them.

    Those that the room's `__init__` imports or has in a table such as METHODS, and all of the
    modules that its `__all__` names; of a room that imports none, all of its files.
    """
    listed = getattr(room, "__all__", ())
    values = [value for name, value in vars(room).items() if not name.startswith("_")]
    values += [each for table in values if isinstance(table, dict) for each in table.values()]
    for name in listed:
        if inspect.ismodule(module := getattr(room, name)):
            values += public(module).values()
    if not any(_defined_in(value, room.__name__) for value in values) and hasattr(room, "__path__"):
        values = [value for file in files_of(room) for value in public(file).values()]
    found: dict[ModuleType, dict[str, Any]] = {}
    for value in values:
        if _defined_in(value, room.__name__) and value.__doc__:
            found.setdefault(sys.modules[value.__module__], {})[value.__name__] = value
    return found


def public(module: ModuleType) -> dict[str, Any]:
    """Functions and classes that a file defines, without those that begin with an underscore."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and _defined_in(value, module.__name__)
    }


def files_of(package: ModuleType) -> Iterator[ModuleType]:
    """The modules of a package and of those in it."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def _defined_in(value: Any, module: str) -> bool:
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        return False
    return f"{value.__module__}.".startswith(f"{module}.")


def _values(value: Any, most: int = 14) -> str:
    """A constant in a line: its keys or values, as many as fit."""
    if isinstance(value, dict | tuple | list | set | frozenset):
        shown = [f"`{each}`" for each in list(value)[:most] if len(str(each)) < 60]
        return ", ".join(shown) + (f" and {len(value) - most} more" if len(value) > most else "")
    return f"`{value}`"


def _directive(kind: str, name: str) -> list[str]:
    members = ["   :members:"] if kind == "autoclass" else []
    return ["```{eval-rst}", f".. {kind}:: {name}", *members, "```", ""]


def as_rst(lines: list[str]) -> list[str]:
    """A docstring in plain words, as Sphinx reads it.

    Names in backticks become code, what is indented stays as it is, and each of Source, Shapes
    and Raises begins a paragraph.
    """
    text: list[str] = []
    block = False  # inside indented lines
    for line in lines:
        indented, empty = line.startswith("    "), not line.strip()
        if indented and not block and (not text or not text[-1].strip()):
            text += ["::", ""]
            block = True
        elif not indented and not empty:
            block = False
        if block or empty:
            text.append(line)
            continue
        line = line.strip() if indented else line.rstrip()
        label, before = LABELS.match(line), text[-1] if text else ""
        ends_list = before.startswith(("- ", "  ")) and not line.startswith(("- ", "  "))
        if before.strip() and (label or ends_list):
            text.append("")
        escaped = _escaped(line)
        if label:
            head, _, rest = escaped.partition(":")
            escaped = f"**{head}:**{rest}" if "`" not in head else escaped
        text.append(escaped)
    return [*text, ""]


def _escaped(line: str) -> str:
    """Words as they are, and `names` as code."""
    parts = re.split(r"`([^`]*)`", line)
    parts[::2] = [re.sub(r"([*|\\_])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"``{part}``" if part.strip() else "" for part in parts[1::2]]
    # Sphinx wants a blank or a mark after code: s of a plural is joined by an escaped blank.
    return "".join(
        f"{part}\\ " if place % 2 and re.match(r"\w", parts[place + 1]) else part
        for place, part in enumerate(parts)
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls: docstrings are plain words here."""

    def plain(
        _app: Sphinx, _what: str, _name: str, _value: Any, _options: Any, lines: list
    ) -> None:
        lines[:] = as_rst(lines)

    app.connect("autodoc-process-docstring", plain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message and exit code 2, a warning exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m relevit.pipeline.docs", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for the pages (outputs/docs)")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    try:
        out, warnings = write_docs(options.out)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for line in warnings:
        sys.stderr.write(f"docs: {line}\n")
    seconds = time.perf_counter() - start
    sys.stdout.write(f"documentation in {seconds:.0f} s. Open {out / 'index.html'}\n")
    return int(bool(warnings))


if __name__ == "__main__":
    sys.exit(main())

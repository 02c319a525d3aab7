"""The table of docs/paper_preset.md, out of the catalogue: `python tools/data_sets.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from habitats.real.catalogue import CATALOGUE, Entry, number

COLUMNS: dict[str, Callable[[Entry], str]] = {
    "set": lambda entry: f"`{entry.key}`",
    "what": lambda entry: f"[{entry.title}]({entry.page})",
    "images or texts": lambda entry: number(entry.images),
    "classes": lambda entry: number(entry.classes),
    "unpacked, GB": lambda entry: number(entry.size_gb),
    "archives": lambda entry: ", ".join(f"`{name}`" for name in entry.archives),
    "folder": lambda entry: ", ".join(f"`{name}`" for name in entry.folders),
    "terms": lambda entry: entry.terms,
    "used by": lambda entry: ", ".join(entry.used_by),
}


def markdown() -> str:
    rows = [list(COLUMNS), *([cell(e) for cell in COLUMNS.values()] for e in CATALOGUE.values())]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([lines[0], "|---" * len(COLUMNS) + "|", *lines[1:]]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())

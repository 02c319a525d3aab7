"""What the poster and the page of verdicts show of numbers that stand elsewhere.

Bars, and dose and response, are of the files in docs/results; verdicts are what the report's
notebook has stored. So no number is typed for the pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import nbformat
import pandas as pd
import quoted

from reproduction.claims import FIVE

DOCS = Path(__file__).parent
CLAIMS = "99-23"  # the report's cell of counts and of all verdicts
WIDTH, LABEL, NUMBER = 470, 150, 56  # pixels: in all, left of the bars, right of them


class Found(NamedTuple):
    """A number with its 95 % interval, in points."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+z.1f} ({self.low:+z.1f} to {self.high:+z.1f})"


def found(row: pd.Series, name: str) -> Found:
    """A number of a row of results, with its interval."""
    return Found(*(float(row[f"{name}{end}_pts"]) for end in ("", "_low", "_high")))


def bars() -> str:
    """The change on the shifted sets as bars with their interval, drawn as SVG."""
    names = {"with": "with relevance", "without": "labels alone", "adds": "relevance adds"}
    ((_, average),) = quoted.rows_of("added").iterrows()
    rows = [(shown, found(average, name)) for name, shown in names.items()]
    low, high = (end(0, *(one[n] for _, one in rows)) for end, n in ((min, 1), (max, 2)))
    scale = (WIDTH - LABEL - NUMBER) / (high - low)
    zero = LABEL - scale * low
    parts = []
    for number, (name, one) in enumerate(rows):
        y, x = 34 * number + 18, zero + scale * min(0, one.value)
        low, high = (zero + scale * end for end in (one.low, one.high))
        parts.append(
            f'<text x="{LABEL - 8}" y="{y + 5}" text-anchor="end">{name}</text>'
            f'<rect class="bar{number}" x="{x:.0f}" y="{y - 10}" height="20" '
            f'width="{scale * abs(one.value):.0f}"/>'
            f'<path d="M{low:.0f} {y}H{high:.0f}M{low:.0f} {y - 5}v10M{high:.0f} {y - 5}v10"/>'
            f'<text x="{max(high, zero) + 8:.0f}" y="{y + 5}">{one.value:+z.1f}</text>'
        )
    parts.append(f'<path d="M{zero} 0V106"/>')
    said = "; ".join(f"{name} {one}" for name, one in rows)
    return svg("".join(parts), WIDTH, 108, f"Change on the shifted sets, in points: {said}")


def flip() -> str:
    """One animal in two homes: pictures from one file, with what is said of each as text."""
    said = json.loads((DOCS / "flip.json").read_text(encoding="utf-8"))
    parts = []
    for number, tile in enumerate(said):
        row, column = divmod(number, 4)
        kind = {None: "", True: ' class="right"', False: ' class="wrong"'}[tile["right"]]
        lines = "".join(f"<span>{line}</span>" for line in tile["lines"])
        parts.append(
            f'<figure><div role="img" aria-label="{tile["title"]}" '
            f'style="background-position:{100 * column / 3:.4g}% {100 * row}%"></div>'
            f"<figcaption{kind}><b>{tile['title']}</b>{lines}</figcaption></figure>"
        )
    return f'<div class="flip">{"".join(parts)}</div>'


def doses() -> str:
    """What relevance adds over the background gap of the original, with intervals, as SVG."""
    table = quoted.rows_of("notes/doses")
    rows = [(row["home_pct"], float(row["gap_pts"]), found(row, "adds"))
            for _, row in table.iterrows()]  # fmt: skip
    parts = [f'<path d="M{LABEL - 8} {_y(0)}H460"/>']
    for share, gap, one in rows:
        x = LABEL + 4 * gap + (3 if share == "80" else -3)  # two have a gap of 0
        parts.append(
            f'<path d="M{x:g} {_y(one.low):.0f}V{_y(one.high):.0f}"/>'
            f'<circle cx="{x:g}" cy="{_y(one.value):.0f}" r="5"/>'
        )
        side, anchor = (10, "start") if share == "80" else (-10, "end")
        parts.append(f'<text x="{x + side:g}" y="{_y(one.value) + 5:.0f}" text-anchor="{anchor}">'
                     f"{one.value:+z.1f}</text>")  # fmt: skip
    for gap in {gap for _, gap, _ in rows}:
        parts.append(f'<text x="{LABEL + 4 * gap:g}" y="148" text-anchor="middle">{gap:g}</text>')
    parts.append('<text x="0" y="16">relevance adds,</text><text x="0" y="34">points</text>')
    parts.append('<text x="460" y="170" text-anchor="end">background gap, points</text>')
    said = "; ".join(f"gap {gap:g}: {one}" for _, gap, one in rows)
    return svg("".join(parts), WIDTH, 176, f"What relevance adds, over the background gap: {said}")


def _y(points: float) -> float:
    return 112 - 5 * points


def svg(inner: str, width: int, height: int, said: str) -> str:
    """A drawing in the colours of the page, with what it says in words."""
    return (
        f'<svg class="drawn" role="img" viewBox="0 0 {width} {height}" aria-label="{said}">'
        f"{inner}</svg>"
    )


def verdicts(report: Path) -> tuple[str, str, str]:
    """Counts, the rows that matter, and all verdicts, paper by paper, as HTML."""
    cells = nbformat.read(report, as_version=4).cells
    outputs = next(cell.outputs for cell in cells if cell.id == CLAIMS)
    counts, *_, page = (output.data["text/html"] for output in outputs)
    page = re.sub(r"<tr>(<td[^>]*>)(\w+-\d+)<", r'<tr id="\2">\1\2<', page)
    page = page.replace("<details><summary><b>", "<details open><summary><b>")
    return counts, _rows(page, [*FIVE]), page


def _rows(page: str, ids: Sequence[str]) -> str:
    head = re.search(r'<table class="verdicts"><tr>.*?</tr>', page)
    rows: Iterable[str] = (
        re.search(rf'<tr id="{name}">.*?</tr>', page)[0].replace(f' id="{name}"', "")
        for name in ids
    )
    return f"{head[0]}{''.join(rows)}</table>"

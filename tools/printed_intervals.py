"""Count the intervals of differences that pages print, and which stand beside all the others.

Writes docs/results/intervals.csv, a row a different interval: python tools/printed_intervals.py,
then make numbers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

sys.path.append(str(Path(__file__).parents[1] / "docs"))
import quoted

SIGNED = re.compile(r"([+-][\d.]+)\*{0,2} \(([+-]?[\d.]+) to ([+-]?[\d.]+)\)")
# Of the earlier rule, by so many seeds; cells of context.md that are text are of the study.
EARLIER = {"notes/doses": 2, "notes/study_arms": 5, "notes/study_gaps": 5, "notes/processors": 3}
TEXTS = {"docs/context.md": 5}
KEYS = ["file", "row", "column"]
ENDS = ["value_pts", "low_pts", "high_pts"]
COLUMNS = ["page", *KEYS, *ENDS, "seeds", "earlier"]


def printed() -> pd.DataFrame:
    """Each interval that a page prints with its sign, once, whichever way round; columns COLUMNS.

    `page` is the first that has it. Cells that are text have no `file`.
    """
    known: dict[str, list] = {}
    plain = quoted.number

    def noted(row: pd.Series, column: str, form: str, *, interval: bool = False) -> str:
        text = plain(row, column, form, interval=interval)
        if interval and SIGNED.fullmatch(text):
            exact = plain(row, column, "+0.0000", interval=True)
            file = row.attrs.get("file", "")
            words = [cell for cell in row.astype(str)[:6] if re.search("[A-Za-z]", cell)]
            named = [file, " ".join(words), column.removeprefix("-")]
            earlier = file in EARLIER or row.get("run") == "study"
            seeds = EARLIER.get(file) or _seeds(row)
            known[text] = [*named, *map(float, SIGNED.fullmatch(exact).groups()), seeds, earlier]
        return text

    quoted.number = noted
    try:
        written = {}
        for path in quoted.pages():
            known.clear()  # the same text may be another interval on another page
            written[path] = quoted.rewritten(path), dict(known)
    finally:
        quoted.number = plain
    rows = []
    for path, (page, known) in written.items():
        name = path.relative_to(quoted.ROOT).as_posix()
        for text in _signed(page if path.suffix == ".md" else quoted.prose(path)):
            found = [
                *map(float, SIGNED.fullmatch(text).groups()),
                TEXTS.get(name, 1),
                name in TEXTS,
            ]
            rows.append([name, *known.get(text, ["", "", "", *found])])
    found = pd.DataFrame(rows, columns=COLUMNS)
    upright = np.where(found["value_pts"] < 0, -1, 1)
    same = (found[ENDS].mul(upright, axis=0)).apply(lambda row: tuple(sorted(row.round(1))), axis=1)
    return found[~same.duplicated()]


def _signed(page: str) -> Iterator[str]:
    for match in SIGNED.finditer(page):
        yield match[0].replace("*", "")


def _seeds(row: pd.Series) -> int:
    """Over how many seeds a row is; those of photographs that do not say have 3 or 5."""
    if row.get("seeds"):
        return int(row["seeds"])
    photos = row.get("seed", "all") == "all" and row.attrs.get("file", "").startswith("photos_")
    return (3 if "longer" in row.iloc[0] else 5) if photos else 1


def judged(found: pd.DataFrame) -> pd.DataFrame:
    """Beside each interval: whether it lies off 0, its p, and p beside all the others.

    p is by Student's t with n - 1 degrees of freedom, of one run by the normal distribution. Where
    the earlier rule had 1.96 for t, the error follows from that. `holm` is by Holm (1979). An
    interval without width has neither.
    """
    value, low, high = (found[name] for name in ENDS)
    half = ((high - low) / 2).where(high > low)
    freedom = np.where(found["seeds"] > 1, found["seeds"] - 1, np.inf)
    reach = stdtrit(np.where(found["earlier"], np.inf, freedom), 0.975)
    p = pd.Series(2 * stdtr(freedom, -value.abs() / half * reach), found.index)
    order = p.dropna().sort_values()
    times = order * np.arange(len(order), 0, -1)
    beyond = (low > 0) | (high < 0)
    return found.assign(beyond=beyond, p=p, holm=times.cummax().clip(upper=1.0))


if __name__ == "__main__":
    table = judged(printed())
    table["stands"] = table["holm"] < 0.05
    path = quoted.RESULTS / "intervals.csv"
    table.to_csv(path, index=False, float_format="%.4g", lineterminator="\n")
    print(table[["beyond", "stands"]].sum().to_string(), f"of {len(table)}", sep="\n")

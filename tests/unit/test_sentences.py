"""Conclusions follow from docs/results: a row of docs/sentences has a sentence, and why it holds.

`holds` is a Python expression with `rows(file, query)`, a table of docs/results/<file>.csv, and
`one(file, query, column)`, the one number. It is true, and each number that it reads can make it
false.
"""

import re
import sys
from functools import cache

import numpy as np
import pandas as pd
import pytest
import yaml

from relevit.base.files import project_root

sys.path.append(str(project_root() / "docs"))
import quoted

SENTENCES = [
    row
    for path in sorted((quoted.ROOT / "docs" / "sentences").glob("*.yaml"))
    for row in yaml.safe_load(path.read_text(encoding="utf-8"))
]
FAR = 1000.0  # no number here is as large as what this makes of it


def plain(text):
    """Words as people read them: without sources, stress, links and line breaks."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"<!--.*?-->", "", text))
    return " ".join(re.sub(r"[*`]", "", text).split())


@cache
def table(file):
    return pd.read_csv(quoted.RESULTS / f"{file}.csv")


def said(holds, moved=None, by=0.0):
    """Whether `holds` is true, where the read number `moved` is moved `by` so much; and its reads.

    A table without rows is read where `by` is NaN.
    """
    reads = []

    def found(file, query, column=None):
        part = table(file).query(query) if query else table(file)
        here = len(reads) == moved
        reads.append((file, query, column))
        if not here:
            return part
        return (
            part.iloc[:0]
            if np.isnan(by)
            else part.apply(lambda c: c + by if c.dtype.kind in "if" else c)
        )

    def one(file, query, column):
        (value,) = found(file, query, column)[column]
        return float(value)

    def rows(file, query=""):
        return found(file, query)

    return bool(eval(holds, {"rows": rows, "one": one, "np": np, "pd": pd})), reads


@pytest.mark.parametrize("row", SENTENCES, ids=lambda row: row["sentence"][:60])
def test_a_sentence_stands_and_follows(row):
    page = plain(quoted.prose(quoted.ROOT / row["page"]))
    assert plain(row["sentence"]) in page
    assert not row["before"] or plain(row["before"]) not in page, "the one before still stands"
    assert row["why"]
    true, reads = said(row["holds"])
    assert true and reads
    for number, (_, _, column) in enumerate(reads):
        moves = (FAR, -FAR) if column else (FAR, -FAR, np.nan)
        assert not all(said(row["holds"], number, by)[0] for by in moves), reads[number]

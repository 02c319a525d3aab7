"""Rows as a table."""

from __future__ import annotations

import pandas as pd


def frame(rows, columns):
    """A table of these rows; the names of its columns stand in one text."""
    return pd.DataFrame(list(rows), columns=columns.split())

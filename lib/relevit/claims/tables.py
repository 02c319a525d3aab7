"""Result tables before they are judged: which can be, and what the others lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd

# Table -> columns that name a row, columns that hold numbers.
Schemas = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Lacking(Exception):
    """What a claim needs is not in the tables."""


class ResultTables(dict[str, pd.DataFrame]):
    """Tables that can be judged, by name; `reasons` says of others what they lack."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], reasons: Mapping[str, str]) -> None:
        super().__init__(tables)
        self.reasons = dict(reasons)


def check_tables(
    tables: Mapping[str, pd.DataFrame],
    schemas: Schemas,
    where: str,
    masked: Mapping[str, tuple[str, ...]] = NONE,
) -> ResultTables:
    """The tables that can be judged.

    An empty table, or one without a column of `schemas`, is left out with the reason: what it
    should hold may not exist in a preset. `masked` names numbers that are NaN for images without
    a mask.
    Raises: ValueError for an unknown name, a repeated row, or another number that is not finite.
    """
    unknown = sorted(set(tables) - set(schemas))
    if unknown:
        raise ValueError(f"{where}: tables {unknown} are unknown; use some of {list(schemas)}")
    usable, reasons = {}, {}
    for name, table in tables.items():
        keys, numbers = (list(columns) for columns in schemas[name])
        optional = masked.get(name, ())
        absent = [c for c in (*keys, *numbers, *optional) if c not in table.columns]
        if table.empty:
            reasons[name] = f"table {name} is empty: this preset has nothing to put there"
        elif absent:
            reasons[name] = f"table {name} lacks {absent}: run the notebook that writes it again"
        else:
            _check_rows(table, keys, numbers, f"{where}: {name}")
            usable[name] = table
    return ResultTables(usable, reasons)


def need(tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """One of the tables. Raises: Lacking without it."""
    reason = lacking(tables, name)
    if reason:
        raise Lacking(reason)
    return tables[name]


def lacking(tables: Mapping[str, pd.DataFrame], *names: str) -> str:
    """Why some of these tables cannot be judged; empty where all can."""
    known = getattr(tables, "reasons", {})
    reasons = [known[name] for name in names if name in known]
    absent = [name for name in names if name not in tables and name not in known]
    if absent:
        reasons.append(f"no table {' and no '.join(absent)}: run the notebook that writes it")
    return "; ".join(reasons)


def _check_rows(
    table: pd.DataFrame, keys: Sequence[str], numbers: Sequence[str], where: str
) -> None:
    repeated = table.duplicated(keys)
    if repeated.any():
        row = table.loc[repeated, keys].iloc[0].to_dict()
        raise ValueError(f"{where} has {row} twice; one row is needed: drop or average the others")
    finite = np.isfinite(table[numbers].to_numpy(dtype=float))
    if not finite.all():
        row = table.loc[~finite.all(axis=1), keys].iloc[0].to_dict()
        raise ValueError(
            f"{where} has a number that is not finite at {row}; standard errors "
            "need at least 2 images: run more of them"
        )

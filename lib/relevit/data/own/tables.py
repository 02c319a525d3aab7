"""A table of pictures: their paths, classes, and perhaps masks and parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from relevit.base.errors import one_line
from relevit.base.results import parquet
from relevit.data.own.listing import PARTS, WHOLE, Listing, part_of, same_form, some

TABLES = (".csv", ".tsv", ".parquet")
NEEDED = ("image", "label")
SEPARATORS = (",", ";", "\t")


def read_table(path: Path) -> dict[str, Listing]:
    """The pictures that a CSV or parquet file lists, by part; "all" without a column `split`.

    Columns: `image`, a path relative to the file's folder; `label`, a name or a whole number;
    optional `mask`, a path or empty, and `split`, train, validation or test.
    Values of a CSV are separated by commas, semicolons or tabs. All parts have the same classes, in
    the order of their names; if all are whole numbers, which are a head's own, by their value.
    Raises: ValueError for a file that cannot be read, is empty or lacks a column, and for a
    label, path or part that is none; FileNotFoundError for a picture or mask that is missing, with
    its row; rows count from 1 after the heading.
    """
    table = _read(path)
    missing = [name for name in NEEDED if name not in table]
    if missing:
        raise ValueError(
            f"read_data: {path} has no column {' and none '.join(missing)}; it has "
            f"{some(list(table.columns))}: needed are image and label, and mask and split may be"
        )
    if table.empty:
        raise ValueError(f"read_data: {path} has no rows; list at least one picture of each class")
    labels = [_label(path, row, value) for row, value in enumerate(table["label"], 1)]
    classes = _in_order(labels)
    places = {name: place for place, name in enumerate(classes)}
    images = [_file(path, row, "image", value) for row, value in enumerate(table["image"], 1)]
    masks: list[Path | None] = [None] * len(table)
    if "mask" in table:
        rows = enumerate(zip(table["mask"], table["mask"].isna(), strict=True), 1)
        masks = [None if lost else _file(path, row, "mask", value) for row, (value, lost) in rows]
    everything = Listing(
        path.stem,
        classes,
        tuple(images),
        torch.tensor([places[label] for label in labels]),
        tuple(masks),
        path.parent,
    )
    if "split" not in table:
        return {WHOLE: everything}
    found = np.array([_part(path, row, v) for row, v in enumerate(table["split"], 1)])
    return {
        part: everything.select(np.flatnonzero(found == part).tolist())
        for part in PARTS
        if (found == part).any()
    }


def _read(path: Path) -> pd.DataFrame:
    try:
        if path.suffix.lower() == ".parquet":
            return parquet(path)
        with path.open(encoding="utf-8-sig") as file:
            heading = file.readline()
        separator = max(SEPARATORS, key=heading.count)
        # Texts as they stand: a class may be called None, and 007 is not 7. Empty cells are NaN.
        table = pd.read_csv(
            path, sep=separator, dtype=str, keep_default_na=False, na_values=[""],
            encoding="utf-8-sig", skipinitialspace=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:  # pandas' are ValueErrors
        raise ValueError(
            f"read_data: {path} cannot be read ({one_line(error)}); save it as a CSV in UTF-8, or "
            "as parquet"
        ) from error
    return table.rename(columns=str.strip)


def _in_order(labels: list[str]) -> tuple[str, ...]:
    names = sorted(set(labels))
    return tuple(sorted(names, key=int) if all(map(str.isdecimal, names)) else names)


def _label(path: Path, row: int, value: Any) -> str:
    """A label as text. Raises: ValueError for one that is missing, or no name and no number."""
    if isinstance(value, str) and value.strip():
        return same_form(value.strip())
    if isinstance(value, int | np.integer | bool | np.bool_):
        return str(value)
    if isinstance(value, float | np.floating) and np.isfinite(value) and value == int(value):
        return str(int(value))  # whole numbers of a column that has also had empty cells
    what = "no label" if pd.api.types.is_scalar(value) and pd.isna(value) else f"label {value!r}"
    raise ValueError(
        f"read_data: {path}, row {row}, has {what}; give each picture the name or whole number of "
        "its class"
    )


def _file(path: Path, row: int, column: str, value: Any) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(
            f"read_data: {path}, row {row}, has {type(value).__name__} in the column {column}; "
            f"needed is a path relative to {path.parent}"
        )
    found = path.parent / value
    if not found.is_file():
        raise FileNotFoundError(
            f"read_data: {path}, row {row}: the {column} {found} is missing; write paths relative "
            f"to {path.parent}, or take the row out"
        )
    return found


def _part(path: Path, row: int, value: Any) -> str:
    part = part_of(value.strip()) if isinstance(value, str) else None
    if part is None:
        raise ValueError(
            f"read_data: {path}, row {row}, has the split {value!r}; give one of {', '.join(PARTS)}"
        )
    return part

"""The suite's own results read back: a file that is cut or was edited by hand is named.

One function for each kind of file. pandas and pyarrow are loaded by the one that needs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pandas as pd

MOST_VALUES = 10**9  # of a table, far above what any stage writes; small files may claim more

Named = TypeVar("Named", bound=dict[str, Any])


class Kept(dict[str, Any]):
    """What a JSON file holds by name. A name that it lacks is an error that says which file."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, key: str) -> Any:
        raise _useless(self.path, f"it has no {key!r}")

    def values_of(self, key: str) -> Kept:
        """What stands there under a name, itself by name."""
        if not isinstance(self[key], dict):
            raise _useless(self.path, f"its {key!r} are no values by name")
        return Kept(self.path, self[key])


def read_json(path: Path) -> Kept:
    """The values of a JSON file. Raises: FileNotFoundError; ValueError for one that is damaged."""
    try:
        return _object(_text(path), lambda values: Kept(path, values))
    except ValueError as error:
        raise _useless(path, str(error)) from None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a log, a JSON object a line. Raises: as `read_json`."""
    try:
        return [_object(line, dict) for line in _text(path).splitlines()]
    except ValueError as error:
        raise _useless(path, str(error)) from None


def read_table(path: Path, columns: Sequence[str] = ()) -> pd.DataFrame:
    """The table of a parquet file, which has these `columns`. Raises: as `read_json`."""
    if not path.is_file():
        raise FileNotFoundError(f"results: {path} is missing; run the stage that writes it")
    try:
        table = parquet(path)
    except ValueError as error:
        raise _useless(path, str(error)) from None
    if lost := [name for name in columns if name not in table]:
        raise _useless(path, f"it has no column {lost[0]!r}")
    return table


def parquet(path: Path) -> pd.DataFrame:
    """Any parquet file. Raises: ValueError for one that is damaged, or far too large."""
    import pandas as pd
    import pyarrow.parquet

    try:
        claims = pyarrow.parquet.read_metadata(path)
        if claims.num_rows * claims.num_columns <= MOST_VALUES:
            return pd.read_parquet(path)
    except Exception as error:  # of pandas' and pyarrow's, of many kinds
        raise ValueError("it is no whole parquet file") from error
    raise ValueError(f"it claims {claims.num_rows:,} rows of {claims.num_columns:,} columns")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None


def _object(text: str, hook: Callable[[dict[str, Any]], Named]) -> Named:
    try:
        found = json.loads(text, object_hook=hook)
    except (ValueError, RecursionError):  # whose traceback is long
        raise ValueError("it is no JSON") from None
    if not isinstance(found, dict):
        raise ValueError("it holds no values by name")
    return found


def _useless(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"results: {path} is cut short, damaged or was edited ({reason}); delete the folder "
        f"{path.parent}, and run again to make it anew"
    )

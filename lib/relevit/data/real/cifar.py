"""What the readers of CIFAR-10 and CIFAR-100 share: files of records, which are plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

SIDE = 32  # pixels of a picture
PLANES = 3 * SIDE**2  # bytes: its red, green and blue plane, row by row


def read_records(
    name: str, path: Path, names: Path, *, label_bytes: int, column: int, archive: str
) -> tuple[list[str], list[int], UInt8[np.ndarray, "images 3072"]]:
    """Class names, labels and planes of one file; a record has `label_bytes` before its planes.

    `column` is the label to take among these bytes, `names` the file of the classes' names.
    `name` and `archive` are the data set and where it comes from, for errors.
    Raises: ValueError when the file is empty or not made of whole records, or a label has no name.
    """
    classes = names.read_text().split()
    numbers = np.fromfile(path, dtype=np.uint8)
    record = label_bytes + PLANES
    whole = len(numbers) > 0 and len(numbers) % record == 0
    records = numbers.reshape(-1, record) if whole else numbers
    if not whole or records[:, column].max() >= len(classes):
        raise ValueError(
            f"{name}: {path} has {len(numbers)} bytes and {names.name} {len(classes)} "
            f"names; it needs records of {record} bytes and a name for each label: "
            f"unpack {archive} again"
        )
    return classes, records[:, column].tolist(), records[:, label_bytes:]


def need_files(name: str, paths: Sequence[Path]) -> None:
    """Raise FileNotFoundError for the first file that is not there."""
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{name}: file {path} is missing; unpack the archive again")

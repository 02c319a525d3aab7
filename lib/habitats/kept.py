"""Pictures that many processes ask for, drawn once: parts of sets as files of a folder.

The variable FOLDER names it; without, all is drawn anew. A file is named by all that its pictures
follow from: the arguments, the code and drawings of this package, and the versions of what computes
them. It holds a sum of its bytes, so that a damaged one is drawn again. Two that write the same one
write the same bytes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from relevit.base.files import write_atomically

if TYPE_CHECKING:
    from relevit.data.batch import Batch

FOLDER = "HABITATS_IMAGES"  # which the pipeline reads before it loads torch
COMPUTES = ("numpy", "scipy", "torch")
SUM_BYTES = 4


def drawn_once(asked: str, draw: Callable[[], Batch]) -> Batch:
    """What `draw` gives; `asked` says all that it depends on beside this package."""
    if not (folder := os.environ.get(FOLDER)):
        return draw()
    from safetensors.torch import load, save

    from relevit.data.batch import Batch

    name = sha256(f"{_drawn_by()} {asked}".encode()).hexdigest()[:32]
    path = Path(folder, f"{name}.pictures")
    with suppress(FileNotFoundError):
        content = path.read_bytes()
        if content[:SUM_BYTES] == _sum(content[SUM_BYTES:]):
            return Batch(**load(content[SUM_BYTES:]))
    batch = draw()
    content = save({key: tensor.contiguous() for key, tensor in batch.tensors().items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda to: to.write_bytes(_sum(content) + content))
    return batch


def _sum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(SUM_BYTES, "big")


@cache
def _drawn_by() -> str:
    """A digest of what draws."""
    package = Path(__file__).parent
    files = [*package.glob("*.py"), *(package / "assets" / "drawings").rglob("*.png")]
    digest = sha256(" ".join(map(version, COMPUTES)).encode())
    for path in sorted(files):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()

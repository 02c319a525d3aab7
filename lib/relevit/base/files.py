"""Files written whole or not at all, and told apart by their contents."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def write_atomically(path: Path, write) -> None:
    """Let `write(temporary_path)` make the file, then move it to `path` in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def file_fingerprint(path: Path) -> str:
    """First 16 digits of a file's SHA-256, to tell one set of weights from another."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]

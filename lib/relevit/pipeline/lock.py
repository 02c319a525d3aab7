"""One run at a time on the results of a preset: two would write the same files.

The system holds the lock, so that it is free again as soon as its owner has ended in any way. It
is one for each preset, since two presets share no results. Its files are not beside the results
but with Snakemake's notes, whose own lock outlives a run that was killed.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from relevit.base.files import project_root

FOLDER = ".snakemake"


@contextmanager
def held(preset: str) -> Iterator[None]:
    """Hold the lock of a preset while the body runs.

    Raises: RuntimeError, which says who holds it since when; OSError where no file can be made.
    """
    folder = project_root() / FOLDER
    folder.mkdir(exist_ok=True)
    lock = FileLock(folder / f"relevit.{preset}.lock")
    owner = folder / f"relevit.{preset}.owner"
    try:
        lock.acquire(blocking=False)
    except Timeout:
        who = owner.read_text(encoding="utf-8") if owner.is_file() else "another process"
        raise RuntimeError(
            f"pipeline: preset {preset!r} is being run by {who}; "
            "wait until that is done, or end that process first"
        ) from None
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        text = f"process {os.getpid()} on {platform.node()} since {since}"
        owner.write_text(text, encoding="utf-8")
        yield
    finally:
        lock.release()

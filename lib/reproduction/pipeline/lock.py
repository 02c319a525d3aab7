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
from contextlib import contextmanager, suppress

from filelock import FileLock, Timeout

from relevit.base.files import project_root, write_atomically

FOLDER = ".snakemake"
NAMING_S = 2.0  # for an owner to say who it is


@contextmanager
def held(preset: str) -> Iterator[None]:
    """Hold the lock of a preset while the body runs.

    Raises: RuntimeError, which says who holds it since when; OSError where no file can be made.
    """
    folder = project_root() / FOLDER
    folder.mkdir(exist_ok=True)
    lock = FileLock(folder / f"relevit.{preset}.lock")
    owner = folder / f"relevit.{preset}.owner"
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    said = f"process {os.getpid()} on {platform.node()} since {since}"
    try:
        lock.acquire(blocking=False)
    except Timeout:
        until = time.monotonic() + NAMING_S
        while not owner.is_file() and time.monotonic() < until:  # it has just come
            time.sleep(NAMING_S / 100)
        who = "another process"
        with suppress(FileNotFoundError):  # is just leaving
            who = owner.read_text(encoding="utf-8")
        raise RuntimeError(
            f"pipeline: preset {preset!r} is being run by {who}; "
            "wait until that is done, or end that process first"
        ) from None
    try:
        write_atomically(owner, said)
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()

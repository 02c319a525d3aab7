"""How a process with large libraries begins and ends: half of its time, where the work is short.

And how it speaks: what is said may be lost, and the work goes on, for who read it may have left
(`| head`).
"""

from __future__ import annotations

import errno
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal, NoReturn, TextIO

GONE = (errno.EPIPE, errno.EIO, errno.EINVAL)  # of a reader that has left; the last on Windows
_lost: list[OSError] = []


@contextmanager
def loading() -> Iterator[None]:
    """For imports: what modules make stays, and looking for garbage in it takes a fifth longer."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def say(*lines: str, to: Literal["stdout", "stderr"] = "stdout") -> None:
    """Print lines. Once that fails what is printed there goes nowhere, and `lost` tells why."""
    try:
        stream = getattr(sys, to) or _nowhere(to)  # None where it was closed before
        if hasattr(stream, "reconfigure"):  # a terminal may lack letters of a file's name
            stream.reconfigure(errors="backslashreplace")
        stream.write("".join(f"{line}\n" for line in lines))
        stream.flush()
    except OSError as error:
        _lost.append(error)
        _nowhere(to)


def lost() -> str:
    """Why what was said is not where it should be; empty where nobody waits for it."""
    found = [error.strerror for error in _lost if error.errno not in GONE]
    _lost.clear()
    return found[0] if found else ""


def _nowhere(name: str) -> TextIO:
    stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process lasts
    setattr(sys, name, stream)
    return stream


@contextmanager
def with_home() -> Iterator[None]:
    """Lend a home folder to a user without one, as in many containers: libraries keep things there.

    It is gone after the block. A home folder that can only be read stays where it has a cache.
    """
    home = os.path.expanduser("~")
    if os.access(home, os.W_OK) or os.path.isdir(os.path.join(home, ".cache")):
        yield
        return
    os.environ["HOME"] = lent = tempfile.mkdtemp(prefix="relevit-home-")
    try:
        yield
    finally:
        shutil.rmtree(lent, ignore_errors=True)


def leave(code: int) -> NoReturn:
    """End this process at once: to take torch and all apart object by object is a second or two.

    For commands that have closed their files. What waits for `atexit` is not called.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # who read it may have gone
            stream.flush()
    os._exit(code)

"""Bad input, tried: it is used right, or refused soon and in our words."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis

from relevit.data.image_set import UnreadableImage

KINDS = (ValueError, OSError, FileNotFoundError, UnreadableImage)
LONGEST = 2500  # characters of a line; it may list all parameters
SOON_S = 5.0  # of the processor, which a busy machine does not lengthen
RAW = re.compile(
    r"Traceback|'NoneType' object|has no attribute|unhashable|index out of"
    r"|not subscriptable|not iterable|positional argument|codec can't|Expecting value|\[Errno"
)


def many(count: int) -> hypothesis.settings:
    """So many inputs, the same at each run; a failure says how to repeat it."""
    return hypothesis.settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )


def tried(figures: Any, use: Callable[[], Any], *names: str | Path) -> Exception | None:
    """The error that refuses an input, whose every line names these; None where it is used."""
    figures.add("bad inputs tried")
    start = time.process_time()
    try:
        use()
    except Exception as error:
        seconds = time.process_time() - start
        if type(error) not in KINDS:
            raise
        figures.add("bad inputs refused")
        figures.most("worst time of a refused input, s", seconds)
        assert seconds < SOON_S
        for line in str(error).split("\n"):
            assert all(str(name) in line for name in names), line
            assert len(line) < LONGEST and line.isprintable(), line
            assert not RAW.search(line), line
        return error
    return None

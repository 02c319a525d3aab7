"""How errors of other libraries are quoted in our own messages."""

from __future__ import annotations

LONGEST = 200  # characters


def one_line(error: Exception) -> str:
    """The text of an error on one line, cut where it gets long; its type when it has none."""
    return " ".join(str(error).split())[:LONGEST] or type(error).__name__

"""What errors show of a value that may be long, or hold what a screen does not show as it is."""

from __future__ import annotations

LONGEST = 200  # characters of a value that an error shows


def shown(value: object) -> str:
    """A value as Python writes it, cut where it gets long."""
    try:
        return short(repr(value))
    except ValueError:  # of a whole number
        return "(thousands of digits)"


def short(text: str, longest: int = LONGEST) -> str:
    """A text on one line, cut where it gets long."""
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= longest else f"{shown[:longest]}… ({len(text)} characters)"

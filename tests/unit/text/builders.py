"""Texts as tokens, made by hand."""

from __future__ import annotations

from relevit.text.tokens import Tokens


def tokens(*ids: int, ends: tuple[int, int] = (1, 2)) -> Tokens:
    """A text of these token ids between two special ones; of its characters nothing is said."""
    return _between("", ids, ((0, 0),) * len(ids), ends)


def spelled(text: str, *pieces: str) -> Tokens:
    """Tokens of a text, cut where `pieces` say, between two special ones; ids count from 0."""
    offsets, at = [], 0
    for piece in pieces:
        at = text.index(piece, at)
        offsets.append((at, at + len(piece)))
        at += len(piece)
    return _between(text, range(1, len(pieces) + 1), offsets, (0, len(pieces) + 1))


def _between(text, ids, offsets, ends):
    special = (True, *[False] * len(ids), True)
    return Tokens(text, (ends[0], *ids, ends[1]), ((0, 0), *offsets, (0, 0)), special)

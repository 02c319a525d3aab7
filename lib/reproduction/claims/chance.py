"""How many claims would be decided by luck, and which are at a stricter level, too.

A 95 % interval lies wholly above a line that the truth sits on in 2.5 % of studies, and wholly
below it in as many. A claim with several numbers can miss its line by any of them, so that it has
more chances to be contradicted, and fewer to hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pandas as pd

from reproduction.claims.judging import CONTRADICTED, HOLDS, NOT_TESTABLE, SAME, Verdict
from reproduction.claims.numbers import LEVEL, Number

STRICT = 0.99
YES = {True: "yes", False: "no"}


def by_chance(verdicts: Iterable[Verdict], strict: Iterable[Verdict]) -> pd.DataFrame:
    """Of each claim that is judged how likely luck decides it, and whether its verdict stays.

    `strict` are the verdicts by intervals of STRICT. Columns: id; `chance_one` and `chance_each`,
    the probability that a claim comes out as right or wrong though the truth of each number is its
    line, where all move as one, and where each moves by itself; `stays`, of a decided claim.
    """
    rows = [
        (one.id, *_luck(one.parts), YES[one.verdict == other.verdict] if _decided(one) else None)
        for one, other in zip(verdicts, strict, strict=True)
        if one.verdict != NOT_TESTABLE
    ]
    return pd.DataFrame(rows, columns=["id", "chance_one", "chance_each", "stays"])


def _decided(one: Verdict) -> bool:
    return one.verdict in (HOLDS, CONTRADICTED, SAME)


def _luck(parts: Sequence[Number]) -> tuple[float, float]:
    """The probability that these numbers decide, as one and each by itself, at LEVEL.

    A count, which has no interval, is on its side or not whatever the others do. What is taken for
    granted, and is not so, leaves nothing to decide.
    """
    if not parts or any(part.role != "part" for part in parts):
        return 0.0, 0.0
    tail = (1 - LEVEL) / 2
    right = [_right(part, tail) for part in parts]
    wrong = [tail * (part.known and math.isfinite(part.low)) for part in parts]
    each = math.prod(right) + 1 - math.prod(1 - one for one in wrong)
    return min(right) + max(wrong), each


def _right(part: Number, tail: float) -> float:
    """How likely its interval is on its side; nearly always of one that denies a difference."""
    if not part.known:
        return float(part.met)
    if not math.isfinite(part.low):
        return 0.0
    return 1 - tail if part.side.startswith("not ") else tail

"""What would decide a claim that is undecided: more seeds, more images, or nothing here.

A number is decided where its interval no longer contains its line. If it stayed as it is, half of
the interval would shrink with more seeds (Student's t times std / sqrt(n)) and with more images
(by their root). Asked is for the part that is the larger, and for both where one is not enough.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.stats import t

from relevit.claims.evaluator import NO_ROOM, NOT_TESTABLE, NOTHING, UNDECIDED, Part, Verdict

MOST = 100  # seeds, or times the images: beyond that nothing here decides it
FEWEST = 3  # seeds of an interval that is worth something


class Effort(NamedTuple):
    """What it takes to decide a number: seeds in all, and times as many images."""

    seeds: int
    here: int
    images: float

    @property
    def factor(self) -> float:
        """Times the work."""
        return self.images * max(1.0, self.seeds / max(1, self.here))

    def __str__(self) -> str:
        seeds = f"about {self.seeds} seeds (here {self.here})" * (self.seeds > self.here)
        images = f"about {self.images:.{self.images < 10:d}f} times the images"
        return " and ".join(filter(None, (seeds, images * (self.images > 1))))


def decides(verdict: Verdict) -> str:
    """What would decide the claim, in words; `decided` where it is.

    One number on the wrong side is enough to contradict, so that the cheapest counts; where there
    is none, all have to come off their lines.
    """
    if verdict.verdict in (NO_ROOM, NOT_TESTABLE):
        return verdict.needs if verdict.verdict == NOT_TESTABLE else NOTHING
    if verdict.verdict != UNDECIDED:
        return "decided"
    missed = [part for part in verdict.parts if not part.met and not part.against]
    wrong = [part for part in missed if _ahead(part) < 0]
    if stuck := [part for part in wrong if not part.known]:
        wrong = [part for part in wrong if part.known]
        if not wrong:
            return f"{NOTHING}: {stuck[0].name or 'the number'} has no interval"
    alone = [part for part in wrong or missed if part.high == math.inf and not part.std >= 0]
    efforts = [effort(part) for part in wrong or missed if part not in alone]
    if alone and not (wrong and any(efforts)):
        return f"{FEWEST} seeds or more (here {alone[0].runs})"
    known = [one for one in efforts if one and max(one.seeds, one.images) <= MOST]
    if not known or (not wrong and len(known) < len(efforts)):
        return f"{NOTHING}: a number is too near its line"
    if wrong:
        return str(min(known, key=lambda one: one.factor))
    return str(Effort(*map(max, zip(*known, strict=True))))


def effort(part: Part) -> Effort | None:
    """What brings the line out of the interval of a number; None where nothing does."""
    gap = abs(_ahead(part))
    if gap == 0:
        return None
    runs = part.runs if part.std >= 0 else 0
    seeds = _half(part.std, runs) if runs else 0.0
    whole = part.high - part.value
    images = math.sqrt(max(0.0, whole**2 - seeds**2)) if whole < math.inf else 0.0
    other, mostly_seeds = min(seeds, images), seeds >= images
    room = gap if other == 0 else math.sqrt(gap**2 - other**2) if other < gap else 0.0
    both = room == 0.0
    room = room or gap / math.sqrt(2)
    needed, times = runs, 1.0
    if runs and (mostly_seeds or both):
        fits = (n for n in range(runs + 1, MOST + 1) if _half(part.std, n) < room)
        needed = next(fits, MOST + 1)
    if both or not mostly_seeds:
        times = max(1.1, (images / room) ** 2)
    return Effort(needed, runs, times)


def _half(std: float, runs: int) -> float:
    return float(t.ppf(0.975, runs - 1)) * std / math.sqrt(runs) if runs > 1 else math.inf


def _ahead(part: Part) -> float:
    """By how much the number is on the right side of its line; below 0 on the wrong one."""
    if part.side == "within":
        return part.line - abs(part.value)
    sign = -1 if part.side in ("below", "at most", "not above") else 1
    return sign * (part.value - part.line)

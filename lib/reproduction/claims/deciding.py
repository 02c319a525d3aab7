"""What would decide a claim that is undecided: more seeds, more images, or nothing here.

A number is decided where its interval no longer contains its line. If number, spread and error
stayed as they are, the interval (`relevit.evaluate.intervals`) would shrink with more seeds, and
with the root of more images. That the images of all seeds are the same ones is not asked.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from relevit.evaluate.intervals import student
from reproduction.claims.evaluator import NO_ROOM, NOT_TESTABLE, NOTHING, UNDECIDED, Part, Verdict

Z = float(student(math.inf))
DECIDED = "decided"
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
        return DECIDED
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
    """What brings the line out of the interval of a number; None where nothing does.

    More seeds where these are the larger half, or too large alone; images for what is left.
    """
    gap, error = abs(_ahead(part)), 0.0 if math.isnan(part.error) else part.error
    if gap == 0:
        return None
    needed = runs = part.runs if part.std >= 0 else 0
    if runs and _half(part.std, runs) >= min(gap, Z * error):
        room = gap / math.sqrt(2) if Z * error >= gap else math.sqrt(gap**2 - (Z * error) ** 2)
        counts = range(runs + 1, MOST + 1)
        fits = (n for n in counts if _half(part.std, n) < gap and _least(part.std, n) < room)
        needed = next(fits, MOST + 1)
    seeds = _least(part.std, needed) if runs else 0.0
    times = (Z * error) ** 2 / (gap**2 - seeds**2) if seeds < gap else math.inf
    return Effort(needed, runs, max(1.1 if needed == runs else 1.0, times))


def _half(std: float, runs: int) -> float:
    return float(student(runs - 1)) * std / math.sqrt(runs) if runs > 1 else math.inf


def _least(std: float, runs: int) -> float:
    """What seeds add to the interval over images."""
    return Z * std / math.sqrt(runs)


def _ahead(part: Part) -> float:
    """By how much the number is on the right side of its line; below 0 on the wrong one."""
    if part.side == "within":
        return part.line - abs(part.value)
    sign = -1 if part.side in ("below", "at most", "not above") else 1
    return sign * (part.value - part.line)

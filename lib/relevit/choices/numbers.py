"""Ranges and kinds of values that parameters share.

`Count[8]` are whole numbers from 8 on, `Count[2, 20]` those up to 20, `Count[40, 400, 40]` those of
them that are multiples of 40, and `Some[Rate]` is a list with something in it. Upper ends are far
above what a run can take: a slip of the pen is seen before the work.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

from pydantic import AfterValidator, Field

MOST = 10_000_000  # images, texts, draws


class Count:
    """Whole numbers `[low]`, `[low, high]` or `[low, high, multiple_of]`, both ends included."""

    def __class_getitem__(cls, ends: int | tuple[int, ...]) -> Any:
        low, *others = ends if isinstance(ends, tuple) else (ends,)
        high, step = (*others, None, None)[:2]
        return Annotated[int, Field(ge=low, le=high or MOST, multiple_of=step)]


class Some:
    """A list of such values, of which there is at least one."""

    def __class_getitem__(cls, kind: Any) -> Any:
        return Annotated[list[kind], Field(min_length=1)]


Epochs = Count[1, 10_000]
Seed = Count[0, 2**31 - 1]
Rate = Annotated[float, Field(gt=0, le=1)]  # of learning
Share = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(ge=0, lt=1)]  # of a whole, which is never all of it
Percent = Annotated[float, Field(gt=0, lt=100)]
Points = Annotated[float, Field(ge=0, le=100)]
Weight = Annotated[float, Field(ge=0, le=100)]  # of a loss
Factor = Annotated[float, Field(gt=0, le=1000)]
Temperature = Annotated[float, Field(gt=0, le=100)]
Cosine = Annotated[float, Field(gt=-1, lt=1)]
PathText = Annotated[str, AfterValidator(os.path.expanduser)]  # ~ is the home folder

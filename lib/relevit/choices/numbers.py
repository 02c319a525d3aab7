"""Ranges and kinds of values that parameters share.

Those without a lower end are for parameters with one each, in their own `Field`: of two such
bounds pydantic would keep the one that stands here.
"""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import AfterValidator, Field

# Upper ends are far above what a run can take: a slip of the pen is seen before the work.
Count = Annotated[int, Field(le=10_000_000)]  # images, texts, draws
Positive = Annotated[Count, Field(ge=1)]
Size = Annotated[int, Field(le=16_384)]  # pixels of a side, tokens of a text, numbers of a vector
Epochs = Annotated[int, Field(le=10_000)]
BatchSize = Annotated[int, Field(le=65_536)]
Rate = Annotated[float, Field(gt=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=100)]
PathText = Annotated[str, AfterValidator(os.path.expanduser)]  # ~ is the home folder

"""Values that are checked when they are given, and the texts of their errors."""

from __future__ import annotations

from collections import Counter
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from pydantic_core import ErrorDetails

from relevit.choices.messages import short, shown

MOST_PROBLEMS = 20  # of one file that an error shows
LONGEST_REASON = 1000  # characters: it may list what is allowed


class Checked(BaseModel):
    """Values of one section of a parameter file, none of them unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def checked(cls, values: dict[str, Any], where: str) -> Self:
        """Validate; every problem becomes one line of a ValueError that starts with `where`."""
        try:
            return cls(**values)
        except ValidationError as error:
            found = error.errors()
            lines = [_problem(cls, detail) for detail in found[:MOST_PROBLEMS]]
            if len(found) > MOST_PROBLEMS:
                lines.append(f"and {len(found) - MOST_PROBLEMS} more such")
            raise ValueError("\n".join(f"{where}: {line}" for line in lines)) from None

    @field_validator("*")
    @classmethod
    def _once(cls, value: Any) -> Any:
        """What a list says twice would be made, or counted, twice; but grids may overlap."""
        if isinstance(value, list):
            times = Counter(repr(each) for each in value if not isinstance(each, BaseModel))
            if twice := [each for each in times if times[each] > 1]:
                raise ValueError(f"{short(twice[0])} occurs twice; give each once")
        return value


def _problem(cls: type[Checked], detail: ErrorDetails) -> str:
    key = short(".".join(str(part) for part in detail["loc"]))
    value, about = detail["input"], cls.model_fields.get(str(detail["loc"][0]))
    inner = about.annotation if about else None
    if isinstance(inner, type) and issubclass(inner, Checked) and len(detail["loc"]) > 1:
        cls, about = inner, inner.model_fields.get(str(detail["loc"][1]))
    if detail["type"] == "extra_forbidden":
        allowed = ", ".join(cls.model_fields)
        return f"{key} = {shown(value)} is no parameter; allowed are {allowed}"
    reason = short(detail["msg"].lower(), LONGEST_REASON)
    line = f"{key} = {shown(value)} ({type(value).__name__}): {reason}"
    if about is not None and about.description:
        line += f" [{about.description}]"
    if isinstance(value, str) and _is_number(value) and "number" in detail["msg"]:
        line += f"; YAML reads {short(value)} as text: write it with a dot, like 3.0e-6"
    if isinstance(value, bool) and "string" in detail["msg"]:
        line += "; YAML reads no and yes as false and true: put them into quotes"
    return line


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

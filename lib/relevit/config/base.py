"""What the parameters of all notebooks share: types, checks and the texts of their errors."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from relevit.config.words import AnyModelName


def _all_different(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("a seed occurs twice; give each run its own")
    return seeds


Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
AnySeeds = Annotated[list[Seed], AfterValidator(_all_different)]
Seeds = Annotated[AnySeeds, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
INJECTED = "# Parameters"  # how papermill's injected cell begins


class Checked(BaseModel):
    """Values of one parameter file, none of them unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a YAML file of `params/`. Raises: ValueError, FileNotFoundError."""
        if not path.is_file():
            raise FileNotFoundError(f"params: {path} is missing; copy it from params/quick")
        try:
            values = yaml.safe_load(path.read_text()) or {}
        except yaml.YAMLError as error:
            raise ValueError(f"{path}: no valid YAML: {error}") from error
        if not isinstance(values, dict):
            raise ValueError(f"{path}: needs `name: value` lines, has {type(values).__name__}")
        return cls.checked(values, str(path))

    @classmethod
    def checked(cls, values: dict[str, Any], where: str) -> Self:
        """Validate; every problem becomes one line of a ValueError that starts with `where`."""
        try:
            return cls(**values)
        except ValidationError as error:
            lines = [_problem(cls, detail) for detail in error.errors()]
            raise ValueError("\n".join(f"{where}: {line}" for line in lines)) from None


class Params(Checked):
    """What every notebook has. Subclasses add their own parameters, defaults as in `quick`."""

    notebook: ClassVar[str] = ""

    preset: Name = Field("quick", description="folder below params/ and outputs/")
    model: AnyModelName = Field("tiny", description="model of the preset")
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="auto, cpu, cuda, cuda:N or mps",
    )
    output_root: str = Field("outputs", description="folder for results, below the project")

    @classmethod
    def from_notebook(cls, namespace: dict[str, Any]) -> Self:
        """Build from a notebook's variables: `cfg = StartParams.from_notebook(globals())`.

        Takes the variables named like a parameter, and whatever papermill injected, so that
        a misspelt `-p` is an error instead of being ignored.
        Raises: ValueError naming each bad parameter, its value and what is allowed.
        """
        given = {key: namespace[key] for key in cls.model_fields if key in namespace}
        injected = _injected_names(namespace.get("In", []))
        return cls.checked(
            given | {key: namespace.get(key) for key in injected}, f"{cls.notebook} parameters"
        )


def _injected_names(history: list[str]) -> list[str]:
    """Variables set by papermill's injected cell, which is the first to start so."""
    for source in history:
        if source.startswith(INJECTED):
            tree = ast.parse(source)
            return [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
    return []


def _problem(cls: type[Checked], detail: ErrorDetails) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    value = detail["input"]
    if detail["type"] == "extra_forbidden":
        return f"{key} = {value!r} is no parameter; allowed are {', '.join(cls.model_fields)}"
    line = f"{key} = {value!r} ({type(value).__name__}): {detail['msg'].lower()}"
    about = cls.model_fields.get(str(detail["loc"][0]))
    if about is not None and about.description:
        line += f" [{about.description}]"
    if isinstance(value, str) and _is_number(value) and "number" in detail["msg"]:
        line += f"; YAML reads {value} as text: write it with a dot, like 3.0e-6"
    return line


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

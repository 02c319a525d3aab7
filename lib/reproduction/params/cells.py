"""A notebook's parameters are its own cell: name, type, default and, as a comment, the meaning.

papermill reads the same lines (`papermill --help-notebook`). What is allowed is in the type; of a
parameter that the library's own record has (BASES), and of those that all notebooks have, it is
said there, and the cell has a plain type, or leaves the parameter to that record. A preset,
`params/<preset>.yaml`, holds what differs. Nothing heavy is imported, so that a wrong parameter is
reported within seconds.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_type_hints

from pydantic import ConfigDict, Field, ValidationInfo, create_model, field_validator

from relevit.base.files import project_root
from relevit.choices.checked import Checked
from relevit.choices.finetuning import FinetuneChoices
from relevit.choices.messages import short, shown
from relevit.choices.numbers import PathText
from relevit.choices.words import AnyModelName
from reproduction.params.common import Benchmark, Common
from reproduction.params.order import NOTEBOOKS, notebook_file
from reproduction.params.relations import RELATIONS
from reproduction.params.words import Device, Name
from reproduction.params.yaml_files import changed_at, yaml_values

INJECTED = "# Parameters"  # how papermill's injected cell begins
BASES: dict[str, type[Checked]] = {"02_finetune": FinetuneChoices}
# A row of the table of runs has the parameters of its notebook but for these.
FINETUNED, CLASSIFIED = "02_finetune/run", "08_iav/run"
ALONE = {
    FINETUNED: {"rates", "limit_pts", "rate_images", "shown"},
    CLASSIFIED: {"models", "model_seeds", "images", "reference", "draws", "shown"},
}


class WrongParameterError(ValueError):
    """A notebook's parameter that is none or out of range: a notebook shows the sentence alone."""

    def _render_traceback_(self) -> list[str]:  # what IPython asks for
        return [f"ValueError: {self}"]


class Params(Checked):
    """What every notebook has; `params_of` adds the rest of its cell, and all defaults."""

    model_config = ConfigDict(validate_default=True)
    notebook: ClassVar[str] = ""

    preset: Name
    model: AnyModelName
    benchmark: Benchmark
    device: Device
    output_root: PathText

    @field_validator("*")
    @classmethod
    def _goes_with_the_others(cls, value: Any, info: ValidationInfo) -> Any:
        if check := RELATIONS.get((cls.notebook, str(info.field_name))):
            check(value, info.data)
        return value

    @property
    def run(self) -> Any:
        """The run that these parameters ask for, without those of the notebook alone."""
        own = params_of(f"{self.notebook}/run")
        return own(**self.model_dump(include=set(own.model_fields)))

    @classmethod
    def from_preset(cls, path: Path) -> Self:
        """The parameters that the pipeline gives to this stage. Raises: as `values_of_preset`."""
        return _of_preset(cls, path, changed_at(path))

    @classmethod
    def values_of_preset(cls, path: Path) -> dict[str, Any]:
        """What a preset's file says of this stage. Raises: as `values_of`."""
        alone = {*params_of(cls.notebook).model_fields} - {*cls.model_fields}
        values = values_of(cls.notebook, path, cls.model_fields)
        return {key: value for key, value in values.items() if key not in alone}


def params_of(name: str) -> type[Params]:
    """The parameters of a notebook; FINETUNED and CLASSIFIED are those of a run alone.

    Raises: FileNotFoundError outside the project.
    """
    notebook = name.partition("/")[0]
    return _params_of(name, notebook, (project_root() / notebook_file(notebook)).resolve())


@lru_cache
def _params_of(name: str, notebook: str, path: Path) -> type[Params]:
    bases = (BASES[notebook], Params) if notebook in BASES else (Params,)
    known: dict[str, Any] = {}
    for base in bases:
        known |= get_type_hints(base, include_extras=True)
    fields: dict[str, Any] = {
        key: (Annotated[known.get(key, allowed), Field(description=about)], default)
        for key, (allowed, default, about) in cell(path).items()
        if key not in ALONE.get(name, ())
    }
    made = create_model(name, __base__=bases, __module__=__name__, **fields)
    made.notebook = notebook
    return made


def cell(path: Path) -> dict[str, tuple[Any, Any, str]]:
    """Of each parameter its type, its default and what it is, from a notebook's file."""
    source = next(each for each, tags in _cells(path) if "parameters" in tags)
    values: dict[str, Any] = {}
    exec(compile(source, path.name, "exec", dont_inherit=True), values)
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.AnnAssign)]
    ends = {ast.unparse(node.target): node.end_lineno or 0 for node in nodes}
    comments = [line.rpartition("  # ")[2] for line in source.splitlines()]
    types = values["__annotations__"]
    return {name: (types[name], values[name], comments[end - 1]) for name, end in ends.items()}


def title(notebook: str) -> str:
    """A notebook's title, without its number."""
    first, _ = _cells(project_root() / notebook_file(notebook))[0]
    return first.splitlines()[0].partition(" · ")[2]


def digest(notebook: str) -> str:
    """Of a notebook's code, from which its outputs follow, and of its cells' names, by which these
    are stored; not of its prose and stored outputs."""
    cells = _read(project_root() / notebook_file(notebook))
    code = [
        (each.get("id"), "".join(each["source"])) for each in cells if each["cell_type"] == "code"
    ]
    return hashlib.blake2b(json.dumps(code).encode(), digest_size=16).hexdigest()


def _cells(path: Path) -> list[tuple[str, list[str]]]:
    return [("".join(each["source"]), each["metadata"].get("tags", [])) for each in _read(path)]


def _read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def take(notebook: str, namespace: dict[str, Any]) -> Params:
    """The parameters of the notebook that runs: `cfg = take("00_start", globals())`.

    Takes the variables named like a parameter, and whatever papermill injected, so that
    a misspelt `-p` is an error instead of being ignored.
    Raises: WrongParameterError naming each bad one, its value and what is allowed.
    """
    of = params_of(notebook)
    given = {key: namespace[key] for key in of.model_fields if key in namespace}
    given |= {key: namespace.get(key) for key in _injected_names(namespace.get("In", []))}
    try:
        return of.checked(given, f"{notebook} parameters")
    except ValueError as error:
        raise WrongParameterError(str(error)) from None


def _injected_names(history: list[str]) -> list[str]:
    """Variables set by papermill's injected cell, which is the first to start so."""
    for source in history:
        if source.startswith(INJECTED):
            tree = ast.parse(source)
            return [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
    return []


def values_of(section: str, path: Path, fields: Collection[str]) -> dict[str, Any]:
    """What a preset's file says of these parameters: the shared values, then the section's own.

    Raises: ValueError for a file that is none, for a wrong value in what is shared, and for a
    shared parameter in the section; FileNotFoundError.
    """
    sections = _sections(path, changed_at(path))
    own, shared = sections.get(section, {}), sections.get("common", {})
    for key in own.keys() & {"preset", *Common.model_fields}:
        raise ValueError(
            f"{path}: {section}: {key} = {short(repr(own[key]))} belongs to common, which says it "
            "once for all stages: take it out here, or change it there"
        )
    return {"preset": path.stem} | {k: v for k, v in shared.items() if k in fields} | own


def preset_sections(path: Path) -> dict[str, dict[str, Any]]:
    """A preset's file, section by section. Raises: ValueError, FileNotFoundError."""
    sections, known = yaml_values(path), ["common", "pipeline", *NOTEBOOKS]
    for name, values in sections.items():
        if name not in known:
            raise ValueError(f"{path}: section {shown(name)} is none; use some of {known}")
        if not isinstance(values, dict):
            wrong = type(values).__name__
            raise ValueError(f"{path}: {name} needs `name: value` lines below it, has {wrong}")
    return sections


# Each is checked once, until its file changes: every run of a preset asks for them again. They are
# frozen, and nobody may change the values.


@lru_cache
def _sections(path: Path, changed: int) -> dict[str, dict[str, Any]]:
    sections = preset_sections(path)
    Common.checked(sections.get("common", {}), f"{path}: common")
    return sections


@lru_cache
def _of_preset(cls: type[Params], path: Path, changed: int) -> Any:
    return cls.checked(cls.values_of_preset(path), f"{path}: {cls.notebook}")

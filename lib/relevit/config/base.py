"""What the parameters of all notebooks share: types, checks and the texts of their errors."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from relevit.config.messages import short, shown
from relevit.config.words import (
    IMAGENET,
    AnyModelName,
    Corrupted,
    DataName,
    PaperModelName,
    Preprocessing,
    Protocol,
)
from relevit.config.yaml_files import yaml_values

Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Seeds = Annotated[list[Seed], Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=100)]
INJECTED = "# Parameters"  # how papermill's injected cell begins
MOST_PROBLEMS = 20  # of one file that an error shows
LONGEST_REASON = 1000  # characters: it may list what is allowed


class Checked(BaseModel):
    """Values of one parameter file, none of them unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """Read a YAML file of `params/`. Raises: ValueError, FileNotFoundError."""
        return cls.checked(yaml_values(Path(path)), str(path))

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


class BenchmarkParams(Checked):
    """The images of all stages of a preset (`relevit.data.benchmark`)."""

    data: DataName = Field("habitats", description="drawn here, or the papers' sets from disk")
    home_share: float = Field(
        0.95, ge=0, le=1, description="of habitats: how often a class is at home in training"
    )
    opacity: float = Field(
        0.2, gt=0, le=1, description="of habitats: the lowest of animals in training"
    )
    classes: Literal["animals", "objects"] = Field("animals", description="of habitats")
    data_root: str = Field(
        "", validate_default=True, description="folder with the real sets, for imagenet"
    )
    preprocessing: Preprocessing = Field(
        "published", description="of real pictures: the papers' code (B5), or a model's own"
    )
    view_of: PaperModelName | None = Field(
        None,
        validate_default=True,
        description="with timm: model whose resizing and cropping all models of the preset share",
    )
    ways: Literal[200, 1000] = Field(1000, description="classes that answer -A and -R (B6)")
    objectnet: Protocol = Field(
        "published", description="first label and whole picture, or any label without border (B7)"
    )
    corrupted: Corrupted = Field(
        "error", description="what a picture that cannot be read does to an evaluation"
    )
    segmentation_set: Literal["imagenet_s", "gtsegs"] = Field(
        "gtsegs",
        description="pictures with masks that maps are tested on: the papers' own, or "
        "ImageNet-S validation",
    )
    finetuned_classes: int = Field(500, ge=2, le=913, description="classes of ImageNet-S in A")

    @property
    def learned(self) -> str:
        """The name in SHIPPED under which models come with the package that learned from these.

        Raises: ValueError for worlds of Habitats that none of them has seen.
        """
        fields = type(self).model_fields
        own = {key: fields[key].default for key in ("home_share", "opacity", "classes")}
        if self.data == "habitats" and own != {key: getattr(self, key) for key in own}:
            seen = ", ".join(f"{key} {value}" for key, value in own.items())
            raise ValueError(
                f"the shipped models have learned from Habitats with {seen}; give these, or let "
                "00_original train the preset's model (source: train) and name no other"
            )
        return self.data

    @field_validator("data_root")
    @classmethod
    def _is_given(cls, data_root: str, info: ValidationInfo) -> str:
        if info.data.get("data") == IMAGENET and not data_root:
            raise ValueError(
                f"data {IMAGENET!r} without data_root; give the folder that holds the sets, see "
                "docs/paper_preset.md, or data: cutouts or habitats, which need none"
            )
        return data_root

    @field_validator("view_of")
    @classmethod
    def _is_known(cls, model: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("preprocessing") == "timm" and model is None:
            raise ValueError("preprocessing timm without it; give the preset's own model")
        return model


class Common(Checked):
    """What all stages of a preset share: `params/<preset>/common.yaml`, read before their own."""

    notebook: ClassVar[str] = "common"  # name of the parameter file

    preset: Name = Field("quick", description="folder below params/ and outputs/")
    model: AnyModelName = Field("dinov2-s8", description="model of the preset")
    benchmark: BenchmarkParams = Field(BenchmarkParams(), description="images of all stages")

    @classmethod
    def from_preset(cls, folder: Path | str) -> Self:
        """Read a preset's files as the pipeline gives them to this stage.

        Raises: ValueError, FileNotFoundError.
        """
        folder = Path(folder)
        return cls.checked(cls.values_of_preset(folder), str(folder / f"{cls.notebook}.yaml"))

    @classmethod
    def values_of_preset(cls, folder: Path) -> dict[str, Any]:
        """The values of the stage's own file and of the shared ones, as `papermill -f` adds them.

        Raises: ValueError for a file that is none, for a wrong value in a shared one, and for a
        shared parameter in the stage's own; FileNotFoundError.
        """
        shared, values = [Common, *([PresetSeeds] if "seeds" in cls.model_fields else [])], {}
        path = folder / f"{cls.notebook}.yaml"
        own = yaml_values(path)
        for kind in shared:
            file = folder / f"{kind.notebook}.yaml"
            for key in own.keys() & kind.model_fields.keys():
                value = short(repr(own[key]))
                raise ValueError(
                    f"{path}: {key} = {value} belongs to {file.name}, which says it once for all "
                    f"stages of {folder.name}: take it out here, or change it there"
                )
            values |= kind.from_file(file).model_dump(exclude_unset=True)
        return values | own


class PresetSeeds(Checked):
    """The preset's own finetuning runs: `params/<preset>/seeds.yaml`, for stages that read them.

    Not in `common.yaml`, so that one more seed makes again what reads the runs and nothing else.
    """

    notebook: ClassVar[str] = "seeds"

    seeds: Seeds


class Params(Common):
    """What every notebook has. Subclasses add their own parameters, defaults as in `quick`."""

    notebook: ClassVar[str] = ""

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

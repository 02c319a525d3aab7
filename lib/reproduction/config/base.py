"""What the parameters of all notebooks share: the preset's model, images and files."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, field_validator

from relevit.choices.checked import Checked, Seed
from relevit.choices.messages import short, shown
from relevit.choices.numbers import Count, PathText
from relevit.choices.words import (
    IMAGENET,
    AnyModelName,
    Corrupted,
    DataName,
    PaperModelName,
    Preprocessing,
    Protocol,
)
from reproduction.config.yaml_files import changed_at, yaml_values

Seeds = Annotated[list[Seed], Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=100)]
INJECTED = "# Parameters"  # how papermill's injected cell begins


class BenchmarkParams(Checked):
    """The images of all stages of a preset (`habitats.benchmark`)."""

    data: DataName = Field("habitats", description="drawn here, or sets from disk")
    home_share: float = Field(
        0.95, ge=0, le=1, description="of habitats: how often a class is at home in training"
    )
    opacity: float = Field(
        0.2, gt=0, le=1, description="of habitats: the lowest of animals in training"
    )
    classes: Literal["animals", "objects"] = Field("animals", description="of habitats")
    original_images: Count | None = Field(
        None,
        ge=40,
        multiple_of=40,
        description="that the original of a world of its own learns from; None: as in 00_start",
    )
    data_root: PathText = Field("", validate_default=True, description="folder with the real sets")
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
                "00_start train the preset's model (source: train) and name no other"
            )
        return self.data

    @field_validator("data_root")
    @classmethod
    def _is_given(cls, data_root: str, info: ValidationInfo) -> str:
        if info.data.get("data") == IMAGENET and not data_root:
            raise ValueError(
                f"data {IMAGENET!r} without data_root; give the folder that holds the sets, see "
                "docs/paper_preset.md, or data: habitats, which needs none"
            )
        return data_root

    @field_validator("view_of")
    @classmethod
    def _is_known(cls, model: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("preprocessing") == "timm" and model is None:
            raise ValueError("preprocessing timm without it; give the preset's own model")
        return model


Stage = TypeVar("Stage", bound="Common")


class Common(Checked):
    """What all stages of a preset share: the section `common` of `params/<preset>.yaml`."""

    notebook: ClassVar[str] = "common"  # name of the section

    preset: Name = Field("quick", description="file in params/, without .yaml, and results folder")
    model: AnyModelName = Field("dinov2-s8", description="model of the preset")
    benchmark: BenchmarkParams = Field(BenchmarkParams(), description="images of all stages")

    @classmethod
    def from_preset(cls, path: Path) -> Self:
        """The parameters that the pipeline gives to this stage. Raises as `values_of_preset`."""
        return _of_preset(cls, path, changed_at(path))

    @classmethod
    def values_of_preset(cls, path: Path) -> dict[str, Any]:
        """What a preset's file says of this stage: the shared values, then those of its section.

        Raises: ValueError for a file that is none, for a wrong value in what is shared, and for a
        shared parameter in the stage's own section; FileNotFoundError.
        """
        sections = _sections(path, changed_at(path))
        own, shared = sections.get(cls.notebook, {}), sections.get(Common.notebook, {})
        for key in own.keys() & Shared.model_fields.keys() if cls is not Common else ():
            raise ValueError(
                f"{path}: {cls.notebook}: {key} = {short(repr(own[key]))} belongs to "
                f"{Common.notebook}, which says it once for all stages: take it out here, or "
                "change it there"
            )
        values = {key: value for key, value in shared.items() if key in cls.model_fields}
        return {"preset": path.stem} | values | own


class Shared(Common):
    """The section `common`: the seeds of the preset's own finetuning runs belong to it, too."""

    seeds: Seeds = Field([0, 1])

    @field_validator("preset")
    @classmethod
    def _is_the_name_of_the_file(cls, preset: str) -> str:
        raise ValueError("a preset is called as its file is: take it out")


def preset_sections(path: Path) -> dict[str, dict[str, Any]]:
    """A preset's file, section by section. Raises: ValueError, FileNotFoundError."""
    sections = yaml_values(path)
    known = dict.fromkeys(cls.notebook for cls in [Common, *_kinds(Common)] if cls.notebook)
    for name, values in sections.items():
        if name not in known:
            raise ValueError(f"{path}: section {shown(name)} is none; use some of {list(known)}")
        if not isinstance(values, dict):
            kind = type(values).__name__
            raise ValueError(f"{path}: {name} needs `name: value` lines below it, has {kind}")
    return sections


# Each is checked once, until its file changes: every run of a preset asks for them again. They are
# frozen, and nobody may change the values.


@lru_cache
def _sections(path: Path, changed: int) -> dict[str, dict[str, Any]]:
    sections = preset_sections(path)
    Shared.checked(sections.get(Common.notebook, {}), f"{path}: {Common.notebook}")
    return sections


@lru_cache
def _of_preset(cls: type[Stage], path: Path, changed: int) -> Stage:
    return cls.checked(cls.values_of_preset(path), f"{path}: {cls.notebook}")


def _kinds(cls: type[Common]) -> list[type[Common]]:
    return [each for sub in cls.__subclasses__() for each in (sub, *_kinds(sub))]


class WrongParameterError(ValueError):
    """A notebook's parameter that is none or out of range: a notebook shows the sentence alone."""

    def _render_traceback_(self) -> list[str]:  # what IPython asks for
        return [f"ValueError: {self}"]


class Params(Common):
    """What every notebook has. Subclasses add their own parameters, defaults as in `quick`."""

    notebook: ClassVar[str] = ""

    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="auto, cpu, cuda, cuda:N or mps",
    )
    output_root: PathText = Field("outputs", description="folder for results, below the project")

    @classmethod
    def values_of_preset(cls, path: Path) -> dict[str, Any]:
        """As of every section; that of a run has its notebook's own parameters beside the run's."""
        values = super().values_of_preset(path)
        others = {key for sub in cls.__subclasses__() for key in sub.model_fields}
        return {k: v for k, v in values.items() if k in cls.model_fields or k not in others}

    @classmethod
    def from_notebook(cls, namespace: dict[str, Any]) -> Self:
        """Build from a notebook's variables: `cfg = StartParams.from_notebook(globals())`.

        Takes the variables named like a parameter, and whatever papermill injected, so that
        a misspelt `-p` is an error instead of being ignored.
        Raises: WrongParameterError naming each bad one, its value and what is allowed.
        """
        given = {key: namespace[key] for key in cls.model_fields if key in namespace}
        injected = _injected_names(namespace.get("In", []))
        given |= {key: namespace.get(key) for key in injected}
        try:
            return cls.checked(given, f"{cls.notebook} parameters")
        except ValueError as error:
            raise WrongParameterError(str(error)) from None


def _injected_names(history: list[str]) -> list[str]:
    """Variables set by papermill's injected cell, which is the first to start so."""
    for source in history:
        if source.startswith(INJECTED):
            tree = ast.parse(source)
            return [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
    return []

"""Parameters of the notebooks: one frozen model each, checked before any work starts.

This module imports nothing heavy, so that a wrong parameter is reported within seconds.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails


def _all_different(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("a seed occurs twice; give each run its own")
    return seeds


Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Seeds = Annotated[list[Seed], Field(min_length=1), AfterValidator(_all_different)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
ModelName = Literal["dinov2-s", "tiny", "tiny-mae"]
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
    model: ModelName = Field("tiny", description="model of the embedded benchmark")
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
            given | {key: namespace.get(key) for key in injected},
            f"{cls.notebook} parameters",
        )


class OriginalParams(Params):
    """00_original: the model before relevance finetuning."""

    notebook: ClassVar[str] = "00_original"

    source: Literal["shipped", "train"] = Field("shipped", description="where weights come from")
    images: int = Field(3200, ge=40, multiple_of=40, description="training images")
    epochs: int = Field(1, ge=1)
    batch_size: int = Field(32, ge=1, description="images")
    lr: float = Field(5.0e-5, gt=0, le=1, description="peak learning rate of the backbone")
    head_lr: float = Field(1.0e-3, gt=0, le=1, description="peak learning rate of the head")
    weight_decay: float = Field(0.05, ge=0, le=1)
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    seed: Seed = 0


class StartParams(Params):
    """00_start: the data, the model, where it looks and where it errs."""

    notebook: ClassVar[str] = "00_start"

    images_per_set: int = Field(80, ge=40, description="images looked at in each set")
    shown: int = Field(8, ge=2, le=20, description="images in a gallery row")
    seed: Seed = 0


class FinetuneParams(Params):
    """02_finetune: relevance finetuning, one run."""

    notebook: ClassVar[str] = "02_finetune"

    run: str = Field("", pattern=r"^[a-z0-9_.-]*$", description="results folder; empty: seed<N>")
    seed: Seed = Field(0, description="draws classes A, images, order and augmentation")
    images_per_class: int = Field(4, ge=1, description="of each of the 20 classes A")
    epochs: int = Field(3, ge=1)
    batch_size: int = Field(8, ge=1, description="images")
    lr: float | None = Field(
        None, gt=0, le=1, description="learning rate of the first epoch; None: by the rule"
    )
    protocol: Literal["published", "described"] = "published"
    target: Literal["label", "predicted"] = Field("label", description="class to explain (A5)")
    temperature: float = Field(1.0, gt=0, le=100, description="of the class term (A8)")
    weight_decay: float = Field(1.0e-4, ge=0, le=1)
    keep: Literal["last", "lowest_validation_loss"] = Field(
        "lowest_validation_loss", description="epoch whose weights are used (A13)"
    )
    weight_relevance: float = Field(0.8, ge=0)
    weight_classification: float = Field(0.2, ge=0)
    weight_background: float = Field(2.0, ge=0)
    weight_foreground: float = Field(0.3, ge=0)
    validation_images: int = Field(80, ge=40, description="for top-1 after each epoch")
    validation_maps: int = Field(40, ge=8, description="for the losses after each epoch")
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    shown: int = Field(8, ge=2, le=20, description="images in a gallery row")

    @property
    def run_name(self) -> str:
        return self.run or f"seed{self.seed}"


class LearningRateParams(Params):
    """02_learning_rate: the paper's rule for the learning rate, on validation images alone."""

    notebook: ClassVar[str] = "02_learning_rate"

    rates: list[Annotated[float, Field(gt=0, le=1)]] = Field(
        [5.0e-6, 2.0e-5, 5.0e-5], min_length=1, description="learning rates to try"
    )
    limit_pts: float = Field(1.0, ge=0, le=100, description="largest loss of validation top-1")
    seed: Seed = 0


class RobustnessParams(Params):
    """03_robustness: the nine columns, original against finetuned."""

    notebook: ClassVar[str] = "03_robustness"

    seeds: Seeds = Field([0, 1], description="finetuning runs to compare")
    images_per_set: int = Field(200, ge=40, description="test images of each set")
    precision: Literal["auto", "float32", "bfloat16"] = "auto"


class SegmentationParams(Params):
    """04_segmentation: how well relevance maps outline the object."""

    notebook: ClassVar[str] = "04_segmentation"

    seeds: Seeds = Field([0, 1], description="finetuning runs to compare")
    finetuned_images: int = Field(40, ge=10, description="val images, before and after finetuning")
    method_models: list[ModelName] = Field(
        ["tiny", "tiny-mae"], min_length=1, description="shipped models that compare all methods"
    )
    images: int = Field(12, ge=10, description="val images of the first method model")
    other_images: int = Field(12, ge=10, description="of the other models, the original included")
    protocol: Literal["published", "described"] = "published"


class AttributionParams(Params):
    """05_attribution: the methods side by side, and what they are made of."""

    notebook: ClassVar[str] = "05_attribution"

    method_model: ModelName = Field("tiny", description="shipped model of the tables")
    images: int = Field(12, ge=10, description="val images of the ablation")
    pairs: int = Field(10, ge=10, description="images with two objects")
    approximated: int = Field(12, ge=10, description="images of the approximation test")
    protocol: Literal["published", "described"] = "published"
    shown: int = Field(6, ge=2, le=10, description="images in a gallery row")
    seed: Seed = 0


class FaithfulnessParams(Params):
    """06_faithfulness: the perturbation test."""

    notebook: ClassVar[str] = "06_faithfulness"

    seeds: Seeds = Field([0, 1], description="finetuning runs to compare")
    images: int = Field(12, ge=10, description="val images for all methods")
    finetuned_images: int = Field(40, ge=10, description="val images, before and after finetuning")
    unit: Literal["pixel", "token"] = Field("pixel", description="what is erased (E5)")
    fill: Literal["black", "mean"] = Field("black", description="colour of what is erased (E7)")
    protocol: Literal["published", "described"] = "published"


class ReportParams(Params):
    """99_report: everything on one page."""

    notebook: ClassVar[str] = "99_report"

    seeds: Seeds = Field([0, 1], description="finetuning runs to report")


NOTEBOOKS: dict[str, type[Params]] = {
    cls.notebook: cls
    for cls in (
        OriginalParams,
        StartParams,
        LearningRateParams,
        FinetuneParams,
        RobustnessParams,
        SegmentationParams,
        AttributionParams,
        FaithfulnessParams,
        ReportParams,
    )
}


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

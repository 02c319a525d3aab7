"""Parameters of the notebook on IAV, and of its appendix."""

from __future__ import annotations

from itertools import product
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from relevit.choices.numbers import BatchSize, Count, Epochs, PathText, Positive, Rate
from relevit.choices.words import HUB, LABELS, AnyModelName, HubName, MiniName, PrecisionChoice
from reproduction.config.base import Params, Seed, Seeds


def _comparable(models: list[str]) -> list[str]:
    if 0 < len(set(models) & set(HUB)) < len(models):
        raise ValueError("mini models and ViT-B have other sizes; name models of one size")
    return models


Names = Annotated[list[MiniName | HubName], Field(min_length=1), AfterValidator(_comparable)]
MINIS: list[str] = ["mini-supervised", "mini-deit", "mini-mae", "mini-dino"]


class ClassifierParams(Params):
    """One of the models that IAV compares, finetuned on labels: a row of the preset's table."""

    notebook: ClassVar[str] = "08_iav"

    model: AnyModelName | HubName = Field("mini-dino", description="pretrained, that is finetuned")
    data: Literal["cutouts", "cifar10"] = Field("cutouts", description="what they are finetuned on")
    data_root: PathText = Field(
        "", validate_default=True, description="folder that holds cifar-10-batches-py"
    )
    precision: PrecisionChoice = Field(
        "auto", description="of training: float32 or bfloat16; auto: what the device does"
    )
    weights_root: PathText = Field(
        "", description="folder with <model>.safetensors; empty: timm's hub, or shipped"
    )
    training_images: Count = Field(160, ge=40, description="finetuned on in each epoch")
    epochs: Epochs = Field(2, ge=2, description="of finetuning")
    batch_size: BatchSize = Field(32, ge=1, description="images")
    lr: Rate = Field(2.0e-3, description="peak learning rate of the backbone")
    head_lr: Rate = Field(2.0e-2, description="peak learning rate of the head")
    weight_decay: float = Field(0.05, ge=0, le=1, description="of AdamW")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the steps with a rising rate")
    validation_images: Count = Field(40, ge=40, description="for top-1 after each epoch")
    seed: Seed = Field(0, description="draws the head, the order, and of Cutouts the images")

    @field_validator("data_root")
    @classmethod
    def _is_given(cls, data_root: str, info: ValidationInfo) -> str:
        if info.data.get("data") == "cifar10" and not data_root:
            raise ValueError("data cifar10 has no folder; give the one it was unpacked to")
        return data_root


class IavParams(ClassifierParams):
    """08_iav: models pretrained in four ways and finetuned alike: what do their heads look at?"""

    model: AnyModelName = Field("dinov2-s8", description="model of the preset")
    models: Names = Field(MINIS, description="finetuned and compared")
    model_seeds: Seeds = Field([0], description="finetuning runs of each model")
    test_images: Count = Field(20, ge=20, description="images under each corruption")
    blurs: list[Annotated[float, Field(gt=0, le=1000)]] = Field(
        [4.0], description="sigma in pixels"
    )
    swaps: list[Positive] = Field([2], description="pairs of quarters exchanged")
    patch_swaps: list[Positive] = Field([64], description="pairs of patches exchanged, patch grid")
    images: Count = Field(10, ge=10, description="test images that are explained")
    reference: MiniName | HubName = Field(
        "mini-dino",
        validate_default=True,  # it may be missing among models
        description="one of models, whose SmoothGrad all heads are compared with (AAV)",
    )
    draws: Count = Field(4, ge=1, description="noisy copies of an image, SmoothGrad")
    shown: int = Field(4, ge=2, le=20, description="images in the explorer")
    seed: Seed = Field(0, description="draws the noise")

    @field_validator("models")
    @classmethod
    def _are_of_both_kinds(cls, models: list[str], info: ValidationInfo) -> list[str]:
        if len({name in LABELS for name in models}) < 2:
            raise ValueError(f"both kinds are compared; name one of {LABELS} and one that is not")
        if info.data.get("data") == "cutouts" and set(models) & set(HUB):
            raise ValueError(f"Cutouts has at most 128 pixels, {HUB} need 224; use cifar10")
        return models

    @field_validator("reference")
    @classmethod
    def _is_compared(cls, reference: str, info: ValidationInfo) -> str:
        if reference not in info.data.get("models", [reference]):
            raise ValueError("it is not among models; name one of them")
        return reference

    @property
    def runs(self) -> list[ClassifierParams]:
        """Every model with every seed, seeds first: images of a seed are drawn once."""
        of_a_run = set(ClassifierParams.model_fields) - {"model", "seed"}
        base = ClassifierParams(**self.model_dump(include=of_a_run))
        each = product(self.model_seeds, self.models)
        return [base.model_copy(update={"model": name, "seed": seed}) for seed, name in each]


class IavFiguresParams(Params):
    """08a_iav: the figures of IAV that the lesson leaves out, and the verdicts."""

    notebook: ClassVar[str] = "08a_iav"

    epoch_images: Count = Field(
        5, ge=5, description="of the lesson's images, explained after every epoch"
    )
    ratios_pct: list[Annotated[float, Field(gt=0, lt=100)]] = Field(
        [30.0, 60.0], description="shares of the patches that are masked"
    )
    seeds: list[Seed] = Field(
        [0, 1], description="finetuning runs of 02_finetune; empty: leave before and after out"
    )
    robustvit_images: Count = Field(5, ge=5, description="test images explained there")

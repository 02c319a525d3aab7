"""Parameters of the notebooks on RobustViT."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from relevit.choices.finetuning import LOSS_WEIGHTS as LOSS_WEIGHTS
from relevit.choices.finetuning import ClassTerm, FinetuneChoices, Kept
from relevit.choices.numbers import BatchSize, Count, Epochs, PathText, Positive, Rate, Size, Weight
from relevit.choices.words import (
    MAP_LOSSES,
    AnyModelName,
    KeyBias,
    MaskSource,
    MoreLoss,
    PrecisionChoice,
    Protocol,
    Variant,
)
from reproduction.config.base import Params, Seed, Seeds


class StartParams(Params):
    """00_start: the data, the model that all others start from, and what it looks at."""

    notebook: ClassVar[str] = "00_start"

    source: Literal["shipped", "train", "published", "random"] = Field(
        "shipped", description="where weights come from; random: for rehearsals"
    )
    others: list[AnyModelName] = Field(
        [], description="models of the papers that later stages need as well"
    )
    weights_root: PathText = Field(
        "", description="folder with published weights; empty: fetch them"
    )
    training_images: Count = Field(3200, ge=40, multiple_of=40, description="it is trained on")
    epochs: Epochs = Field(1, ge=1, description="it is trained for")
    batch_size: BatchSize = Field(32, ge=1, description="images")
    lr: Rate = Field(5.0e-5, description="peak learning rate of the backbone")
    head_lr: Rate = Field(1.0e-3, description="peak learning rate of the head")
    weight_decay: float = Field(0.05, ge=0, le=1, description="of AdamW")
    precision: PrecisionChoice = Field(
        "auto", description="of training: float32 or bfloat16; auto: what the device does"
    )
    images_per_set: Count = Field(40, ge=40, description="test images of each set")
    shown: int = Field(5, ge=2, le=20, description="images in a gallery row")
    seed: Seed = Field(0, description="draws the training images and their order")


class FinetuneParams(FinetuneChoices, Params):
    """One finetuning run, a row of the preset's table. What is None is the rule's or the paper's.

    The defaults, as those of every stage, are the quick preset's: the best setting of the study
    (docs/context.md) and not the paper's, which has the confidence term and half of the classes.
    """

    notebook: ClassVar[str] = "02_finetune"

    class_term: ClassTerm = Field(
        "label", description="target of the class term: the model's own answer or the label"
    )
    keep: Kept = Field("last", description="epoch whose weights are used (A13)")
    masks: MaskSource = Field("annotated", description="where the object's masks come from")
    images_per_class: Count = Field(2, ge=1, description="of each class that is finetuned")
    classes: int = Field(
        40, ge=2, le=913, multiple_of=2, description="classes finetuned: A first, then B"
    )
    lr: Rate | None = Field(None, description="learning rate of the first epoch; None: by the rule")
    lr_factor: float = Field(1.0, gt=0, le=1000, description="times which the rate is taken")
    temperature: float | None = Field(
        None, gt=0, le=100, description="of the class term; None: by protocol and model (A8)"
    )
    weight_relevance: Weight | None = Field(None, description="None: the paper's")
    weight_classification: Weight | None = Field(0.05, description="None: the paper's")
    weight_background: Weight | None = Field(None, description="None: the paper's")
    weight_foreground: Weight | None = Field(
        None, validate_default=True, description="None: the paper's"
    )
    more_losses: dict[MoreLoss, Weight] = Field(
        {}, description="weights of further losses, by name"
    )
    validation_images: Count = Field(80, ge=40, description="for top-1 after each epoch")
    validation_maps: Count = Field(16, ge=8, description="for the losses after each epoch")
    precision: PrecisionChoice = Field(
        "auto", description="of training: float32 or bfloat16; auto: what the device does"
    )
    shown: int = Field(8, ge=2, le=20, description="images in a gallery row")

    @field_validator("masks")
    @classmethod
    def _are_of_all_images(cls, masks: MaskSource, info: ValidationInfo) -> MaskSource:
        if masks == "a_third" and info.data.get("method", "relevance") not in MAP_LOSSES:
            raise ValueError("the terms of baselines need masks of all images; give another kind")
        return masks


class FinetuneNotebookParams(FinetuneParams):
    """02_finetune: relevance finetuning, by hand and by the library, and the rule for its rate."""

    rates: list[Rate] = Field([2.0e-6, 5.0e-5], min_length=1, description="learning rates to try")
    limit_pts: float = Field(3.0, ge=0, le=100, description="largest loss of validation top-1")
    rate_images: Count = Field(
        80, ge=40, description="validation images that the rule looks at, each epoch"
    )
    shown: int = Field(5, ge=2, le=20, description="images in a gallery row")

    @property
    def run(self) -> FinetuneParams:
        """The run that these parameters ask for, without those of the notebook alone."""
        of_a_run = set(FinetuneParams.model_fields) - {"shown"}
        return FinetuneParams(**self.model_dump(include=of_a_run))


Arms = dict[str, dict[str, Any]]  # by name, what each changes in the parameters of 02_finetune
# What no arm may change; of 03_robustness, whose arms have twins without relevance, two more.
NOT_OF_AN_ARM = {"preset", "model", "benchmark", "device", "output_root", "seed"}


def checked_arms(arms: Arms, fixed: set[str]) -> Arms:
    """Raise ValueError for the name of an arm, or for a parameter in which arms are alike."""
    for arm, changes in arms.items():
        if arm in ("ours", "original") or not re.fullmatch(r"[a-z0-9_-]+", arm):
            raise ValueError(
                f"arm {arm!r}: give it a name of small letters, digits, - and _, other than "
                "ours and original"
            )
        if wrong := sorted(set(changes) & fixed):
            raise ValueError(
                f"arm {arm!r} changes {', '.join(wrong)}, in which twins and arms are alike; "
                "leave it out"
            )
    return arms


class RobustnessParams(Params):
    """03_robustness: the nine columns, with the relevance terms and without."""

    notebook: ClassVar[str] = "03_robustness"

    seeds: Seeds = Field([0, 1], description="finetuning runs to compare")
    images_per_set: Count = Field(80, ge=40, description="test images of each set")
    arms: Arms = Field(
        {}, description="settings beside those of 02_finetune, as its parameters, by name"
    )
    arm_seeds: list[Seed] = Field(
        [], description="of seeds, those that arms are run with; empty: all"
    )
    home_shares: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        [], description="worlds of Habitats with originals of their own, a seed each"
    )
    home_seeds: list[Seed] = Field([], description="of these worlds; empty: seeds")
    home_arm: str = Field("ours", description="the arm that is run in them")
    challenge_images: Count = Field(80, ge=40, description="of each set of the challenge")
    looked_at: Count = Field(40, ge=8, description="images of set a whose relevance is shared out")
    shown: int = Field(4, ge=2, le=20, description="images in a gallery row")

    @field_validator("arms")
    @classmethod
    def _can_be_compared(cls, arms: Arms) -> Arms:
        return checked_arms(arms, NOT_OF_AN_ARM | {"method", "weight_relevance"})

    @field_validator("arm_seeds")
    @classmethod
    def _are_compared(cls, seeds: list[int], info: ValidationInfo) -> list[int]:
        if lacking := sorted(set(seeds) - set(info.data.get("seeds", seeds))):
            raise ValueError(f"{lacking} are not among seeds; give some of those")
        return seeds

    @field_validator("home_arm")
    @classmethod
    def _is_an_arm(cls, arm: str, info: ValidationInfo) -> str:
        if arm not in (known := ["ours", *info.data.get("arms", {})]):
            raise ValueError(f"it is no arm; use one of {', '.join(known)}")
        return arm


class RobustnessAppendixParams(Params):
    """03a_robustness: the paper's own terms, classes that nobody finetuned, class by class."""

    notebook: ClassVar[str] = "03a_robustness"

    knn_data: Literal["cutouts", "inat2021_mini", "pneumonia", "cifar100", "cifar100_coarse"] = (
        Field("cutouts", description="classes never finetuned; all but cutouts need knn_root")
    )
    knn_root: PathText = Field("", description="folder of the real data set")
    knn_runs: Count = Field(
        1, ge=1, description="of seeds, the first so many have their features tested"
    )
    neighbours: list[Positive] = Field([1, 10], min_length=1, description="that vote")
    known_images: Count = Field(
        120, ge=24, description="images with known classes; of a real set, at most so many"
    )
    asked_images: Count = Field(
        48, ge=24, description="images to classify in each set; of a real set, at most so many"
    )
    knn_precision: PrecisionChoice = Field(
        "float32", description="of the features; bfloat16 changes a few answers"
    )
    shown: int = Field(4, ge=2, le=20, description="images in a gallery row")


class MasksParams(Params):
    """01_masks: masks without annotation, by TokenCut."""

    notebook: ClassVar[str] = "01_masks"

    feature_model: Literal["dinov2-s", "tiny-mae", "dino-b", "vit-b-cut"] = Field(
        "tiny-mae", description="self-supervised backbone whose keys are cut"
    )
    feature_side: Size = Field(112, ge=56, multiple_of=14, description="pixels it is shown")
    key_bias: KeyBias = Field(
        "removed", description="of the keys that are cut; the published code keeps it"
    )
    seeds: Seeds = Field([0, 1], description="finetuning runs whose images get masks")
    images: Count = Field(40, ge=10, description="val images on which quality is measured too")
    tau: float = Field(0.2, gt=-1, lt=1, description="cosine from which patches are joined")
    protocol: Protocol = Field("published", description="of TokenCut: as its code, or as its text")
    shown: int = Field(5, ge=2, le=20, description="images in a gallery row")


class CuresParams(Params):
    """04_cures: what else the same masks can train, on the same model."""

    notebook: ClassVar[str] = "04_cures"

    seeds: Seeds = Field([0, 1], description="the preset's own finetuning runs")
    images_per_set: Count = Field(80, ge=40, description="test images of each set")
    steps: int = Field(3, ge=2, le=10, description="AdamW steps of the proof, 4 images each")
    arms: Arms = Field(
        {
            "label": {"weight_relevance": 0},
            "relevance": {},
            "swap": {"weight_relevance": 0, "augmentation": "swap"},
        },
        description="cures, as parameters of 02_finetune, by name; label is the control",
    )
    arm_settings: dict[str, Any] = Field(
        {}, description="parameters of 02_finetune that are others than there for all arms"
    )
    arm_seeds: list[Seed] = Field([0], description="runs of each arm; empty: seeds")
    followed: list[str] = Field([], description="arms that are run along the axes, too")
    prices: list[MaskSource] = Field([], description="axis: kinds of masks beside annotated ones")
    counts: list[Positive] = Field([], description="axis: images a class")
    worlds: list[dict[Literal["home_share", "opacity", "original_images"], int | float]] = Field(
        [], description="axis: originals of their own, by what they change in benchmark"
    )
    challenge_images: Count = Field(80, ge=40, description="of each set of the challenge")
    looked_at: Count = Field(40, ge=8, description="images of set a whose relevance is shared out")
    shown: int = Field(5, ge=2, le=20, description="images in a gallery row")

    @field_validator("arms")
    @classmethod
    def _can_be_compared(cls, arms: Arms) -> Arms:
        if arms and not {"label", "relevance"} <= set(arms):
            raise ValueError(
                f"{sorted(arms)} lack the control or the method; name one arm label and one "
                "relevance"
            )
        return checked_arms(arms, NOT_OF_AN_ARM | {"masks", "images_per_class"})

    @field_validator("arm_settings")
    @classmethod
    def _are_of_arms(cls, settings: dict[str, Any]) -> dict[str, Any]:
        if wrong := sorted(set(settings) & NOT_OF_AN_ARM):
            raise ValueError(f"{', '.join(wrong)} belong to the preset and its axes; leave it out")
        return settings

    @field_validator("followed")
    @classmethod
    def _are_arms(cls, followed: list[str], info: ValidationInfo) -> list[str]:
        if lacking := sorted(set(followed) - set(info.data.get("arms", followed))):
            raise ValueError(f"{lacking} are no arms; give some of those")
        return followed


class BaselinesParams(Params):
    """04a_cures: all ways to use the masks on one model, both kinds of masks, other models."""

    notebook: ClassVar[str] = "04a_cures"

    seeds: Seeds = Field([0, 1], description="the preset's own finetuning runs to compare with")
    compared_model: AnyModelName = Field("tiny", description="model on which all are compared")
    images_per_set: Count = Field(80, ge=40, description="test images of each set")
    rates: list[Rate] = Field(
        [2.0e-5], min_length=1, description="learning rates to try, on the scale of ours"
    )
    epochs: Epochs = Field(1, ge=1, description="of each run of the search")
    images_per_class: Count = Field(2, ge=2, description="finetuned on in each run of the search")
    validation_images: Count = Field(80, ge=40, description="that the rule looks at, each epoch")
    validation_maps: Count = Field(8, ge=8, description="for the losses after each epoch")
    probe_images: Count = Field(400, ge=40, description="training images of the linear probe")


class AblationsParams(Params):
    """05_ablations: what each loss does, and how much data and what rate the method needs."""

    notebook: ClassVar[str] = "05_ablations"

    compared_model: AnyModelName = Field("tiny", description="model of the runs")
    variants: list[Variant] = Field(
        ["full", "no_background", "confidence"], min_length=1, description="of the losses (Table 4)"
    )
    base_images: Count = Field(3, ge=1, description="images a class, but in the runs that vary it")
    base_settings: dict[str, Any] = Field(
        {}, description="parameters of 02_finetune that are others than there in all runs"
    )
    images_per_class: list[Positive] = Field([1], description="axis: images a class (Fig. 7)")
    classes: list[Annotated[int, Field(ge=2, le=913, multiple_of=2)]] = Field(
        [10], description="axis: classes that are finetuned (Fig. 7)"
    )
    rate_factors: list[Annotated[float, Field(gt=0, le=1000)]] = Field(
        [10.0], description="learning rates, as multiples of that of the others"
    )
    variant_seeds: Seeds = Field([0], description="runs of each variant")
    images_per_set: Count = Field(60, ge=40, description="test images of each set")


class MapsParams(Params):
    """05a_ablations: which map to train on, and on how many blocks."""

    notebook: ClassVar[str] = "05a_ablations"

    compared_model: AnyModelName = Field("tiny", description="model of the runs")
    base_images: Count = Field(3, ge=1, description="images a class")
    map_seeds: Seeds = Field([0], description="runs of each map")
    images_per_set: Count = Field(60, ge=40, description="test images of each set")
    maps: Arms = Field(
        {
            "gae": {},
            "readout": {"explanation": "readout"},
            "readout_last2": {"explanation": "readout", "trained_blocks": 2},
        },
        description="maps to train on and blocks to train, as parameters of 02_finetune, by name",
    )
    map_settings: dict[str, Any] = Field(
        {}, description="parameters of 02_finetune that are others than there for all maps"
    )
    challenge_images: Count = Field(80, ge=40, description="of each set of the challenge")
    looked_at: Count = Field(40, ge=8, description="images of set a whose relevance is shared out")

    @field_validator("maps")
    @classmethod
    def _can_be_compared(cls, maps: Arms) -> Arms:
        return checked_arms(maps, NOT_OF_AN_ARM | {"masks", "images_per_class"})

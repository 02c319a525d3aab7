"""Parameters of the notebooks on relevance maps: what they are made of, and two tests of them."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from relevit.choices.numbers import Count, Size
from relevit.choices.words import AnyModelName, Fill, PrecisionChoice, Protocol, Unit
from reproduction.config.base import Params, Seed, Seeds


class AttributionParams(Params):
    """06_attribution: which methods follow the class, and three of them as code."""

    notebook: ClassVar[str] = "06_attribution"

    method_model: AnyModelName = Field("tiny", description="model that is explained")
    pairs: Count = Field(10, ge=10, description="images with two objects")
    protocol: Protocol = Field(
        "published", description="of the methods: as the code, or as the text"
    )
    shown: int = Field(4, ge=2, le=10, description="images in a gallery row")
    seed: Seed = Field(0, description="draws the images")


class MoreAttributionParams(Params):
    """06a_attribution: single differences, perception times feedback, sufficient input subsets."""

    notebook: ClassVar[str] = "06a_attribution"

    method_model: AnyModelName = Field("tiny", description="model of all sections but the last")
    images: Count = Field(12, ge=2, description="images of the ablation")
    protocol: Protocol = Field(
        "published", description="of the methods: as the code, or as the text"
    )
    shown: int = Field(4, ge=2, le=10, description="images in a gallery row")
    subset_images: int = Field(2, ge=1, le=20, description="val images that get subsets")
    subset_labels: int = Field(3, ge=1, le=20, description="random labels asked of each of them")
    confidence_pct: float = Field(90.0, gt=0, lt=100, description="that a subset must reach")
    side: Size = Field(1, ge=1, description="side in pixels of the squares that are removed")
    per_step: Count = Field(500, ge=1, description="squares removed at a time; fewer find more")
    precision: PrecisionChoice = Field(
        "float32", description="of the search; confidences that decide are always float32"
    )
    seed: Seed = Field(0, description="draws images and labels, names the finetuned run")


class SegmentationParams(Params):
    """07_segmentation: three tests of a map, outlining, erasing and the worth of parts."""

    notebook: ClassVar[str] = "07_segmentation"

    seeds: Seeds = Field([0, 1], description="finetuning runs to compare")
    finetuned_images: Count = Field(
        24, ge=2, description="images with masks, before and after finetuning"
    )
    finetuned_erased: Count = Field(
        6, ge=2, description="val images to erase, before and after finetuning"
    )
    home_scenes: Count = Field(
        3, ge=2, description="scenes of val, in which all methods have three tests"
    )
    scenes: Count = Field(
        12, ge=2, description="of set a, drawn without each part; not of photographs"
    )
    unit: Unit = Field("pixel", description="what is erased (E5)")
    fill: Fill = Field("black", description="colour of what is erased (E7)")
    protocol: Protocol = Field(
        "published", description="of the methods: as the code, or as the text"
    )


class SegmentationAppendixParams(Params):
    """07a_segmentation: both tests in the papers' form, all methods, and the approximation."""

    notebook: ClassVar[str] = "07a_segmentation"

    seeds: Seeds = Field([0, 1], description="finetuning runs to compare")
    method_models: list[AnyModelName] = Field(
        ["tiny", "tiny-mae"], min_length=1, description="models that compare all methods"
    )
    images: Count = Field(
        10, ge=2, description="of the first method model; at random under both protocols (E10)"
    )
    other_images: Count = Field(4, ge=2, description="of the other models, and scenes of val")
    scenes: Count = Field(
        12, ge=2, description="of set a, drawn without each part; not of photographs"
    )
    approximated: Count = Field(12, ge=2, description="images of the approximation test")
    unit: Unit = Field("pixel", description="what is erased (E5)")
    fill: Fill = Field("black", description="colour of what is erased (E7)")
    protocol: Protocol = Field(
        "published", description="of the methods: as the code, or as the text"
    )

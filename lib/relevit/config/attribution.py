"""Parameters of the notebooks that test relevance maps."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from relevit.config.base import Params, Seed, Seeds
from relevit.config.numbers import Count
from relevit.config.words import AnyModelName, Fill, Protocol, Unit


class SegmentationParams(Params):
    """07_segmentation: how well relevance maps outline the object."""

    notebook: ClassVar[str] = "07_segmentation"

    seeds: Seeds = Field([0, 1], description="finetuning runs to compare")
    finetuned_images: Count = Field(
        40, ge=2, description="images with masks, before and after finetuning"
    )
    method_models: list[AnyModelName] = Field(
        ["tiny", "tiny-mae"], min_length=1, description="models that compare all methods"
    )
    images: Count = Field(12, ge=2, description="of the first method model")
    other_images: Count = Field(12, ge=2, description="of the other models, the original included")
    protocol: Protocol = "published"


class AttributionParams(Params):
    """06_attribution: the methods side by side, and what they are made of."""

    notebook: ClassVar[str] = "06_attribution"

    method_model: AnyModelName = Field("tiny", description="model of the tables")
    images: Count = Field(12, ge=2, description="images of the ablation")
    pairs: Count = Field(10, ge=10, description="images with two objects")
    approximated: Count = Field(12, ge=2, description="images of the approximation test")
    protocol: Protocol = "published"
    shown: int = Field(6, ge=2, le=10, description="images in a gallery row")
    seed: Seed = 0


class FaithfulnessParams(Params):
    """06_faithfulness: the perturbation test."""

    notebook: ClassVar[str] = "06_faithfulness"

    seeds: Seeds = Field([0, 1], description="finetuning runs to compare")
    images: Count = Field(
        10, ge=2, description="val images for all methods, at random under both protocols (E10)"
    )
    finetuned_images: Count = Field(20, ge=2, description="val images, before and after finetuning")
    unit: Unit = Field("pixel", description="what is erased (E5)")
    fill: Fill = Field("black", description="colour of what is erased (E7)")
    protocol: Protocol = "published"

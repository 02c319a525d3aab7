"""What the stages of a preset share: its model, its images and the seeds of its own runs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)

from relevit.choices.checked import Checked
from relevit.choices.numbers import MOST, Count, Epochs, PathText, Rate, Seed, Share, Some
from relevit.choices.words import (
    IMAGENET,
    PACS,
    AnyModelName,
    Corrupted,
    DataName,
    PaperModelName,
    Preprocessing,
    Protocol,
)

OF_PACS = ("source", "side", "original_epochs")
NAMED = {  # what data_root holds
    IMAGENET: "the sets, see docs/paper_preset.md",
    PACS: "its domains, see docs/photographs.md",
}


class Benchmark(Checked):
    """The images of all stages of a preset (`habitats.benchmark`)."""

    data: DataName = Field("habitats", description="drawn here, or sets from disk")
    home_share: Share = Field(
        0.95, description="of habitats, and composed: how often a class is at home in training"
    )
    opacity: Rate = Field(0.2, description="of habitats: the lowest of animals in training")
    classes: Literal["animals", "objects"] = Field("animals", description="of habitats")
    original_images: Count[40, MOST, 40] | None = Field(
        None,
        description="that the original of a world of its own learns from; None: as in 00_start",
    )
    originals: Literal["one", "each"] = Field(
        "one", description="one for all seeds, or one for each, so that intervals speak of it, too"
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
    finetuned_classes: Count[2, 913] = Field(500, description="classes of ImageNet-S in A")
    source: Literal["photo", "art_painting", "cartoon", "sketch"] = Field(
        "photo", description="of pacs: the domain that models learn from; the others are the test"
    )
    side: Count[56, 1022, 14] = Field(112, description="of pacs: pixels at which models see it")
    original_epochs: Epochs = Field(2, description="of pacs: for which each seed's original learns")
    composed: bool = Field(
        False, description="of pacs: objects of photographs on backgrounds of others"
    )

    @property
    def each_seed(self) -> bool:
        """Whether each seed has an original of its own, and none is the preset's."""
        return self.data == PACS or self.originals == "each"

    @model_serializer(mode="wrap")
    def _of_its_data(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Runs are named after these values: none that says nothing of theirs is among them."""
        left = () if self.data == PACS else OF_PACS
        left += ("originals",) if self.originals == "one" else ()
        left += () if self.composed else ("composed",)
        return {key: x for key, x in dump(self).items() if key not in left}

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
        data = info.data.get("data")
        if data in NAMED and not data_root:
            raise ValueError(
                f"data {data!r} without data_root; give the folder that holds {NAMED[data]}, or "
                "data: habitats, which needs none"
            )
        return data_root

    @field_validator("composed")
    @classmethod
    def _is_of_photographs(cls, composed: bool, info: ValidationInfo) -> bool:
        given = {key: info.data.get(key) for key in ("data", "source")}
        if composed and given != {"data": PACS, "source": "photo"}:
            raise ValueError(f"composed with {given}; it is of data pacs with source photo alone")
        return composed

    @field_validator("originals")
    @classmethod
    def _can_be_trained(cls, originals: str, info: ValidationInfo) -> str:
        if originals == "each" and info.data.get("data") == IMAGENET:
            raise ValueError(
                "originals each with data imagenet, where models are the published ones; give one"
            )
        return originals

    @field_validator("view_of")
    @classmethod
    def _is_known(cls, model: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("preprocessing") == "timm" and model is None:
            raise ValueError("preprocessing timm without it; give the preset's own model")
        return model


class Common(Checked):
    """The section `common` of `params/<preset>.yaml`, which says this once for all stages."""

    model: AnyModelName = Field("dinov2-s8", description="model of the preset")
    benchmark: Benchmark = Field(Benchmark(), description="images of all stages")
    seeds: Some[Seed] = Field([0, 1], description="the preset's own finetuning runs")

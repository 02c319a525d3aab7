"""Parameters of the notebook on one's own model and images."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from relevit.choices.numbers import Count, Epochs, PathText, Rate
from relevit.choices.own import OwnChoices
from relevit.choices.words import CureChoice
from reproduction.config.base import Params


class OwnParams(OwnChoices, Params):
    """10_your_own: the method on one's own model and images; without data on an example."""

    notebook: ClassVar[str] = "10_your_own"

    cure: CureChoice = Field(
        "relevance", validate_default=True, description="the notebook's is RobustViT's"
    )
    own_model: PathText = Field("tiny", description="any name of timm's, or one of the suite's")
    epochs: Epochs = Field(2, ge=1, description="of finetuning")
    images_per_class: Count = Field(2, ge=1, description="finetuned on")
    rates: list[Rate] = Field([5.0e-6, 5.0e-5], min_length=1, description="that the rule tries")
    test_images: Count = Field(200, ge=8, description="at most, of each test set")
    looked_at: Count = Field(40, ge=4, description="at most, held-out images of the audit")
    shown: int = Field(6, ge=2, le=20, description="images in a row of pictures")
    example_images: Count = Field(8, ge=4, description="of each class of the example")

    @property
    def choices(self) -> OwnChoices:
        """What `finetune_folder` is told."""
        values = {name: getattr(self, name) for name in OwnChoices.model_fields}
        return OwnChoices.model_construct(**values)  # they are checked

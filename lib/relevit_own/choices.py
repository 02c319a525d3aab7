"""What finetuning one's own model on one's own images is told."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from relevit.choices.checked import Checked
from relevit.choices.finetuning import LOSS_WEIGHTS, ClassTerm, FinetuneChoices, Kept
from relevit.choices.numbers import Count, Epochs, PathText, Points, Rate, Some, Weight
from relevit.choices.words import CURES, Corrupted, MoreLoss, PrecisionChoice, one_of

# What a run trains on (`relevit_own.finetune`); others add to CURES.
OWN_CURES = ("label", "relevance", "swap", "both")
Cure, CureChoice = one_of(OWN_CURES, CURES), one_of(("auto", *OWN_CURES), CURES)


class OwnChoices(FinetuneChoices):
    """What `finetune_folder` is told. Paths start from where the command is given.

    The defaults of the method are those that did best in docs/context.md and not the paper's:
    the label's class term with weight 0.05, and the last epoch. The paper's are `class_term`
    confidence, `weight_classification` 0.2 and `keep` lowest_validation_loss.
    """

    method: Literal["relevance"] = Field("relevance", description="what is trained")
    augmentation: Literal["swap", "swap_seams", "swap_strange", "swap_sizes"] = Field(
        "swap", description="of half of each batch, where the cure is swap or both"
    )
    data: PathText = Field(
        "", description="images: a folder, a CSV of paths, or outlines (COCO, YOLO, VOC)"
    )
    masks: PathText = Field(
        "",
        description="folder of masks, or tokencut; empty: those beside the images, else tokencut",
    )
    images_folder: PathText = Field(
        "", description="folder of the pictures of outlines, if not beside them"
    )
    shifted: list[PathText] = Field(
        [], description="folders of further test sets of the same classes"
    )
    own_model: PathText = Field("dinov2-s", description="any name of timm's, or one of the suite's")
    own_weights: PathText = Field("", description="file of weights; empty: those that timm fetches")
    own_options: dict[str, Any] = Field({}, description="for timm.create_model, like img_size")
    new_head: bool = Field(False, description="fit a new linear head to the classes first")
    head_classes: list[str] = Field(
        [], description="the head's classes in its order; empty: ImageNet's synsets, or by name"
    )
    images_per_class: Count[1] = Field(3, description="finetuned on")
    class_term: ClassTerm = Field("label", description="target of the class term (B23)")
    keep: Kept = Field("last", description="epoch whose weights are used (A13)")
    epochs: Epochs = Field(5, description="of finetuning")
    weight_relevance: Weight = Field(0.8, description="of the relevance terms")
    weight_classification: Weight = Field(0.05, description="of the class term")
    weight_background: Weight = Field(2.0, description="of relevance off the object")
    weight_foreground: Weight = Field(
        0.3, validate_default=True, description="of relevance that the object lacks"
    )
    more_losses: dict[MoreLoss, Weight] = Field(
        {}, description="weights of further losses, by name"
    )
    rates: Some[Rate] = Field(
        [2.0e-6, 1.0e-5, 5.0e-5], description="learning rates that the rule tries"
    )
    limit_pts: Points = Field(3.0, description="largest loss of validation top-1")
    control: bool = Field(True, description="finetune by the cure of against, too")
    against: Cure = Field("label", description="the cure that it is compared with")
    cure: CureChoice = Field(
        "auto", validate_default=True, description="auto: relevance for boxes, else swap"
    )
    validation_images: Count[8] = Field(400, description="at most, for the rule")
    validation_maps: Count[4] = Field(16, description="at most, for the losses after each epoch")
    test_images: Count[8] = Field(2000, description="at most, of each test set")
    looked_at: Count[4] = Field(100, description="at most, held-out images of the audit")
    shown: Count[2, 100] = Field(20, description="at most, test images whose maps are shown")
    corrupted: Corrupted = Field("error", description="what an image that cannot be read does")
    precision: PrecisionChoice = Field(
        "auto", description="of training: float32 or bfloat16; auto: what the device does"
    )

    @classmethod
    def among(cls, parameters: Checked) -> OwnChoices:
        """What a notebook's parameters say of these; the rest is the default."""
        return cls.checked({k: v for k, v in parameters if k in cls.model_fields}, "your own")

    @field_validator("cure")  # the last of those that it looks at
    @classmethod
    def _has_something_to_train(cls, cure: str, info: ValidationInfo) -> str:
        relevance, label, background, foreground = map(info.data.get, LOSS_WEIGHTS)
        if foreground is None:  # of weights that were refused
            return cure
        asked = [cure, *([info.data.get("against")] if info.data.get("control") else [])]
        looking = [each for each in asked if each in ("auto", "relevance", "both")]
        if looking and (relevance == 0 or background == foreground == 0):
            raise ValueError(
                f"{looking[0]} trains the relevance terms, which weigh 0 by weight_relevance = "
                f"{relevance:g}, weight_background = {background:g}, weight_foreground = "
                f"{foreground:g}; give them a weight, or take the cures label and swap"
            )
        others = [each for each in asked if each not in ("relevance", "both")]
        if label == 0 and others:
            raise ValueError(
                f"weight_classification is 0, which leaves {' and '.join(others)} nothing to "
                "train; give it a weight, or cure relevance with control false"
            )
        return cure

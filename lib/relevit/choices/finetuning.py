"""What every finetuning run chooses, in a preset and on one's own images."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from relevit.choices.checked import Checked
from relevit.choices.numbers import Count, Epochs, Part, Rate, Seed, Share
from relevit.choices.words import Augmentation, Method, Protocol, TrainedMap

ClassTerm = Literal["confidence", "label"]
Kept = Literal["last", "lowest_validation_loss"]


class FinetuneOptions(Checked):
    """Single differences of text and code; None: as the protocol has it (`relevit.protocols`)."""

    normalise: bool | None = Field(None, description="heatmaps to [0, 1] (A1)")
    exact_gradient: bool | None = Field(
        None, description="through the gradient in maps and in baselines' terms (A2, B9, B10)"
    )
    towards_mask: bool | None = Field(None, description="foreground's target, else 1 (A6)")
    edges_in_both: bool | None = Field(None, description="fractional pixels of masks (A7)")
    decay: Rate | None = Field(None, description="of the learning rate, every two epochs (A11)")
    mean_square: bool | None = Field(None, description="in GradMask's term, else a norm (B8)")
    least_probability: Part | None = Field(None, description="added before RRR's logarithm (B11)")
    sum_over_batch: bool | None = Field(None, description="in RRR's term, else a mean (B11)")


class FinetuneChoices(Checked):
    """What notebooks choose of finetuning and never leave open (`finetune.FinetuneSettings`)."""

    method: Method = Field("relevance", description="what is trained: losses of the map, baselines")
    seed: Seed = Field(0, description="draws classes A, images, order and augmentation")
    epochs: Epochs = Field(6, description="of finetuning")
    batch_size: Count[1, 65_536] = Field(8, description="images")
    protocol: Protocol = Field(
        "published", description="of the losses: as the code, or as the text"
    )
    target: Literal["label", "predicted"] = Field("label", description="class to explain (A5)")
    explanation: TrainedMap = Field("gae", description="map that the relevance losses look at")
    class_term: ClassTerm = Field(
        "confidence", description="target of the class term: the model's own answer or the label"
    )
    options: FinetuneOptions = Field(
        FinetuneOptions(), description="differences that are not as the protocol has them"
    )
    augmentation: Augmentation = Field(
        "none", description="of half of each batch, by its masks, before crop and flip"
    )
    trained_blocks: Count[0, 100] | None = Field(
        None, description="None: all weights; else the last so many, norm and head"
    )
    weight_decay: Share = Field(1.0e-4, description="of AdamW")
    keep: Kept = Field("lowest_validation_loss", description="epoch whose weights are used (A13)")

    @field_validator("weight_foreground", check_fields=False)  # the last of LOSS_WEIGHTS
    @classmethod
    def _leaves_something_to_train(cls, foreground: float | None, info: ValidationInfo) -> Any:
        relevance, label, background, _ = map(info.data.get, LOSS_WEIGHTS)
        if label == 0 and (relevance == 0 or foreground == background == 0):
            raise ValueError(
                "weight_classification is 0 and so are those of the relevance terms, which leaves "
                "nothing to train; give one of them a weight"
            )
        if info.data.get("trained_blocks") == 0 and relevance != 0:
            raise ValueError(
                "trained_blocks is 0, so the head alone is trained, and the map is not its own; "
                "give weight_relevance 0, or at least one block"
            )
        return foreground


# Parameters of 02_finetune: weights of the terms of the loss.
LOSS_WEIGHTS = tuple(
    f"weight_{term}" for term in ("relevance", "classification", "background", "foreground")
)

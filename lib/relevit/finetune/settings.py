"""What defines a finetuning run, beside the model and the images: parameters with nothing open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from pydantic import Field, field_validator

from relevit.config.robustvit import FinetuneChoices, FinetuneParams
from relevit.config.words import Precision
from relevit.finetune.hyperparameters import (
    LossWeights,
    paper_temperature,
    paper_weights,
    table_model,
)
from relevit.protocols import check_protocol


class FinetuneSettings(FinetuneChoices):
    """The choices of `02_finetune`, and what its parameters may leave open: complete.

    `protocol="published"`: heatmap scaled to [0, 1] (A1), grad A constant (A2), foreground
    target the mask (A6), fractional mask pixels in both terms (A7), learning rate times 0.85
    every two epochs (A11). `"described"`: R itself, exact gradient, target 1, 1 - S, constant
    rate. `gradient` and `schedule` part A2 and A11 from the rest. Both: AdamW on all parameters
    (A10), class to explain from the label (A5), arg-max of the current model (A9). `epochs` and
    `batch_size` are by default the text's, whatever the masks (A12).
    `method` other than relevance: a baseline (`relevit.finetune.baselines`), to which only the
    label and the terms `background` and `classification` apply; its images are shuffled every
    epoch, where the published scripts keep one order (B13), and of epochs with equal loss the
    latest is kept, where they keep the first (A13): both as for the method itself (F11).
    `explanation` is the map that the losses look at, `class_term="label"` replaces the confidence
    term by the label's (B23). `keep` is the epoch whose weights are used (A13).
    Raises: ValueError, naming the setting, when one is out of range.
    """

    lr: float = Field(description="learning rate of the first epoch")
    epochs: int = Field(50, ge=1)
    temperature: float = Field(1.0, description="of the class term (A8)")
    precision: Precision = "float32"
    weights: LossWeights = Field(default_factory=LossWeights)

    def changed(self, **others: Any) -> FinetuneSettings:
        """These settings with some others. Raises as the class."""
        return self.checked(dict(self) | others, "finetune")

    @property
    def identity(self) -> Mapping[str, Any]:
        """All values as plain ones: runs that differ in one are different runs."""
        return dict(self) | {"weights": asdict(self.weights)}

    @property
    def exact_gradient(self) -> bool:
        """Whether the map's gradient goes through grad A too (differences A2)."""
        if self.gradient == "protocol":
            return self.protocol == "described"
        return self.gradient == "exact"

    def lr_at(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 1."""
        decaying = self.schedule == "decaying"
        if self.schedule == "protocol":
            decaying = self.protocol == "published"
        return self.lr * (0.85 ** ((epoch - 1) // 2) if decaying else 1.0)

    @field_validator("lr", "epochs", "batch_size", "temperature", mode="before")
    @classmethod
    def _above_zero(cls, value: float, info: Any) -> float:
        if not value > 0:
            raise ValueError(f"{info.field_name} is {value}; it must be above 0")
        return value

    @field_validator("protocol", mode="before")
    @classmethod
    def _known(cls, value: str) -> str:
        check_protocol(value)
        return value


def resolved(cfg: FinetuneParams, lr: float, precision: Precision) -> FinetuneSettings:
    """The settings that a notebook's parameters ask for, at the given rate and precision.

    What these leave open, weights of the terms and temperature, is the paper's, by method and
    model (`relevit.finetune.hyperparameters`).
    """
    asked = {f.name: getattr(cfg, f"weight_{f.name}") for f in fields(LossWeights)}
    given = {name: value for name, value in asked.items() if value is not None}
    return FinetuneSettings(
        **{name: getattr(cfg, name) for name in FinetuneChoices.model_fields},
        lr=lr,
        precision=precision,
        temperature=cfg.temperature or paper_temperature(cfg.method, cfg.model, cfg.protocol),
        weights=replace(paper_weights(cfg.method, table_model(cfg.method, cfg.model)), **given),
    )

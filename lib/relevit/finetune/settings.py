"""What defines a finetuning run, beside the model and the images."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Literal, get_args, get_type_hints

from relevit.base.device import Precision
from relevit.config import FinetuneParams
from relevit.config.words import Method
from relevit.finetune.baselines import baseline_weights, table_model
from relevit.relevance import Explanation, Protocol, check_protocol


@dataclass(frozen=True)
class LossWeights:
    """Of the terms of the loss. The defaults are those of RobustViT Table 5, for all its models."""

    relevance: float = 0.8
    classification: float = 0.2
    background: float = 2.0
    foreground: float = 0.3


@dataclass(frozen=True)
class FinetuneSettings:
    """What defines a run, beside the model and the images.

    `protocol="published"`: heatmap scaled to [0, 1] (A1), grad A constant (A2), foreground
    target the mask (A6), fractional mask pixels in both terms (A7), learning rate times 0.85
    every two epochs (A11). `"described"`: R itself, exact gradient, target 1, 1 - S, constant
    rate. `gradient` and `schedule` part A2 and A11 from the rest. Both: AdamW on all parameters
    (A10), class to explain from the label (A5), arg-max of the current model (A9).
    `method` other than relevance: a baseline (`relevit.finetune.baselines`), to which only the
    label and
    the terms `background` and `classification` apply; its images are shuffled every epoch, where
    the published scripts keep one order (B13), and of epochs with equal loss the latest is kept,
    where they keep the first (A13). `explanation` is the map that the losses
    look at, `class_term="label"` replaces the confidence term by the label's (B23). `keep` is the
    epoch whose weights are used (A13).
    """

    lr: float
    epochs: int = 50
    batch_size: int = 8  # images
    method: Method = "relevance"
    protocol: Protocol = "published"
    target: Literal["label", "predicted"] = "label"
    explanation: Explanation = "gae"
    class_term: Literal["confidence", "label"] = "confidence"
    gradient: Literal["protocol", "constant", "exact"] = "protocol"
    schedule: Literal["protocol", "constant", "decaying"] = "protocol"
    temperature: float = 1.0
    weight_decay: float = 1.0e-4
    keep: Literal["last", "lowest_validation_loss"] = "lowest_validation_loss"
    precision: Precision = "float32"
    seed: int = 0
    weights: LossWeights = field(default_factory=LossWeights)

    @classmethod
    def from_params(cls, cfg: FinetuneParams, lr: float, precision: Precision) -> FinetuneSettings:
        """The settings that a notebook's parameters ask for, at the given rate and precision."""
        shared = {f.name for f in fields(cls)} & set(type(cfg).model_fields)
        shared -= {"lr", "precision", "temperature"}
        asked = {f.name: getattr(cfg, f"weight_{f.name}") for f in fields(LossWeights)}
        given = {name: value for name, value in asked.items() if value is not None}
        temperature = cfg.temperature or paper_temperature(cfg.method, cfg.model, cfg.protocol)
        return cls(
            **{name: getattr(cfg, name) for name in shared},
            lr=lr,
            temperature=temperature,
            precision=precision,
            weights=replace(paper_weights(cfg.method, cfg.model), **given),
        )

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


def paper_weights(method: Method, model: str = "") -> LossWeights:
    """The weights of the paper: Table 5 for ours, Tables 6 and 7 for a baseline.

    Those of a baseline differ by model; one that the tables do not have takes those of ViT-B.
    Raises: ValueError for an unknown method.
    """
    if method == "relevance":
        return LossWeights()
    background, classification = baseline_weights(method, model=table_model(method, model))
    return LossWeights(
        relevance=1.0, classification=classification, background=background, foreground=0.0
    )


# Of the published code, for its own method; in no table of the paper (differences A8).
TEMPERATURES = {"deit-b": 0.65, "deit-s": 0.55}


def paper_temperature(method: Method, model: str = "", protocol: Protocol = "published") -> float:
    """What the logits of the class term are divided by: 1 but for ours, as published, on DeiT."""
    if method != "relevance" or protocol != "published":
        return 1.0
    return TEMPERATURES.get(model.removesuffix("-cut"), 1.0)


def check_settings(settings: FinetuneSettings) -> None:
    """Raise ValueError, naming the setting, when one is out of range."""
    check_protocol(settings.protocol)
    for name in ("lr", "epochs", "batch_size", "temperature"):
        if not getattr(settings, name) > 0:
            raise ValueError(f"finetune: {name} is {getattr(settings, name)}; it must be above 0")
    choices = ("method", "target", "explanation", "class_term", "gradient", "schedule", "keep")
    for name in (*choices, "precision"):
        allowed = get_args(get_type_hints(FinetuneSettings)[name])
        if getattr(settings, name) not in allowed:
            raise ValueError(
                f"finetune: {name} is {getattr(settings, name)!r}; use one of {allowed}"
            )

"""What defines a finetuning run, beside the model and the images: parameters with nothing open.

What these leave open are the paper's hyperparameters, by method and model: weights of the terms,
temperature, rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, get_args

import pandas as pd
from pydantic import Field, field_validator

from relevit.choices.finetuning import LOSS_WEIGHTS, FinetuneChoices, FinetuneOptions
from relevit.choices.words import MAP_LOSSES, Baseline, Method, Precision, Protocol
from relevit.losses import LOSSES, MORE_LOSSES, Term
from relevit.protocols import Options, options

BASELINES: tuple[Baseline, ...] = get_args(Baseline)
PAPER_MODEL = "vit-b"  # whose weights and rate stand for the paper's: they differ by model
# Of models that Tables 5-7 do not have, the row with the rate that the text gives: supp. L, 8e-7.
TEXT_MODELS = {("ours", "dino-b"): "deit-b"}
Weights = dict[str, float]  # of each loss, of their sum (`relevance`), and of the class term
_OF_ALL = tuple(name.removeprefix("weight_") for name in LOSS_WEIGHTS)


class FinetuneSettings(FinetuneChoices):
    """The choices of `02_finetune`, and what its parameters may leave open: complete.

    `protocol` is a row of options (`relevit.protocols`), and `options` single ones that differ from
    it; `rules` are the two together. In both protocols: AdamW on all parameters (A10), the class to
    explain from the label (A5), the arg-max of the current model (A9). `epochs` and
    `batch_size` are by default the text's, whatever the masks (A12).
    A `method` that is none of the map: a baseline (`relevit.finetune.baselines`), to which only the
    label and its own term apply; its images are shuffled every epoch, where the published scripts
    keep one order (B13), and of epochs with equal loss the latest is kept, where they keep the
    first (A13): both as for the method itself (F11).
    `explanation` is the map that the losses look at, `class_term="label"` replaces the confidence
    term by the label's (B23). `keep` is the epoch whose weights are used (A13). `augmentation` is
    that of `relevit.finetune.augmenting`; with `trained_blocks` the last blocks, the norm and the
    head alone are trained (0: the head), and the maps are of these blocks.
    Raises: ValueError, naming the setting, when one is out of range.
    """

    lr: float = Field(gt=0, description="learning rate of the first epoch")
    epochs: int = Field(50, ge=1)
    temperature: float = Field(1.0, gt=0, description="of the class term (A8)")
    precision: Precision = "float32"
    weights: Weights = Field(
        {}, validate_default=True, description="by loss; what is not given is the script's"
    )

    def changed(self, **others: Any) -> FinetuneSettings:
        """These settings with some others. Raises as the class."""
        return self.checked(dict(self) | others, "finetune")

    @property
    def identity(self) -> Mapping[str, Any]:
        """All values as plain ones: runs that differ in one are different runs."""
        return dict(self) | {"options": self.rules}

    @property
    def rules(self) -> Options:
        """What each difference is in this run: the protocol's row, and what differs from it."""
        return dict(_rules(self.protocol, self.options, self.temperature))

    @property
    def class_loss(self) -> str:
        """The class term of `losses.CLASS_TERMS`; baselines have the label's."""
        return self.class_term if self.method in MAP_LOSSES else "label"

    @property
    def terms(self) -> dict[str, Term]:
        """What is trained beside the class term: the method's losses, and further ones by name."""
        own = LOSSES[self.method]
        more = [name for name in self.weights if name not in (*own, *_OF_ALL)]
        return own | {name: Term(MORE_LOSSES[name], 0.0) for name in more}

    def rate_share(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 1, as a share of that of the first."""
        return self.rules["decay"] ** ((epoch - 1) // 2)

    @field_validator("weights")
    @classmethod
    def _of_losses_that_are_there(cls, weights: Weights, info: Any) -> Weights:
        own, of_map = LOSSES[info.data["method"]], info.data["method"] in MAP_LOSSES
        known, more = list(dict.fromkeys([*_OF_ALL, *own])), MORE_LOSSES if of_map else ()
        if taken := [name for name in more if name in (*known, "total", *LOSSES)]:
            raise ValueError(f"losses: the name {taken[0]!r} is ours; give what you added another")
        if unknown := [name for name in weights if name not in known and name not in more]:
            known += more
            raise ValueError(f"losses: {unknown[0]!r} is unknown; use some of {known}")
        return script_weights(info.data["method"]) | weights


@cache  # each step asks for them
def _rules(protocol: Protocol, single: FinetuneOptions, temperature: float) -> Options:
    named = single.model_dump(exclude_none=True)
    return options(protocol, "finetune") | named | {"temperature": temperature}


def resolved(cfg: Any, lr: float, precision: Precision) -> FinetuneSettings:
    """The settings that a run's parameters (those of `02_finetune`) ask for, at the given rate.

    What these leave open, weights of the terms and temperature, is the paper's, by method and
    model (Tables 5-7).
    """
    asked = {name.removeprefix("weight_"): getattr(cfg, name) for name in LOSS_WEIGHTS}
    given = {name: weight for name, weight in asked.items() if weight is not None}
    return FinetuneSettings(
        **{name: getattr(cfg, name) for name in FinetuneChoices.model_fields},
        lr=lr,
        precision=precision,
        temperature=cfg.temperature or paper_temperature(cfg.method, cfg.model, cfg.protocol),
        weights=paper_weights(cfg.method, cfg.model) | given | cfg.more_losses,
    )


# The paper's hyperparameters


def script_weights(method: Method) -> Weights:
    """The defaults of the published scripts; of baselines they are in no table (differences B12).

    Of ours they are those of RobustViT Table 5.
    """
    weights = {"relevance": 1.0 if method in BASELINES else 0.8, "classification": 0.2}
    return weights | {name: term.weight for name, term in LOSSES[method].items()}


def paper_weights(method: Method, model: str = PAPER_MODEL) -> Weights:
    """Those of RobustViT Tables 5 (ours), 6 (RRR), 7 (GradMask); other losses of maps as ours."""
    row = _row(method, model)
    own = {"classification": row["lambda_classification"], "background": row["lambda_bg"]}
    known = script_weights(method)
    return known | {name: float(weight) for name, weight in own.items() if name in known}


def paper_rate(method: Method, model: str = PAPER_MODEL) -> float:
    """The paper's learning rate (Tables 5-7)."""
    return float(_row(method, model)["lr"])


def paper_temperature(method: Method, model: str = "", protocol: Protocol = "published") -> float:
    """What the logits of the class term are divided by: 1 but for ours, as published, on DeiT."""
    if method in BASELINES:
        return 1.0
    row = options(protocol, "confidence_loss", model.removesuffix("-cut"))
    return row.get("temperature", 1.0)


@cache
def hyperparameters() -> pd.DataFrame:
    """Published loss weights and learning rates of ours, RRR and GradMask, by model (T5-T7).

    Shared, so copy it before a change.
    """
    path = files("relevit") / "assets" / "paper" / "hyperparameters.csv"
    with path.open("rb") as table:
        return pd.read_csv(table)


def _row(method: Method, model: str) -> pd.Series:
    """The row of Tables 5-7 whose settings a model takes.

    Its own, or DeiT-B's for ours on DINO (supp. L gives that rate), or ViT-B's: the baselines were
    not run on ViT-L and AR-L, nor on other papers' models.
    """
    table, name = hyperparameters(), method if method in BASELINES else "ours"
    rows = table[table["method"] == name].set_index("model").rename(index=str.lower)
    own = model.removesuffix("-cut")
    return rows.loc[own if own in rows.index else TEXT_MODELS.get((name, own), PAPER_MODEL)]

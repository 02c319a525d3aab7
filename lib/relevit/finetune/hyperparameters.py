"""The paper's hyperparameters by method and model: weights of the terms, temperature, rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import pandas as pd

from relevit.config.words import Baseline, Method, Protocol
from relevit.losses import LOSSES
from relevit.paper.published import hyperparameters
from relevit.protocols import options

BASELINES: tuple[Baseline, ...] = get_args(Baseline)
WeightSource = Literal["paper", "script"]
PAPER_MODEL = "ViT-B"  # whose weights and rate stand for the paper's: they differ by model
# Of models that Tables 5-7 do not have, the row with the rate that the text gives: supp. L, 8e-7.
TEXT_MODELS = {("relevance", "dino-b"): "DeiT-B"}


@dataclass(frozen=True)
class LossWeights:
    """Of the terms of the loss. The defaults are those of RobustViT Table 5, for all its models."""

    relevance: float = 0.8
    classification: float = 0.2
    background: float = 2.0
    foreground: float = 0.3
    others: Mapping[str, float] = field(default_factory=dict, repr=False)  # of further losses

    def of(self, name: str) -> float:
        """The weight of a loss; one that nobody asked for has that of `losses.LOSSES`."""
        if name in ("background", "foreground"):
            return getattr(self, name)
        return self.others.get(name, LOSSES["relevance"][name][1])


def table_model(method: str, name: str) -> str:
    """The model in the tables of a method (T5-T7) whose settings the model `name` takes.

    Its own, or DeiT-B's for ours on DINO (supp. L gives that rate), or ViT-B's: the baselines were
    not run on ViT-L and AR-L, nor on other papers' models.
    """
    own = name.removesuffix("-cut")
    other = TEXT_MODELS.get((method, own), PAPER_MODEL)
    return next((model for model in _table(method).index if model.lower() == own), other)


def paper_weights(
    method: str, model: str = PAPER_MODEL, source: WeightSource = "paper"
) -> LossWeights:
    """The weights of the terms: of our method (Table 5), or of a baseline (differences B12).

    `paper`: RobustViT Tables 6 (RRR) and 7 (GradMask), for one of the paper's models. `script`:
    the defaults of the published scripts, 0.8 and 0.2 for both (their flags are lambda_seg and
    lambda_acc), which no table has.
    Raises: ValueError for an unknown method, source or model.
    """
    if method == "relevance":
        return LossWeights()
    row = _row(method, model)
    if source not in get_args(WeightSource):
        raise ValueError(
            f"paper_weights: source {source!r} is unknown; use one of {get_args(WeightSource)}"
        )
    background, classification = 0.8, 0.2
    if source == "paper":
        background, classification = row["lambda_bg"], row["lambda_classification"]
    return LossWeights(
        relevance=1.0, classification=classification, background=background, foreground=0.0
    )


def paper_temperature(method: Method, model: str = "", protocol: Protocol = "published") -> float:
    """What the logits of the class term are divided by: 1 but for ours, as published, on DeiT."""
    if method != "relevance":
        return 1.0
    row = options(protocol, "confidence_loss", model.removesuffix("-cut"))
    return row.get("temperature", 1.0)


def paper_rate(method: str, model: str = PAPER_MODEL) -> float:
    """The paper's learning rate (Tables 5-7). Raises: ValueError as `paper_weights`."""
    return _row(method, model)["lr"]


def check_baseline(method: str) -> None:
    """Raise ValueError unless this is a baseline."""
    if method not in BASELINES:
        raise ValueError(f"baselines: method {method!r} is unknown; use one of {BASELINES}")


def _table(method: str) -> pd.DataFrame:
    table, name = hyperparameters(), "ours" if method == "relevance" else method
    return table[table["method"] == name].set_index("model")


def _row(method: str, model: str) -> dict[str, float]:
    """The row of Tables 5-7."""
    if method != "relevance":
        check_baseline(method)
    table = _table(method)
    if model not in table.index:
        raise ValueError(
            f"baselines: the paper has no {method} on {model!r}; use one of {list(table.index)}"
        )
    return table.loc[model, ["lambda_bg", "lambda_classification", "lr"]].astype(float).to_dict()


# Of both baselines, by where they come from.
BASELINE_WEIGHTS: dict[WeightSource, dict[Baseline, LossWeights]] = {
    source: {method: paper_weights(method, source=source) for method in BASELINES}
    for source in get_args(WeightSource)
}

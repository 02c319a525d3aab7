"""The paper's hyperparameters by method and model: weights of the terms, temperature, rate."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import get_args

import pandas as pd

from relevit.choices.words import Baseline, Method, Protocol
from relevit.losses import LOSSES
from relevit.protocols import options

BASELINES: tuple[Baseline, ...] = get_args(Baseline)
PAPER_MODEL = "vit-b"  # whose weights and rate stand for the paper's: they differ by model
# Of models that Tables 5-7 do not have, the row with the rate that the text gives: supp. L, 8e-7.
TEXT_MODELS = {("ours", "dino-b"): "deit-b"}
Weights = dict[str, float]  # of each loss, of their sum (`relevance`), and of the class term


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

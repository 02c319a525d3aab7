"""GradMask and RRR: finetuning that punishes the gradient of the answer on the background.

Source: RobustViT appendices C and D, after Simpson et al. 2019 and Ross, Hughes, Doshi-Velez
2017. total = w_class L_class + w_bg L_bg with the cross-entropy of the label and
`gradmask_loss` or `rrr_loss`.

**What the published code trains.** Its background term has no gradient (differences B9, B10):
the gradient of the total is that of the cross-entropy alone, on every parameter. `published`
keeps that, `described` differentiates through the gradient as the text's formulas say.
`relevit.finetune.proof` measures the two.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relevit.attention.class_token import class_token_only
from relevit.attention.recording import unfused_attention
from relevit.config.words import Baseline
from relevit.losses import gradmask_loss, rrr_loss
from relevit.paper.published import hyperparameters
from relevit.relevance import Protocol, check_protocol, checked_target

BASELINES: tuple[Baseline, ...] = get_args(Baseline)
WeightSource = Literal["paper", "script"]
PAPER_MODEL = "ViT-B"  # whose weights and rate stand for the paper's: they differ by model


class BaselineWeights(NamedTuple):
    """Factors of the two terms; in the scripts their flags are lambda_seg and lambda_acc."""

    background: float
    classification: float


def baseline_weights(
    method: Baseline, source: WeightSource = "paper", model: str = PAPER_MODEL
) -> BaselineWeights:
    """The weights of the two terms (differences B12).

    `paper`: RobustViT Tables 6 (RRR) and 7 (GradMask), for one of the paper's models. `script`:
    the defaults of the published scripts, 0.8 and 0.2 for both, which no table has.
    Raises: ValueError for an unknown method, source or model.
    """
    row = _published(method, model)
    if source not in get_args(WeightSource):
        raise ValueError(
            f"baseline_weights: source {source!r} is unknown; use one of {get_args(WeightSource)}"
        )
    if source == "script":
        return BaselineWeights(background=0.8, classification=0.2)
    return BaselineWeights(row["lambda_bg"], row["lambda_classification"])


def table_model(method: Literal["ours", "gradmask", "rrr"], name: str) -> str:
    """The model in the tables of a method (T5-T7) whose settings the model `name` takes.

    Its own, or ViT-B's: the baselines were not run on ViT-L and AR-L, nor on other papers' models.
    """
    table = hyperparameters().query("method == @method")["model"].tolist()
    own = name.removesuffix("-cut")
    return next((model for model in table if model.lower() == own), PAPER_MODEL)


def paper_rate(method: Literal["ours", "gradmask", "rrr"], model: str = PAPER_MODEL) -> float:
    """The paper's learning rate (Tables 5-7). Raises: ValueError as `baseline_weights`."""
    return _published(method, model)["lr"]


def rate_factor(method: str, protocol: Protocol) -> float:
    """How much higher than ours the grid of learning rates of a method lies.

    Published GradMask scales its one term so far below AdamW's eps that a step is a small part
    of the rate (differences B12: 0.013 of it on a small random network). The paper's rates make
    up for that, and so does this factor: the paper's rate over its rate for our method, of the
    same model. In `described` the background term is far above eps; its grid is ours.
    Raises: ValueError for an unknown method or protocol.
    """
    check_protocol(protocol)
    if method == "relevance":
        return 1.0
    ratio = paper_rate(method) / paper_rate("ours")
    return ratio if protocol == "published" else 1.0


def baseline_losses(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    masks: Float[Tensor, "batch 1 height width"],
    labels: Int[Tensor, " batch"],
    *,
    method: Baseline,
    protocol: Protocol = "published",
    create_graph: bool | None = None,
    temperature: float = 1.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, "batch classes"]]:
    """Background term, cross-entropy of the labels, and logits, from one forward pass (B13).

    Source: RobustViT Eq. 9 and 10. `images` are normalised, `masks` in [0, 1], 1 on the object.
    Each term has the graph that it really has: with `published` the background term's
    `requires_grad` is False. `create_graph` and errors as `gradmask_loss`; `temperature` divides
    the logits of the cross-entropy alone (A8). Computed in the dtype of the weights, outside any
    autocast: second derivatives need the digits.
    Raises: ValueError for an unknown method or protocol, labels or masks that do not fit.
    The model's fused attention is as it was afterwards.
    """
    check_protocol(protocol)
    _check_method(method)
    graph = protocol == "described" if create_graph is None else create_graph
    images = images.detach().requires_grad_()  # a new tensor: the caller's is left alone
    options = {"protocol": protocol, "create_graph": graph}
    attention = unfused_attention(model) if graph else nullcontext()
    exact = torch.autocast(images.device.type, enabled=False)
    with torch.enable_grad(), exact, attention, class_token_only(model):
        logits = model(images)
        classes = checked_target(logits, labels)
        if method == "gradmask":
            background = gradmask_loss(logits, images, masks, classes, **options)
        else:
            background = rrr_loss(logits, images, masks, **options)
        classification = cross_entropy(logits / temperature, classes)
    return background, classification, logits


def _check_method(method: str) -> None:
    if method not in BASELINES:
        raise ValueError(f"baselines: method {method!r} is unknown; use one of {BASELINES}")


def _published(method: str, model: str) -> dict[str, float]:
    """The row of Tables 5-7."""
    if method != "ours":
        _check_method(method)
    table = hyperparameters().query("method == @method").set_index("model")
    if model not in table.index:
        raise ValueError(
            f"baselines: the paper has no {method} on {model!r}; use one of {list(table.index)}"
        )
    return table.loc[model, ["lambda_bg", "lambda_classification", "lr"]].astype(float).to_dict()


# Of both methods, by where they come from.
BASELINE_WEIGHTS: dict[WeightSource, dict[Baseline, BaselineWeights]] = {
    source: {method: baseline_weights(method, source) for method in BASELINES}
    for source in get_args(WeightSource)
}

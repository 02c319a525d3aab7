"""What a search of learning rates tries: shorter runs, on a grid where the paper's rates lie."""

from __future__ import annotations

from relevit.choices.finetuning import LOSS_WEIGHTS
from relevit.choices.words import MAP_LOSSES, Protocol
from relevit.finetune.hyperparameters import paper_rate
from reproduction.params.cells import FINETUNED, Params, params_of


def rate_factor(method: str, protocol: Protocol) -> float:
    """How much higher than ours the grid of learning rates of a method lies.

    Published GradMask scales its one term so far below AdamW's eps that a step is a small part
    of the rate (differences B12: 0.013 of it on a small random network). The paper's rates make
    up for that, and so does this factor: the paper's rate over its rate for our method, of the
    same model. In `described` the background term is far above eps; its grid is ours.
    """
    if method in MAP_LOSSES or protocol == "described":
        return 1.0
    return paper_rate(method) / paper_rate("relevance")


def arm_params(cfg: Params, base: Params, model: str, method: str, protocol: Protocol) -> Params:
    """The parameters of the runs of one method: those of `base`, the preset's own, but shorter.

    Their length is that of `cfg`, the weights of a baseline's losses are the paper's.
    Raises: ValueError.
    """
    arm = {
        "model": model,
        "method": method,
        "protocol": protocol,
        "epochs": cfg.epochs,
        "images_per_class": cfg.images_per_class,
        "validation_images": cfg.validation_images,
        "validation_maps": cfg.validation_maps,
    }
    papers = {} if method in MAP_LOSSES else dict.fromkeys(LOSS_WEIGHTS)
    return params_of(FINETUNED).checked(base.model_dump() | arm | papers, f"{method} {protocol}")

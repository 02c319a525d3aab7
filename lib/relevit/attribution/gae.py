"""Generic attention explainability (GAE): the relevance map that RobustViT trains on.

Source: Chefer, Gur, Wolf 2021 (ICCV), as used in RobustViT Sec. 3 and App. B. With A the
attention map of a block and grad A the gradient of one class's logit,

    R <- I,   A_bar = mean over heads of (grad A * A)^+,   R <- R + A_bar R,

block by block, and the class token's row of R over the patches is the relevance map. A model
whose head averages the patches has no such row: there it is the mean of the patches' rows
(Beyond Intuition, differences D1).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs, frozen_weights, record_attention
from relevit.attention.token_rows import (
    carry_rows,
    head_pooling,
    pool_rows,
    prefix_tokens,
    read_rows,
)
from relevit.attribution.method import Target, checked_target, method
from relevit.config.words import TrainedMap


@method()
def gae(
    model: nn.Module, images: Inputs, target: Target = None, *, exact_gradient: bool = False
) -> Float[Tensor, "batch patches"]:
    """Relevance of every patch for one class, patches row by row.

    Source: RobustViT App. B. `target` None is the predicted class (differences A5: training uses
    the label, the segmentation test the prediction). Identity over class token and patches (A3),
    clamp before the head mean (A4): text and code agree on both. With `exact_gradient` the result
    is differentiable through A and through grad A (A2); otherwise it is detached and cheaper.
    """
    if exact_gradient:
        return relevance_and_logits(model, images, target, exact_gradient=True)[0]
    with frozen_weights(model), torch.enable_grad():
        relevance, _ = relevance_and_logits(model, images, target, keep_graph=False)
    return relevance.detach()


def relevance_and_logits(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    exact_gradient: bool = False,
    keep_graph: bool = True,
    explanation: TrainedMap = "gae",
) -> tuple[Float[Tensor, "batch patches"], Float[Tensor, "batch classes"]]:
    """One forward pass, one gradient call: the relevance map in the graph, and the logits.

    For training: the model works in the mode that it has, with its dropout in train mode.
    `exact_gradient=False` takes grad A as a constant, as the published code does (differences A2);
    `True` keeps its graph too: the gradient that the text's formulas have.
    `explanation` puts another map in GAE's place (RobustViT supp. J; no published code, B21):
    `attention` is the last block's, averaged over heads, `rollout` the rows of
    (A_L + I) ... (A_1 + I). Neither depends on the class.
    """
    pooling, prefix = head_pooling(model), prefix_tokens(model)
    with record_attention(model, last_only=explanation == "attention") as tape:
        logits = model(images)
    classes = checked_target(logits, target)
    if explanation == "attention":
        rows = read_rows(tape.maps[0].mean(dim=1), pooling, prefix)
    elif explanation == "rollout":
        rows = carry_rows([a.mean(dim=1) for a in tape.maps], pooling, prefix)
    else:
        score = logits.gather(1, classes[:, None]).sum()
        gradients = torch.autograd.grad(
            score, tape.maps, retain_graph=keep_graph or exact_gradient, create_graph=exact_gradient
        )
        pairs = zip(gradients, tape.maps, strict=True)
        matrices = [(slope * attention).clamp(min=0).mean(dim=1) for slope, attention in pairs]
        rows = carry_rows(matrices, pooling, prefix)
    return pool_rows(rows, pooling, prefix), logits

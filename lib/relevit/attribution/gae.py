"""Generic attention explainability (GAE): the relevance map that RobustViT trains on.

Source: Chefer, Gur, Wolf 2021 (ICCV), as used in RobustViT Sec. 3 and App. B. With A the
attention map of a block and grad A the gradient of one class's logit,

    R <- I,   A_bar = mean over heads of (grad A * A)^+,   R <- R + A_bar R,

block by block, and the class token's row of R over the patches is the relevance map. A model
whose head averages the patches has no such row: there it is the mean of the patches' rows
(Beyond Intuition, differences D1).
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.attribution.method import Target
from relevit.attribution.seen import Map, Matrices, Seen, average_heads, observe, reads
from relevit.config.words import TrainedMap


@reads("all")
def gae(seen: Seen) -> Map:
    """Relevance of every patch for one class, patches row by row.

    Source: RobustViT App. B. `target` None is the predicted class (differences A5: training uses
    the label, the segmentation test the prediction). Identity over class token and patches (A3),
    clamp before the head mean (A4): text and code agree on both. With `exact_gradient` the result
    is differentiable through A and through grad A (A2); otherwise it is detached and cheaper.
    """
    return seen.pool(seen.propagate(positive_part(seen)))


@reads("all")
def ga(seen: Seen, *, start_block: int = 1, mean_first: bool = False) -> Map:
    """GAE as Beyond Intuition compares with it, where it is the baseline GA.

    `mean_first` takes the mean over heads of grad A * A and then clamps, where GAE clamps first
    (differences C1).
    """
    return seen.pool(seen.propagate(positive_part(seen, mean_first=mean_first), start_block))


def positive_part(seen: Seen, *, mean_first: bool = False) -> Matrices:
    """A_bar of every block: the attention weighted by its gradient, where that speaks for it."""
    products = [slope * a for slope, a in zip(seen.gradients, seen.maps, strict=True)]
    if mean_first:
        return [product.mean(dim=1).clamp(min=0) for product in products]
    return [product.clamp(min=0).mean(dim=1) for product in products]


def relevance_and_logits(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    exact_gradient: bool = False,
    explanation: TrainedMap = "gae",
    last: int | None = None,
) -> tuple[Map, Float[Tensor, "batch classes"]]:
    """One forward pass, one gradient call: the relevance map in the graph, and the logits.

    For training: the model works in the mode that it has, with its dropout in train mode.
    `exact_gradient=False` takes grad A as a constant, as the published code does (differences A2);
    `True` keeps its graph too: the gradient that the text's formulas have.
    `explanation` puts another map in GAE's place (RobustViT supp. J; no published code, B21):
    `attention` is the last block's, averaged over heads, `rollout` the rows of
    (A_L + I) ... (A_1 + I). Neither depends on the class. `last` is the number of blocks that the
    map is of, counted from the end (None: all).
    """
    seen = observe(
        model,
        images,
        target,
        gradients="all" if explanation == "gae" else "none",
        exact_gradient=exact_gradient,
        in_graph=True,
        last=1 if explanation == "attention" else last,
    )
    if explanation == "attention":
        rows = seen.rows(average_heads(seen)[-1])
    else:
        matrices = positive_part(seen) if explanation == "gae" else average_heads(seen)
        rows = seen.propagate(matrices)
    return seen.pool(rows), seen.logits

"""Generic attention explainability (GAE): the relevance map that RobustViT trains on.

Source: Chefer, Gur, Wolf 2021 (ICCV), as used in RobustViT Sec. 3 and App. B. With A the
attention map of a block and grad A the gradient of one class's logit,

    R <- I,   A_bar = mean over heads of (grad A * A)^+,   R <- R + A_bar R,

block by block, and the class token's row of R over the patches is the relevance map. A model
whose head averages the patches has no such row: there it is the mean of the patches' rows
(Beyond Intuition, differences D1).
"""

from __future__ import annotations

from relevit.attribution.seen import Map, Matrices, Seen, reads


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

"""Generic attribution (GA): GAE, for ViTs with the mean over heads taken before the clamp."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling, carry_rows, pool_rows
from relevit.attribution.observe import baseline_pooling, first_block, model_family, observe
from relevit.relevance import Protocol, Target, explaining


@explaining
def ga(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    protocol: Protocol = "published",
    start_block: int | None = None,
    pooling: Pooling | None = None,
    create_graph: bool = False,
) -> Float[Tensor, "batch patches"]:
    """R <- R + A_bar R over the blocks, A_bar the attention weighted by its gradient.

    Source: Beyond Intuition's baseline GA. `published` takes the mean over heads of
    grad A * A and then clamps; `described` clamps first, as GAE does and as the scripts for BERT
    and CLIP do too (differences C1). For ViTs the published perturbation test starts at block 2,
    the segmentation test at 1 (C2); None is 2, and `evaluate.method_maps` makes both. For BERT and
    CLIP it is the last block (D8, D11). Of DINO `published` reads the class token (D5).
    Raises: as `observe` and `first_block`.
    """
    start = first_block(model, start_block, protocol, "ga")
    pooling = baseline_pooling(model, pooling, protocol)
    seen = observe(
        model, images, target, gradients="all", pooling=pooling, create_graph=create_graph
    )
    clamp_first = protocol == "described" or model_family(model) != "vit"
    matrices = []
    for attention, gradient in zip(seen.maps, seen.gradients, strict=True):
        product = attention * gradient
        product = product.clamp(min=0).mean(dim=1) if clamp_first else product.mean(dim=1)
        matrices.append(product.clamp(min=0))
    rows = carry_rows(matrices, seen.pooling, seen.prefix, start)
    return pool_rows(rows, seen.pooling, seen.prefix)

"""How well each recurrence foretells the tokens after a block (Beyond Intuition Fig. 3).

The published code has no such test (differences D13); this is the text's.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attribution import method_options
from relevit.attribution.beyond_intuition import scale_branch, weigh_heads, weigh_tokens
from relevit.maps import need_plain, observe, over_heads
from relevit.protocols import Protocol


def approximation_errors(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    protocol: Protocol = "described",
) -> pd.DataFrame:
    """Squared error of each recurrence, block by block, for the predicted class.

    Source: Beyond Intuition Sec. 3.2, `|Z_l - (A~ + I) Z_(l-1) W_MLP|^2` with the true tokens
    before each block and W_MLP = W1 W2 + I, norms, activation and biases left out (BI-05).
    A~ is the attention averaged over heads for rollout, and weighed by heads or by tokens as in
    the two methods. Columns: method, block (from 1), index (image), squared_error (summed over
    tokens and channels).
    """
    after_last: list[Tensor] = []
    keep = model.blocks[-1].register_forward_hook(
        lambda _, args, made: after_last.append(made.detach())
    )
    try:
        seen = observe(model, images, gradients="all")
    finally:
        keep.remove()
    rules = {name: method_options(model, name, protocol) for name in ("head_wise", "token_wise")}
    for own in rules.values():
        own.pop("start_block", None)  # each block is judged by itself
    parts = []
    with torch.no_grad():
        tokens = zip(model.blocks, seen.inputs, [*seen.inputs[1:], *after_last], strict=True)
        recurrences = {
            "rollout": [over_heads(attention) for attention in seen.maps],
            "head_wise": weigh_heads(seen, **rules["head_wise"]),
            "token_wise": weigh_tokens(model, seen, **rules["token_wise"]),
        }
        blocks = list(enumerate(tokens, start=1))
        for method, matrices in recurrences.items():
            for (number, (block, before, after)), matrix in zip(blocks, matrices, strict=True):
                mixed = before + matrix @ before
                inner = mixed
                for name in ("fc1", "fc2"):
                    place = f"approximation_errors: blocks.{number - 1}.mlp.{name}"
                    layer = getattr(block.mlp, name, None)
                    inner = inner @ need_plain(layer, place).weight.T
                guess = mixed + scale_branch(block, 2, inner)
                error = (after - guess).square().sum(dim=(1, 2))
                rows = {"index": range(len(images)), "squared_error": error.cpu().double().numpy()}
                parts.append(pd.DataFrame({"method": method, "block": number, **rows}))
    return pd.concat(parts, ignore_index=True)


def error_table(errors: pd.DataFrame) -> pd.DataFrame:
    """Over images: method, block, mean_squared_error, std_squared_error, images."""
    groups = errors.groupby(["method", "block"], sort=False)["squared_error"]
    return groups.agg(
        mean_squared_error="mean", std_squared_error="std", images="size"
    ).reset_index()

"""AttnLRP: layer-wise relevance propagation that goes through the softmax of attention too."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs, attention_layers
from relevit.attention.token_rows import prefix_tokens
from relevit.attribution.backward_rules import SHARED, Rule, Rules, explain_by_rules, product
from relevit.attribution.method import Target, method
from relevit.attribution.pixels.pixel_gradients import sum_over_patches
from relevit.attribution.seen import Map

GAMMA = 0.05


@method()
def attn_lrp(model: nn.Module, images: Inputs, target: Target = None, **options: Any) -> Map:
    """The map of `attn_lrp_and_logits`, whose the `options` are. Signed.

    Source: Achtibat et al. 2024 (ICML), Sec. 3 and App. B.
    """
    return attn_lrp_and_logits(model, images, target, **options)[0]


def attn_lrp_and_logits(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    gamma: float | None = None,
    last: int | None = None,
    in_graph: bool = False,
) -> tuple[Map, Float[Tensor, "batch classes"]]:
    """Relevance of every patch for one class's logit, signed, and the logits.

    Epsilon rule at linear layers, half to each factor of a product, the softmax by its first
    Taylor term, norms and activations as constant multiples. `gamma` strengthens, at the linear
    layers outside of attention, the products that have the sign of their sum (None: 0.05 for
    images, one of the values that the authors search over; 0 for text, as in the paper). Summed
    over a patch's pixels, or over a token of a text. `last` stops at the tokens before the last so
    many blocks. With `in_graph` map and logits are differentiable, the map exactly and the logits
    as ever. The model works in the mode it has.
    Raises: ValueError for a bad target or gamma, for a model without global self-attention, and
    where the map is of pixels as `need_pixels`.
    """
    gamma = (GAMMA if images.ndim == 4 else 0.0) if gamma is None else gamma
    if gamma < 0:
        raise ValueError(f"gamma {gamma}: the rule takes 0 (which is the epsilon rule) or more")
    spared = {id(part) for layer in attention_layers(model) for part in layer.parameters()}
    table = dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__), product)
    if gamma > 0:
        table[F.linear] = partial(gamma_rule, gamma=gamma, spared=spared)
    found, logits = explain_by_rules(
        model,
        images,
        target,
        Rules(SHARED | table),
        of="images" if last is None else "tokens",
        last=last,
        in_graph=in_graph,
    )
    if last is None and images.ndim == 4:
        return sum_over_patches(model, found[0].sum(dim=1)), logits
    return found[0].sum(dim=2)[:, prefix_tokens(model) :], logits


def gamma_rule(
    rules: Rules,
    function: Rule,
    inputs: Float[Tensor, "*batch in"],
    weight: Float[Tensor, "out in"],
    bias: Float[Tensor, " out"] | None = None,
    *,
    gamma: float,
    spared: set[int],
) -> Float[Tensor, "*batch out"]:
    """A linear layer; products of the sign of their sum, and such a bias, count 1 + gamma times.

    They are half of the sum plus half of all sizes with that sign. `spared` layers, by the `id` of
    their weight, have the epsilon rule.
    """
    made = function(inputs, weight, bias)
    if id(weight) in spared:
        return made
    sizes = function(inputs.abs(), weight.abs(), None if bias is None else bias.abs())
    total = made.abs() + gamma / 2 * (made.abs() + sizes)
    share = made.abs() / total.clamp(min=torch.finfo(total.dtype).tiny)
    return made.sign() * total * rules.held(share)

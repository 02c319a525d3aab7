"""AttnLRP: layer-wise relevance propagation that goes through the softmax of attention too.

Achtibat et al. 2024 leave the rule of a ViT's linear layers and of its patch convolution to a
search. The variant here has the gamma rule at the layers of the MLPs and the head, gamma 0.05, and
the epsilon rule in attention and, unless `patch_gamma` is given, at the patch convolution. The
paper's composite for ViT has the gamma rule there as well, 0.25: `patch_gamma=0.25`. What their
package sets up for torchvision's ViT is another method inside attention: no relevance goes through
the softmax (CP-LRP).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attribution.backward_rules import SHARED, Rules, product
from relevit.attribution.pixels import need_pixels, sum_over_patches
from relevit.maps import (
    Inputs,
    Map,
    Target,
    attention_layers,
    block_part,
    method,
    need_plain,
    plain_layers,
    wide,
)

GAMMA = 0.05


@method()
def attn_lrp(model: nn.Module, images: Inputs, target: Target = None, **options: Any) -> Map:
    """The map of `attn_lrp_and_logits`, whose the `options` are. Signed.

    Source: Achtibat et al. 2024 (ICML), Sec. 3 and App. B; which variant it is says this file.
    """
    return attn_lrp_and_logits(model, images, target, **options)[0]


def attn_lrp_and_logits(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    gamma: float | None = None,
    patch_gamma: float = 0.0,
    last: int | None = None,
    in_graph: bool = False,
) -> tuple[Map, Float[Tensor, "batch classes"]]:
    """Relevance of every patch for one class's logit, signed, and the logits.

    Epsilon rule at linear layers, half to each factor of a product, the softmax by its first
    Taylor term, norms and activations as constant multiples. `gamma` strengthens, at the linear
    layers outside of attention, the products that have the sign of their sum (None: 0.05 for
    images, one of the values that the authors search over; 0 for text, as in the paper), and
    `patch_gamma` those of the patch convolution. Summed over a patch's pixels, or over a token of
    a text. `last` stops at the tokens before the last so many blocks, and so before the
    convolution. With `in_graph` map and logits are differentiable, the map exactly and the logits
    as ever. The model works in the mode it has.
    Raises: ValueError for a bad target or gamma, for a model without global self-attention, where
    the map is of pixels as `need_pixels`, and for a layer that is not torch's own (`need_plain`).
    """
    gamma = (GAMMA if images.ndim == 4 else 0.0) if gamma is None else gamma
    for name, value in (("gamma", gamma), ("patch_gamma", patch_gamma)):
        if value < 0:
            raise ValueError(
                f"{name} {value}: the rule takes 0 (which is the epsilon rule) or more"
            )
    table = dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__), product)
    rules, layers = Rules(SHARED | table), []
    if gamma > 0:
        layers = [(layer, gamma) for layer in linear_layers(model)]
    images = images.detach().requires_grad_(last is None)
    if last is None and patch_gamma > 0:
        need_pixels(model)  # refuses what makes its tokens of anything but pixels
        name = f"attn_lrp: patch_embed.proj of this {type(model).__name__}"
        layers.append((need_plain(model.patch_embed.proj, name, nn.Conv2d), patch_gamma))
    with gamma_rules(rules, layers):
        seen = rules.run(model, images, target, last=last, in_graph=in_graph)
    wanted = images if last is None else seen.inputs[0]
    [found] = rules.shares(seen.score, [wanted], create_graph=in_graph)
    found = found.to(wide(found))
    if last is None and images.ndim == 4:
        found = sum_over_patches(model, found.sum(dim=1))
    else:
        found = found.sum(dim=2)[:, seen.prefix :]
    return (found, seen.logits) if in_graph else (found.detach(), seen.logits.detach())


def linear_layers(model: nn.Module) -> list[nn.Module]:
    """The linear layers outside of attention. Raises: ValueError for one that is not torch's."""
    inside = attention_layers(model)  # which says where there are none
    inside += [block_part(model, block, "attn.proj") for block in model.blocks]  # BERT's is beside
    spared = {part for layer in inside if layer is not None for part in layer.modules()}
    return plain_layers(model, "attn_lrp", spared)


@contextmanager
def gamma_rules(rules: Rules, layers: list[tuple[nn.Module, float]]) -> Iterator[None]:
    """These layers have the gamma rule in passes made inside, each with its own gamma."""
    with ExitStack() as stack:
        for layer, gamma in layers:
            hook = partial(_strengthened, rules, gamma)
            stack.callback(layer.register_forward_hook(hook).remove)
        yield


def _strengthened(
    rules: Rules, gamma: float, layer: nn.Module, args: tuple[Tensor, ...], made: Tensor
) -> Tensor:
    """What a layer made, with the gamma rule."""
    function = layer._conv_forward if isinstance(layer, nn.Conv2d) else F.linear
    with rules.pause():
        return gamma_rule(rules, function, args[0], layer.weight, layer.bias, made, gamma)


def gamma_rule(
    rules: Rules,
    function: Any,
    inputs: Float[Tensor, "*batch"],
    weight: Float[Tensor, "out *in"],
    bias: Float[Tensor, " out"] | None,
    made: Float[Tensor, "*others"],
    gamma: float,
) -> Float[Tensor, "*others"]:
    """What a linear layer `made`; products of its sign, and such a bias, count 1 + gamma times.

    They are half of the sum plus half of all sizes with that sign.
    """
    sizes = function(inputs.abs(), weight.abs(), None if bias is None else bias.abs())
    total = made.abs() + gamma / 2 * (made.abs() + sizes)
    share = made.abs() / total.clamp(min=torch.finfo(total.dtype).tiny)
    return made.sign() * total * rules.held(share)

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

from relevit.attention.recording import Inputs, alone, attention_layers, block_part
from relevit.attribution.backward_rules import SHARED, Rules, product
from relevit.attribution.layers import alike, is_plain, matrix_of
from relevit.attribution.method import Target, method
from relevit.attribution.pixels import need_pixels, sum_over_patches
from relevit.attribution.seen import Map

GAMMA = 0.05
PATCHES = "patch_embed.proj"
HEADS = ("head", "head_dist", "fc_norm.dense")


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
    the map is of pixels as `need_pixels`, and for a layer that does more than a matrix and a bias.
    """
    gamma = (GAMMA if images.ndim == 4 else 0.0) if gamma is None else gamma
    for name, value in (("gamma", gamma), ("patch_gamma", patch_gamma)):
        if value < 0:
            raise ValueError(
                f"{name} {value}: the rule takes 0 (which is the epsilon rule) or more"
            )
    table = dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__), product)
    rules, layers = Rules(SHARED | table), {}
    if gamma > 0:
        layers = {path: (layer, gamma) for path, layer in linear_layers(model).items()}
    images = images.detach().requires_grad_(last is None)
    if last is None and patch_gamma > 0:
        need_pixels(model)  # refuses what makes its tokens of anything but pixels
        layers[PATCHES] = model.patch_embed.proj, patch_gamma
    with gamma_rules(model, rules, layers):
        seen = rules.run(model, images, target, last=last, in_graph=in_graph)
    wanted = images if last is None else seen.inputs[0]
    [found] = rules.shares(seen.score, [wanted], create_graph=in_graph)
    if last is None and images.ndim == 4:
        found = sum_over_patches(model, found.sum(dim=1))
    else:
        found = found.sum(dim=2)[:, seen.prefix :]
    return (found, seen.logits) if in_graph else (found.detach(), seen.logits.detach())


def linear_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The linear layers outside of attention by their path, and what stands in the place of one.

    Of the latter, an adapter say, the layers inside are among them too.
    """
    attentions = attention_layers(model)  # which says where there are none
    places = [f"blocks.{i}.mlp." for i in range(len(attentions))]
    spared = {part for layer in attentions for part in layer.modules()}
    outer = (block_part(model, block, "attn.proj") for block in model.blocks)
    spared |= {part for layer in outer if layer is not None for part in layer.modules()}
    found = {}
    for path, part in model.named_modules():
        parent = path.rpartition(".")[0] + "."
        in_place = (path in HEADS or parent in places) and any(
            weight.ndim > 1 for weight in part.parameters()
        )
        if part not in spared and (isinstance(part, nn.Linear) or in_place):
            found[path] = part
    return found


@contextmanager
def gamma_rules(
    model: nn.Module, rules: Rules, layers: dict[str, tuple[nn.Module, float]]
) -> Iterator[None]:
    """These layers have the gamma rule in passes made inside, each with its own gamma."""
    with alone(model), ExitStack() as stack:
        for path, (layer, gamma) in layers.items():
            plain = is_plain(layer)  # before it has a hook
            name = f"{path} of this {type(model).__name__}"
            hook = partial(_strengthened, rules, gamma, name, plain)
            stack.callback(layer.register_forward_hook(hook).remove)
        yield


def _strengthened(
    rules: Rules,
    gamma: float,
    name: str,
    plain: bool,
    layer: nn.Module,
    args: tuple[Tensor, ...],
    made: Tensor,
) -> Tensor | None:
    """What a layer made, with the gamma rule; None leaves it as it is.

    One that is more than torch's own is called for what it does, so that all its parts count as
    one layer; then what the layers inside it made is not used.
    """
    if rules.paused:
        return None
    inputs, patches = args[0], isinstance(layer, nn.Conv2d)
    function = layer._conv_forward if patches else F.linear
    with rules.pause():
        found = (layer.weight, layer.bias) if plain or patches else matrix_of(layer, inputs)
        again = made if plain else function(inputs, *found)
        if plain or alike(again, made):
            return gamma_rule(rules, function, inputs, *found, again, gamma)
    if isinstance(layer, nn.Linear) or hasattr(layer, "weight") or hasattr(layer, "in_features"):
        raise ValueError(
            f"attn_lrp: {name} is a {type(layer).__name__} that does more than a matrix and a "
            "bias, for which there is no gamma rule; merge an adapter (merge_and_unload() in peft) "
            "or put its dropout into eval mode, dequantise, remove hooks, or give gamma=0"
        )
    return None  # no single layer: those inside it have the rule


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

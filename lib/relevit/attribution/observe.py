"""One forward pass over the images, and what the methods need of it."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attention.recording import Inputs, attention_layers, frozen_weights, record_attention
from relevit.attention.token_rows import Pooling, head_pooling, prefix_tokens
from relevit.relevance import Protocol, Target, check_protocol, checked_target

# The first block that each published script counts: for ViTs (differences C2, C3, C15, C16), for
# BERT (D8) and for CLIP (D11: the script behind Table 3 passes one start to both of ours). What is
# not named begins at the first. GA's is the perturbation test's; the segmentation test has all
# blocks (`relevit.evaluate.methods.OUTLINING`).
PUBLISHED_STARTS = {
    "vit": {"rollout": 2, "ga": 2, "transformer_attribution": 2, "head_wise": 4, "token_wise": 7},
    "bert": {"ga": 12, "transformer_attribution": 12, "head_wise": 12, "token_wise": 9},
    "clip": {"ga": 12, "head_wise": 12, "token_wise": 12},
}


@dataclass(frozen=True)
class Observation:
    """Maps of all blocks, first block first, with the gradients of one class's logit.

    The last map and gradient hold the class token's query row alone where that is all the head
    reads. `gradients` has an entry for each map, or for the last one, or none, as asked for.
    `inputs` are the tokens before each block.
    """

    maps: list[Float[Tensor, "batch heads _query tokens"]]
    gradients: list[Float[Tensor, "batch heads _query tokens"]]
    inputs: list[Float[Tensor, "batch tokens width"]]
    logits: Float[Tensor, "batch classes"]
    target: Int[Tensor, " batch"]
    pooling: Pooling
    prefix: int


def observe(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    gradients: Literal["none", "last", "all"] = "none",
    pooling: Pooling | None = None,
    whole: bool = False,
    create_graph: bool = False,
) -> Observation:
    """Run the model once; `whole=True` keeps every row of the last map.

    With `create_graph=True` maps and gradients are differentiable with respect to the weights;
    otherwise they are detached and the weights are frozen meanwhile, which is cheaper.
    Raises: ValueError for a bad target or pooling, or a model without global self-attention.
    """
    pooling = head_pooling(model, pooling)
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(create_graph or gradients != "none"))
        if not create_graph:
            stack.enter_context(frozen_weights(model))
        short = pooling == "class_token" and not whole
        with record_attention(model, inputs=True, class_row=short) as tape:
            logits = model(images)
        target = checked_target(logits, target)
        wanted = {"none": [], "last": tape.maps[-1:], "all": tape.maps}[gradients]
        found = ()
        if wanted:
            score = logits.gather(1, target[:, None]).sum()
            found = torch.autograd.grad(
                score, wanted, retain_graph=create_graph, create_graph=create_graph
            )
    maps, inputs = tape.maps, tape.inputs
    if not create_graph:
        maps, inputs = ([tensor.detach() for tensor in kept] for kept in (maps, inputs))
        logits = logits.detach()
    return Observation(maps, list(found), inputs, logits, target, pooling, prefix_tokens(model))


def baseline_pooling(
    model: nn.Module, pooling: Pooling | None, protocol: Protocol
) -> Pooling | None:
    """The `pooling` of raw attention, rollout, GradCAM and GA: as asked for, or the head's.

    For a head that reads class token and mean, DINO's, the published code has the rule `both` in
    Ours, transformer attribution and partial LRP alone: these four read the class token (D5).
    """
    if protocol == "published" and pooling is None and head_pooling(model) == "both":
        return "class_token"
    return pooling


def first_block(model: nn.Module, start_block: int | None, protocol: Protocol, method: str) -> int:
    """The first block that counts, from 1; earlier ones are left out of the product.

    None means 1 as the papers describe it, and as published the block that the authors' scripts
    pass, see PUBLISHED_STARTS. Their models have 12 blocks or more: on a shallower one it is the
    same share of the depth.
    Raises: ValueError for a block below 1, or as described beyond the last. As published that
    leaves no block at all, and the map is zero. ValueError for a model without such blocks.
    """
    check_protocol(protocol)
    depth = len(attention_layers(model))
    if start_block is None:
        published = PUBLISHED_STARTS[model_family(model)].get(method, 1)
        return math.ceil(published * min(1, depth / 12)) if protocol == "published" else 1
    if start_block < 1 or (start_block > depth and protocol == "described"):
        raise ValueError(
            f"start_block {start_block}: blocks are counted from 1 and this model has {depth}; "
            f"choose one in 1..{depth}"
        )
    return start_block


def model_family(model: nn.Module) -> str:
    """Whose published settings belong to a model: `vit` unless its `family` says otherwise."""
    return getattr(model, "family", "vit")


def scaled_to_one(maps: Float[Tensor, "batch patches"]) -> Float[Tensor, "batch patches"]:
    """Each map from 0 to 1, as the published code returns some (differences C19).

    A constant map becomes NaN, as it does there.
    """
    low = maps.amin(dim=1, keepdim=True)
    return (maps - low) / (maps.amax(dim=1, keepdim=True) - low)

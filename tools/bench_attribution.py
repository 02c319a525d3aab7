"""Attribution methods: the published order of work, and ours.

Token-wise and head-wise as published (Beyond Intuition's code): for every point of the path and
one image at a time, a forward pass that keeps all attention maps and a backward pass down to all
weights; then the perception by N x N matrices. The code makes one more such pass for the
perception, which is left out here: the image is the path's last point. The floor is a forward
pass of all points as one batch, without gradients and with fused attention.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bench_core import Numbers, Table, Variant
from relevit.attribution import METHODS, method_options
from relevit.maps import Tape, record_attention
from relevit.protocols import PUBLISHED

PUBLISHED_STEPS = PUBLISHED["path"]["steps"]
OURS_TARGETS = (("published", "ours", ">=", 3.4), ("ours", "floor", "", None))
TABLES = (
    Table("token_wise", "vit_b", 4, OURS_TARGETS),
    Table("head_wise", "vit_b", 4, OURS_TARGETS),
)


def backward_to_all_weights(model: nn.Module, image: Tensor, label: Tensor) -> Tape:
    """One forward and one backward pass; the maps of the tape have their gradients."""
    with record_attention(model) as tape:
        logits = model(image)
    for attention in tape.maps:
        attention.retain_grad()
    model.zero_grad()
    logits.gather(1, label[:, None]).sum().backward(retain_graph=True)
    return tape


@torch.no_grad()
def head_wise_matrix(block: nn.Module, tokens: Tensor, attention: Tensor, slope: Tensor) -> Tensor:
    """Attention of one image, its heads weighed by their share in the class score."""
    importance = (attention.transpose(-1, -2) @ slope).abs().mean(dim=(-1, -2))
    share = importance / importance.sum()
    return (share @ attention.flatten(1)).unflatten(0, attention.shape[1:])


@torch.no_grad()
def token_wise_matrix(block: nn.Module, tokens: Tensor, attention: Tensor, slope: Tensor) -> Tensor:
    """Mean attention of one image, its keys weighed by the length of their value."""
    value = block.attn.qkv(block.norm1(tokens)).chunk(3, dim=-1)[2]
    gain = linear(value, block.attn.proj.weight).norm(dim=-1) / tokens.norm(dim=-1)
    return attention.mean(dim=0) @ torch.diag_embed(gain)


MATRICES = {"token_wise": token_wise_matrix, "head_wise": head_wise_matrix}


def published_map(model: nn.Module, image: Tensor, label: Tensor, name: str) -> Tensor:
    """Perception times feedback of one image, [1, patches]."""
    total = 0.0
    for share in torch.linspace(0, 1, PUBLISHED_STEPS, dtype=torch.float64).tolist():
        tape = backward_to_all_weights(model, image * share, label)
        total = total + tape.maps[-1].grad
    joint = torch.eye(total.shape[-1]).to(image)
    start = method_options(model, name, "published")["start_block"]
    for i in range(start - 1, len(tape.maps)):
        attention = tape.maps[i]
        matrix = MATRICES[name](model.blocks[i], tape.inputs[i][0], attention[0], attention.grad[0])
        joint = joint + matrix @ joint
    model.zero_grad()
    feedback = (total / PUBLISHED_STEPS).clamp(min=0).mean(dim=1)
    return (feedback * joint)[:, 0, 1:]


def forwards(model: nn.Module, images: Tensor, *_: Tensor) -> Numbers:
    """Forward passes alone, as many as the path has points."""
    with torch.inference_mode():
        return {"logits": [model(images.repeat_interleave(PUBLISHED_STEPS, dim=0))]}


def one_by_one(model: nn.Module, images: Tensor, _: Tensor, labels: Tensor, rule) -> Numbers:
    """Maps by `rule(model, image, label)`, image by image."""
    pairs = zip(images.split(1), labels.split(1), strict=True)
    return {"map": [torch.cat([rule(model, *pair).detach() for pair in pairs])]}


def ours(model: nn.Module, images: Tensor, _: Tensor, labels: Tensor, name: str) -> Numbers:
    """Maps of all images at once, by this library."""
    return {"map": [METHODS[name](model, images, labels)]}


TASKS: dict[str, dict[str, Variant]] = {
    name: {
        "published": partial(one_by_one, rule=partial(published_map, name=name)),
        "ours": partial(ours, name=name),
        "floor": forwards,
    }
    for name in MATRICES
}

"""GAE against a slow computation that follows the paper's formulas word by word.

What holds for every attribution method is in `test_methods.py`, for GAE too.
"""

from __future__ import annotations

import pytest
import torch

from relevit.attribution import gae, relevance_and_logits

from ..attribution_cases import read_tokens, same_gradients
from ..conftest import KINDS

PROTOCOLS = ("published", "described")


def score_and_maps(model, image, label):
    """One image's logit of a class, and every block's attention map in its graph."""
    maps, handles = [], []
    for block in model.blocks:
        block.attn.fused_attn = False
        handles.append(
            block.attn.attn_drop.register_forward_hook(lambda *args: maps.append(args[-1]))
        )
    score = model(image[None])[0, label]
    for handle in handles:
        handle.remove()
    return score, maps


def gae_by_the_book(model, images, target, *, exact=False, last=0):
    """One image after the other: R <- R + A_bar R as full matrices, one gradient a block.

    The class token's row, or for a model that averages its patches the mean of their rows.
    """
    prefix, read = model.num_prefix_tokens, read_tokens(model)
    rows = []
    for image, label in zip(images, target, strict=True):
        score, maps = score_and_maps(model, image, label)
        relevance = torch.eye(maps[0].shape[-1]).double()
        for attention in maps[-last:]:
            (gradient,) = torch.autograd.grad(
                score, attention, retain_graph=True, create_graph=exact
            )
            positive = torch.relu(gradient * attention)[0]
            relevance = relevance + (positive.sum(0) / len(positive)) @ relevance
        rows.append(relevance[read, prefix:].mean(dim=0))
    return torch.stack(rows)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-15)


CASES = [
    *((kind, {}) for kind in KINDS),
    ("plain", {"depth": 5}),  # two blocks hardly tell the order of the recursion apart; five do
    ("average", {"class_token": False, "depth": 3}),
    ("average", {"class_token": False, "depth": 3, "reg_tokens": 2}),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("kind", "options"), CASES)
def test_gae_equals_the_computation_by_the_book(build_vit, images, kind, options, protocol):
    model, target = build_vit(kind, **options), torch.tensor([4, 0, 2])
    expected = gae_by_the_book(build_vit(kind, **options), images, target).detach()
    assert expected.std(dim=1).min() > 0, "the map is too flat to tell anything"
    close(gae(model, images, target, protocol=protocol), expected)
    exact = gae(model, images, target, protocol=protocol, exact_gradient=True)
    close(exact.detach(), expected)


@pytest.mark.parametrize("last", [1, 3, 5])
def test_map_of_the_last_blocks_is_the_propagation_through_those_alone(build_vit, images, last):
    model, target = build_vit(depth=5), torch.tensor([4, 0, 2])
    for weight in model.blocks[: 5 - last].parameters():
        weight.requires_grad_(False)  # as in training the last blocks alone
    ours, logits = relevance_and_logits(model, images, target, last=last)
    close(ours, gae_by_the_book(build_vit(depth=5), images, target, last=last))
    close(logits, model(images))
    rollout, _ = relevance_and_logits(model, images, target, explanation="rollout", last=last)
    for image, row in zip(images, rollout, strict=True):
        relevance = torch.eye(17).double()
        for attention in score_and_maps(model, image, 0)[1][-last:]:
            relevance = relevance + attention[0].mean(0) @ relevance
        close(row, relevance[0, 1:])


# Gradients of the map


@pytest.mark.parametrize("kind", ["plain", "registers", "average"])
@pytest.mark.parametrize("exact", [False, True])
def test_gradient_of_the_map(build_vit, images, kind, exact):
    """`exact` takes the gradient through grad A as well, otherwise grad A is a constant."""
    target = torch.tensor([4, 0, 2])
    weights = torch.linspace(-1, 2, 48).reshape(3, 16).double()
    model, slow = build_vit(kind), build_vit(kind)
    relevance, logits = relevance_and_logits(model, images, target, exact_gradient=exact)
    close(logits, slow(images))
    (relevance * weights).sum().backward()
    (gae_by_the_book(slow, images, target, exact=exact) * weights).sum().backward()
    assert same_gradients(model, slow) >= 8


@pytest.mark.parametrize("exact", [False, True])
def test_weights_are_in_the_graph_only_when_asked(build_vit, images, exact):
    """A detached map costs no backward pass through the weights of the first block."""
    model, seen = build_vit(), []
    model.blocks[0].norm1.register_forward_hook(lambda *args: seen.append(args[-1].requires_grad))
    gae(model, images, exact_gradient=exact)
    assert seen == [exact]

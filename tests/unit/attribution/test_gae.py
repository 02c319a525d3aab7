"""GAE against a slow computation that follows the paper's formulas word by word.

What holds for every attribution method is in `test_methods.py`, for GAE too.
"""

from __future__ import annotations

import pytest
import torch

from relevit.attribution import METHODS, gae, relevance_and_logits

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


def gae_by_the_book(model, images, target, *, exact=False, read=None):
    """One image after the other: R <- R + A_bar R as full matrices, one gradient a block.

    The class token's row, or for a model that averages its patches the mean of their rows.
    """
    prefix = model.num_prefix_tokens
    if read is None:
        heads = 2 if hasattr(model, "head_dist") else 1
        read = slice(prefix, None) if model.global_pool == "avg" else slice(0, heads)
    rows = []
    for image, label in zip(images, target, strict=True):
        score, maps = score_and_maps(model, image, label)
        relevance = torch.eye(maps[0].shape[-1]).double()
        for attention in maps:
            (gradient,) = torch.autograd.grad(
                score, attention, retain_graph=True, create_graph=exact
            )
            positive = torch.relu(gradient * attention)[0]
            relevance = relevance + (positive.sum(0) / len(positive)) @ relevance
        rows.append(relevance[read, prefix:].mean(dim=0))
    return torch.stack(rows)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", KINDS)
def test_gae_equals_the_computation_by_the_book(build_vit, images, kind, protocol):
    target = torch.tensor([4, 0, 2])
    expected = gae_by_the_book(build_vit(kind), images, target).detach()
    assert expected.std(dim=1).min() > 0, "the map is too flat to tell anything"
    close(gae(build_vit(kind), images, target, protocol=protocol), expected)
    exact = gae(build_vit(kind), images, target, protocol=protocol, exact_gradient=True)
    close(exact.detach(), expected)


def test_gae_of_a_deeper_model(build_vit, images):
    """Two blocks hardly tell the order of the recursion apart; five do."""
    target = torch.tensor([1, 1, 3])
    expected = gae_by_the_book(build_vit(depth=5), images, target).detach()
    close(gae(build_vit(depth=5), images, target), expected)


@pytest.mark.parametrize("registers", [0, 2])
def test_average_pooling_needs_no_class_token(build_vit, images, registers):
    options = {"class_token": False, "reg_tokens": registers, "depth": 3}
    target = torch.tensor([1, 1, 3])
    expected = gae_by_the_book(build_vit("average", **options), images, target).detach()
    close(gae(build_vit("average", **options), images, target), expected)


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
    moved = 0
    for (name, ours), theirs in zip(model.named_parameters(), slow.parameters(), strict=True):
        wanted = torch.zeros_like(theirs) if theirs.grad is None else theirs.grad
        found = torch.zeros_like(ours) if ours.grad is None else ours.grad
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12, msg=name)
        moved += bool(wanted.abs().max() > 1e-6)
    assert moved >= 8


def test_head_learns_from_the_exact_gradient_alone(build_vit, images):
    """With grad A constant the head's weights get no gradient (differences A2)."""
    target = torch.tensor([4, 0, 2])
    for exact in (False, True):
        model = build_vit()
        relevance, _ = relevance_and_logits(model, images, target, exact_gradient=exact)
        relevance.square().sum().backward()
        assert (model.head.weight.grad is not None) == exact


@pytest.mark.parametrize("exact", [False, True])
def test_weights_are_in_the_graph_only_when_asked(build_vit, images, exact):
    """A detached map costs no backward pass through the weights of the first block."""
    model, seen = build_vit(), []
    model.blocks[0].norm1.register_forward_hook(lambda *args: seen.append(args[-1].requires_grad))
    gae(model, images, exact_gradient=exact)
    assert seen == [exact]


def test_distilled_map_is_the_mean_of_what_its_two_tokens_read(build_vit, images):
    """DeiT's two heads, whose answers are averaged (differences F13)."""
    model, target = build_vit("distilled"), torch.tensor([4, 0, 2])
    both = gae_by_the_book(model, images, target, read=slice(0, 2)).detach()
    close(gae(build_vit("distilled"), images, target), both)
    first = gae_by_the_book(model, images, target, read=slice(0, 1)).detach()
    assert (both - first).abs().max() > 1e-6
    for name in ("rollout", "ga", "token_wise"):
        options = {"protocol": "described"} | ({"feedback": "none"} if name == "token_wise" else {})
        own = METHODS[name](build_vit("distilled"), images, target, **options)
        one = METHODS[name](
            build_vit("distilled"), images, target, pooling="class_token", **options
        )
        assert (own - one).abs().max() > 1e-9

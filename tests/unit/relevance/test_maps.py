"""GAE against a slow computation that follows the paper's formulas word by word."""

from __future__ import annotations

import pytest
import torch

from relevit.relevance import check_protocol, gae, relevance_and_logits

KINDS = (
    "plain",
    "layer_scale",
    "qk_norm",
    "scale_norm",
    "registers",
    "no_qkv_bias",
    "average",
    "average_and_registers",
    "distilled",
)
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


def gae_by_the_book(model, images, target, *, exact=False):
    """One image after the other: R <- R + A_bar R as full matrices, one gradient a block.

    The class token's row, or for a model that averages its patches the mean of their rows.
    """
    prefix = model.num_prefix_tokens
    read = slice(prefix, None) if model.global_pool == "avg" else slice(0, 1)
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
    exact = gae(build_vit(kind), images, target, protocol=protocol, create_graph=True)
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


@pytest.mark.parametrize("kind", ["plain", "average"])
def test_a_batch_is_its_images_one_by_one(build_vit, images, kind):
    model = build_vit(kind)
    target = torch.tensor([0, 3, 1])
    alone = torch.cat([gae(model, images[i : i + 1], target[i : i + 1]) for i in range(3)])
    close(gae(model, images, target), alone)


def test_no_target_is_the_predicted_class(build_vit, images):
    model = build_vit()
    predicted = model(images).argmax(dim=1)
    assert len(set(predicted.tolist())) > 1, "one class for all images would prove little"
    close(gae(model, images), gae(model, images, predicted))
    other = gae(model, images, (predicted + 1) % 5)
    assert (gae(model, images) - other).abs().max() > 1e-6


def test_gae_works_where_gradients_are_switched_off(build_vit, images):
    model = build_vit()
    target = torch.tensor([0, 3, 1])
    with torch.no_grad():
        inside = gae(model, images, target)
    close(inside, gae(model, images, target))


# Gradients of the map


@pytest.mark.parametrize("kind", ["plain", "registers", "average"])
@pytest.mark.parametrize("exact", [False, True])
def test_gradient_of_the_map(build_vit, images, kind, exact):
    """`exact` takes the gradient through grad A as well, otherwise grad A is a constant."""
    target = torch.tensor([4, 0, 2])
    weights = torch.linspace(-1, 2, 48).reshape(3, 16).double()
    model, slow = build_vit(kind), build_vit(kind)
    relevance, logits = relevance_and_logits(model, images, target, exact=exact)
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


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("blocks.0.attn.qkv.weight", (3, 5)),
        ("blocks.1.attn.qkv.weight", (40, 2)),
        ("blocks.0.mlp.fc1.weight", (7, 1)),
        ("blocks.1.mlp.fc2.weight", (2, 9)),
        ("head.weight", (2, 6)),
    ],
)
def test_exact_gradient_equals_finite_differences(build_vit, images, name, entry):
    model = build_vit()
    weight = model.get_parameter(name)
    target = torch.tensor([4, 0, 2])
    factors = torch.linspace(-1, 2, 48).reshape(3, 16).double()

    def figure():
        return (gae(model, images, target) * factors).sum()

    exact = (gae(model, images, target, create_graph=True) * factors).sum()
    (gradient,) = torch.autograd.grad(exact, weight)
    step = 1e-6
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            weight[entry] += sign * step
        values.append(figure())
        with torch.no_grad():
            weight[entry] -= sign * step
    difference = float((values[0] - values[1]) / (2 * step))
    assert abs(difference) > 1e-4, "a weight without influence proves nothing"
    assert float(gradient[entry]) == pytest.approx(difference, rel=1e-6)


def test_head_learns_from_the_exact_gradient_alone(build_vit, images):
    """With grad A constant the head's weights get no gradient (differences A2)."""
    target = torch.tensor([4, 0, 2])
    for exact in (False, True):
        model = build_vit()
        relevance, _ = relevance_and_logits(model, images, target, exact=exact)
        relevance.square().sum().backward()
        assert (model.head.weight.grad is not None) == exact


def test_map_is_detached_unless_asked_otherwise(build_vit, images):
    assert not gae(build_vit(), images).requires_grad
    assert gae(build_vit(), images, create_graph=True).requires_grad


# The model is left as it was


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("target", [None, "bad"])
def test_model_is_left_as_it_was(build_vit, images, state_of, create_graph, mode, target):
    model = build_vit()
    model.train(mode == "train")
    model.blocks[1].eval()
    model.blocks[1].attn.fused_attn = False
    model.patch_embed.requires_grad_(False)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before = state_of(model)
    if target == "bad":
        with pytest.raises(ValueError, match="target"):
            gae(model, images, torch.tensor([0, 1, 5]), create_graph=create_graph)
    else:
        gae(model, images, create_graph=create_graph)
    assert state_of(model) == before
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("create_graph", [False, True])
def test_weights_are_in_the_graph_only_when_asked(build_vit, images, create_graph):
    """A detached map costs no backward pass through the weights of the first block."""
    model, seen = build_vit(), []
    model.blocks[0].norm1.register_forward_hook(lambda *args: seen.append(args[-1].requires_grad))
    gae(model, images, create_graph=create_graph)
    assert seen == [create_graph]


def test_images_get_no_gradient(build_vit, images):
    images = images.clone().requires_grad_()
    gae(build_vit(), images)
    assert images.grad is None and images.requires_grad


# Errors


@pytest.mark.wrong_types  # one class too few, and a column of them
@pytest.mark.parametrize(
    ("target", "text"),
    [
        ([0, 1, 5], r"target \[0, 1, 5\] for 3 images and 5 classes; .*0\.\.4 for each image"),
        ([0, -1, 2], r"target \[0, -1, 2\] for 3 images.*None for the predicted one"),
        ([0, 1], r"target \[0, 1\] for 3 images.*one class in 0\.\.4"),
        ([[0], [1], [2]], r"target \[\[0\], \[1\], \[2\]\] for 3 images"),
    ],
)
def test_bad_target_is_an_error(build_vit, images, target, text):
    with pytest.raises(ValueError, match=text):
        gae(build_vit(), images, torch.tensor(target))


@pytest.mark.wrong_types
def test_unknown_protocol_is_an_error_before_any_work(build_vit, images):
    text = "protocol 'paper' is unknown; use 'published' .* or 'described'"
    with pytest.raises(ValueError, match=text):
        gae(None, images, protocol="paper")
    with pytest.raises(ValueError, match=text):
        check_protocol("paper")


def test_model_without_attention_is_an_error(images):
    with pytest.raises(ValueError, match="Linear has no blocks with global self-attention"):
        gae(torch.nn.Linear(3, 2), images)


def test_class_token_that_is_missing_is_an_error(build_vit, images):
    model = build_vit("average", class_token=False)
    model.global_pool = "token"
    text = r"pooling: this VisionTransformer has no class token.*'patches' or .* class_token=True"
    with pytest.raises(ValueError, match=text):
        gae(model, images)

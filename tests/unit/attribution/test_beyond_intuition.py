"""Token-wise and head-wise attribution against the paper's formulas, and their parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.attribution import METHODS, method_options
from relevit.attribution.beyond_intuition import FEEDBACKS, PERCEPTIONS, express_all
from relevit.maps import record_attention

from ..attribution_cases import OURS, PROTOCOLS, TARGET, close, read

PARTS = [(perception, feedback) for perception in PERCEPTIONS for feedback in FEEDBACKS]


def express(model, images, perception, feedback, protocol, **rules):
    """One pair of perception and feedback."""
    rules = {perception: method_options(model, perception, protocol) | rules}
    pairs = [(perception, feedback)]
    return express_all(model, images, pairs=pairs, rules=rules, protocol=protocol)[0]


def logit_gradients(model, image, label):
    """Of one image every block's tokens, attention map and the gradient of a logit in it."""
    with torch.enable_grad(), record_attention(model) as tape:
        score = model(image[None])[0, label]
    slopes = torch.autograd.grad(score, tape.maps)
    return [[each[0].detach() for each in part] for part in (tape.inputs, tape.maps, slopes)]


def perception_by_the_book(name, model, image, label):
    """(I + A_L) ... (I + A_1) as full matrices, heads or tokens weighed as Eq. 14 and 15 say."""
    seen = logit_gradients(model, image, label)
    product = unit = torch.eye(seen[1][0].shape[-1]).double()
    for block, z, attention, slope in zip(model.blocks, *seen, strict=True):
        if name == "head_wise":
            importance = (attention * slope).sum(dim=(1, 2)).abs()
            step = ((importance / importance.sum())[:, None, None] * attention).sum(dim=0)
        else:
            moved = z @ block.attn.qkv.weight[2 * model.embed_dim :].T @ block.attn.proj.weight.T
            step = attention.mean(dim=0) * (moved.norm(dim=1) / z.norm(dim=1))
        product = (unit + step) @ product
    return product


@pytest.mark.parametrize("kind", ["plain", "average", "registers"])
@pytest.mark.parametrize("name", OURS)
def test_described_method_is_the_papers_formula(build_vit, images, name, kind):
    """T = P * F_c, F_c the mean over the path from black of the last map's gradient."""
    model, rows = build_vit(kind, depth=3), []
    points, weights = np.polynomial.legendre.leggauss(4)
    for image, label in zip(images, TARGET, strict=True):
        feedback = sum(
            weight / 2 * logit_gradients(model, (p + 1) / 2 * (image + 1) - 1, label)[2][-1]
            for p, weight in zip(points, weights, strict=True)
        )
        product = perception_by_the_book(name, model, image, label)
        rows.append(product * feedback.clamp(min=0).mean(dim=0))
    expected = read(torch.stack(rows), model)
    ours = METHODS[name](model, images, TARGET, protocol="described", steps=4, rule="gauss")
    assert expected.std() > 1e-6
    close(ours, expected.detach(), 1e-9)


def test_perception_alone_is_rollout(build_vit, images):
    model = build_vit(depth=4)
    options = dict(protocol="described", start_block=2)
    ours = express(model, images, perception="avg_attention", feedback="none", **options)
    close(ours, METHODS["rollout"](model, images, **options))


@pytest.mark.parametrize("family", ["vit", "clip"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_parts_differ_and_those_that_are_shared_give_the_same_maps(
    build_vit, images, protocol, family
):
    """Every perception with every feedback."""
    model, seen = build_vit(), []
    model.family = family
    model.patch_embed.register_forward_hook(lambda m, inputs, output: seen.append(len(output)))
    rules = {p: method_options(model, p, protocol) for p in PERCEPTIONS}
    METHODS["gae"](model, images)  # for the first time it is held against its function
    seen.clear()
    shared = express_all(model, images, pairs=PARTS, rules=rules, protocol=protocol)
    one_path = {"published": 3 + 19 * 3, "described": 3 + 6 * 3}  # the last point is the image
    assert sum(seen) == one_path[protocol]
    for (perception, feedback), ours in zip(PARTS, shared, strict=True):
        close(ours, express(model, images, perception, feedback, protocol))
    flat = torch.stack(shared).flatten(1)
    assert flat.isfinite().all() and (flat[0] == 1).all()
    assert (torch.cdist(flat, flat) + torch.eye(len(flat))).min() > 1e-9


def test_rollout_is_token_wise_with_identity_weights(build_vit, images):
    """BI-06: with W = I every token's value is as long as the token."""
    model = build_vit(depth=4)
    with torch.no_grad():
        for block in model.blocks:
            block.attn.qkv.weight[2 * model.embed_dim :] = torch.eye(model.embed_dim)
            block.attn.proj.weight.copy_(torch.eye(model.embed_dim))
    ours = METHODS["token_wise"](model, images, feedback="none", protocol="described")
    rollout = METHODS["rollout"](model, images, protocol="described")
    torch.testing.assert_close(ours, rollout)


def test_wrong_questions_are_named(build_vit, images):
    model = build_vit(depth=3)
    with pytest.raises(ValueError, match=r"feedback 'ear' is unknown; use one of \('none', 'grad"):
        METHODS["token_wise"](model, images, feedback="ear")
    with pytest.raises(ValueError, match=r"perception 'headwise' is unknown; use one of \('none',"):
        express_all(model, images, pairs=[("headwise", "gradient")], rules={})
    model.blocks[1].attn.gate = torch.nn.Linear(16, 16).double()
    with pytest.raises(ValueError, match=r"token_wise: the attention of this Vis.* gates"):
        METHODS["token_wise"](model, images)

"""The maps that a model is trained on against the papers' formulas, slowly."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch

from habitats.cutouts import CUTOUTS
from relevit.attribution import METHODS, gae, patch_grid, relevance_and_logits, to_heatmap
from relevit.attribution.beyond_intuition import weigh_heads
from relevit.choices.words import TrainedMap
from relevit.finetune.loop import only
from relevit.finetune.step import trained_weights
from relevit.maps import Pooling, Seen
from relevit.models import load_model, model_spec

from ..attribution_cases import FACTORS, TARGET, close, read
from ..conftest import KINDS

MAPS = ("gae", "rollout", "attention", "readout", "legrad")
CASES = [
    *((kind, {}) for kind in KINDS),
    ("plain", {"depth": 5}),  # two blocks hardly tell the order of the recursion apart; five do
    ("average", {"class_token": False, "depth": 3, "reg_tokens": 2}),
    ("average", {"class_token": False}),
]


def by_the_book(name, model, images, *, exact=False, last=0):
    """One gradient a block: of the logit, or of what norm and head would answer behind it.

    R <- R + A_bar R as full matrices; the row of the class token, or the mean of those that the
    head averages. LeGrad's head reads the mean over all tokens where it reads one.
    """
    maps, outputs = [], []
    for block in model.blocks:
        block.attn.fused_attn = False
        block.attn.attn_drop.register_forward_hook(lambda *args: maps.append(args[-1]))
        block.register_forward_hook(lambda *args: outputs.append(args[-1]))
    logits = model(images)
    carried = unit = torch.eye(maps[0].shape[-1]).double().expand(3, -1, -1)
    summed = 0
    for attention, tokens in list(zip(maps, outputs, strict=True))[-last:]:
        if name in ("rollout", "attention"):
            matrix = attention.mean(dim=1)
        else:
            if name == "legrad" and model.global_pool == "token":
                tokens = tokens.mean(dim=1)[:, None].repeat(1, 2, 1)
            answers = logits if name == "gae" else model.forward_head(model.norm(tokens))
            score = answers.gather(1, TARGET[:, None]).sum()
            how = {"retain_graph": True, "create_graph": exact}
            (slope,) = torch.autograd.grad(score, attention, **how)
            matrix = torch.relu(slope if name == "legrad" else slope * attention).mean(dim=1)
        summed, carried = summed + matrix, (unit + matrix) @ carried
    found = {"gae": carried, "rollout": carried, "attention": matrix}.get(name, summed)
    if name == "legrad":
        return found[:, :, model.num_prefix_tokens :].mean(dim=1)
    return read(found, model)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize(("kind", "options"), CASES)
def test_maps_equal_the_computation_by_the_book(build_vit, images, kind, options, name, last):
    model = build_vit(kind, **options)
    wanted = by_the_book(name, build_vit(kind, **options), images, last=last).detach()
    assert wanted.std(dim=1).min() > 0, "the map is too flat to tell anything"
    found, logits = relevance_and_logits(model, images, TARGET, explanation=name, last=last or None)
    close(found.detach(), wanted)
    close(logits, model(images))
    if name in METHODS and not last:
        how = {"protocol": "described"} | ({"last": len(model.blocks)} if name == "legrad" else {})
        for exact in ({"exact_gradient": True}, {}) if name != "rollout" else ({},):
            close(METHODS[name](model, images, TARGET, **how, **exact).detach(), wanted)


# Gradients of the map


@pytest.mark.parametrize("name", ["gae", "readout", "legrad"])
@pytest.mark.parametrize("kind", ["plain", "registers", "average"])
@pytest.mark.parametrize("exact", [False, True])
def test_gradient_of_the_map(build_vit, images, kind, name, exact):
    """`exact` takes it through grad A as well, as LeGrad always does; else that is constant."""
    model, slow = build_vit(kind), build_vit(kind)
    how = {"explanation": name, "exact_gradient": exact}
    relevance, _ = relevance_and_logits(model, images, TARGET, **how)
    wanted = by_the_book(name, slow, images, exact=exact or name == "legrad")
    found, theirs = (
        torch.autograd.grad((maps * FACTORS).sum(), [*of.parameters()], materialize_grads=True)
        for maps, of in ((relevance, model), (wanted, slow))
    )
    torch.testing.assert_close(found, theirs, rtol=1e-9, atol=1e-12)
    assert sum(bool(slope.abs().max() > 1e-6) for slope in theirs) >= 6


@pytest.mark.parametrize("exact", [False, True])
def test_weights_are_in_the_graph_only_when_asked(build_vit, images, exact):
    """A detached map costs no backward pass through the weights of the first block."""
    model, seen = build_vit(), []
    model.blocks[0].norm1.register_forward_hook(lambda *args: seen.append(args[-1].requires_grad))
    gae(model, images)  # for the first time it is held against its function
    seen.clear()
    gae(model, images, exact_gradient=exact)
    assert seen == [exact]


@pytest.mark.parametrize("name", ["readout", "legrad"])
@pytest.mark.parametrize("noise", [{"drop_path_rate": 0.9}, {"proj_drop_rate": 0.5}])
def test_blocks_are_read_out_without_another_draw_of_noise(build_vit, images, name, noise):
    """Of the tokens that the pass in train mode made, which before the noisy block has none."""
    model = build_vit(**noise)
    model.blocks[0].eval()
    model.pos_drop.eval()
    how = {"explanation": name, "last": 1}
    wanted, plain = relevance_and_logits(model.eval(), images, TARGET, **how)
    model.blocks[1].train()
    modes = [part.training for part in model.modules()]
    found, logits = relevance_and_logits(model, images, TARGET, **how)
    close(found, wanted)
    assert (logits - plain).abs().max() > 1e-6, "the pass has its noise"
    assert [part.training for part in model.modules()] == modes


def test_attention_stays_fused_and_is_left_as_it_was(build_vit, images):
    model = build_vit()
    model.blocks[0].attn.fused_attn = False
    METHODS["readout"](model, images)
    assert [block.attn.fused_attn for block in model.blocks][:2] == [False, True]
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        relevance_and_logits(model, images, TARGET, explanation="readout")
    tokens = 16 + model.num_prefix_tokens
    assert not any(shape[-2:] == (tokens, tokens) for shape in kept if len(shape) == 4)


@pytest.mark.parametrize("name", ["gae", "legrad", "attn_lrp"])
@pytest.mark.parametrize("last", [0, 3])
def test_blocks_that_the_model_does_not_have_are_refused(build_vit, images, name, last):
    with pytest.raises(ValueError, match=rf"last {last}: this model has 2 blocks; give 1 to 2"):
        relevance_and_logits(build_vit(), images, TARGET, explanation=name, last=last)


def test_model_without_a_head_that_reads_tokens_is_refused(build_vit, images):
    class Headless(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = build_vit().blocks

    with pytest.raises(ValueError, match=r"Headless has no norm and head .* take a Vision"):
        METHODS["readout"](Headless(), images)


@pytest.mark.parametrize("name", get_args(TrainedMap))
def test_map_of_the_last_blocks_is_that_of_the_whole_graph(build_vit, images, name):
    """Also where all before them is frozen, as in a training of these blocks alone."""
    how = {"explanation": name, "last": 2}
    whole, model = build_vit(depth=3), build_vit(depth=3)
    wanted, _ = relevance_and_logits(whole, images, TARGET, **how)
    trained = trained_weights(model, 2)
    with only(model, trained):
        found, logits = relevance_and_logits(model, images, TARGET, **how)
        close(found, wanted)
        close(logits, whole(images))
        slopes = [
            torch.autograd.grad(relevance.square().sum(), weights, allow_unused=True)
            for relevance, weights in ((found, trained), (wanted, trained_weights(whole, 2)))
        ]
    used = [pair for pair in zip(*slopes, strict=True) if pair[0] is not None]
    assert len(used) >= 4
    for ours, theirs in used:
        close(ours, theirs)


# Mixed precision, in which models are trained


@pytest.mark.parametrize("size", [1.0, 1e-3])
@pytest.mark.parametrize("pooling", get_args(Pooling))
@pytest.mark.parametrize("name", [name for name in METHODS if hasattr(METHODS[name], "of_seen")])
def test_sums_of_maps_in_bfloat16_lose_nothing(name, pooling, size):
    """A heatmap of the same numbers in float64: identity and gradients of any `size` add up."""
    random = torch.Generator().manual_seed(0)
    maps, slopes = (torch.randn(12, 3, 2, 18, 18, generator=random) for _ in range(2))
    maps, slopes = (3 * maps).softmax(dim=-1).bfloat16(), (0.1 * size * slopes).bfloat16()
    none = torch.zeros(3, 1)
    half = Seen(list(maps), [], none, none[:, 0].long(), none.sum(), pooling, 2, list(slopes))
    exact = replace(half, maps=list(maps.double()), gradients=list(slopes.double()))
    with torch.autocast("cpu", torch.bfloat16):
        found = METHODS[name].of_seen(half)
    assert found.dtype == torch.float32
    found, wanted = (
        to_heatmap(relevance.double(), (4, 4), (4, 4))
        for relevance in (found, METHODS[name].of_seen(exact))
    )
    assert wanted.std() > 0.1
    assert (found - wanted).abs().max() < 0.05  # a product has eight bits


@pytest.mark.parametrize("inner", [True, False])
def test_heads_are_weighed_in_mixed_precision_as_without(inner):
    random = torch.Generator().manual_seed(0)
    maps, slopes = (torch.randn(2, 3, 4, 9, 9, generator=random) for _ in range(2))
    none = torch.zeros(3, 1)
    maps = list((3 * maps).softmax(dim=-1))
    seen = Seen(maps, [], none, none[:, 0].long(), none.sum(), "class_token", 1, list(slopes))
    wanted = weigh_heads(seen, inner=inner)
    with torch.autocast("cpu", torch.bfloat16):
        found = weigh_heads(seen, inner=inner)
    assert all(map(torch.equal, found, wanted))


@pytest.mark.parametrize("model", ["tiny", "tiny-mae"])
def test_a_training_in_bfloat16_looks_where_one_in_float32_does(model):
    """Also of a mean-pooled model, whose relief is thousandths beside the identity's 1."""
    spec, network = model_spec(model), load_model(model)
    batch = CUTOUTS.draw("finetune", range(8), size=spec.image_size)
    images, found = spec.normalise(batch.images), []
    for mixed in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            maps, _ = relevance_and_logits(network, images, batch.labels)
            found.append(to_heatmap(maps, (112, 112), patch_grid(network, images)).detach())
    assert (found[0] - found[1]).abs().max() < 0.1

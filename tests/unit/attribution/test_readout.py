"""Read-outs against autograd through whole blocks, which follows the formula word by word."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from relevit.attribution import METHODS, relevance_and_logits
from relevit.attribution.readout import read_and_logits
from relevit.config.words import TrainedMap
from relevit.finetune.loop import only
from relevit.finetune.step import trained_weights

from ..attribution_cases import close, read_tokens, same_gradients
from ..conftest import KINDS

TARGET = torch.tensor([4, 0, 2])
CASES = [*((kind, {}) for kind in KINDS), ("average", {"class_token": False, "reg_tokens": 2})]


def by_the_book(model, images, *, mean=False, exact=False, last=0):
    """One gradient a block, of what the model's own norm and head answer behind it.

    With `mean` as LeGrad's code: the head reads the mean over all tokens where it reads one.
    """
    maps, outputs = [], []
    for block in model.blocks:
        block.attn.fused_attn = False
        block.attn.attn_drop.register_forward_hook(lambda *args: maps.append(args[-1]))
        block.register_forward_hook(lambda *args: outputs.append(args[-1]))
    model(images)
    relevance = 0
    for attention, tokens in list(zip(maps, outputs, strict=True))[-last:]:
        if mean and model.global_pool == "token":
            tokens = tokens.mean(dim=1)[:, None].repeat(1, 2, 1)
        answer = model.forward_head(model.norm(tokens)).gather(1, TARGET[:, None]).sum()
        (slope,) = torch.autograd.grad(answer, attention, retain_graph=True, create_graph=exact)
        matrix = torch.relu(slope if mean else slope * attention).mean(dim=1)
        prefix, read = model.num_prefix_tokens, read_tokens(model)
        relevance = relevance + matrix[:, slice(None) if mean else read, prefix:].mean(dim=1)
    return relevance


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("name", ["readout", "legrad"])
@pytest.mark.parametrize(("kind", "options"), CASES)
def test_closed_form_equals_autograd(build_vit, images, kind, options, name, last):
    model, mean = build_vit(kind, **options), name == "legrad"
    wanted = by_the_book(build_vit(kind, **options), images, mean=mean, last=last).detach()
    assert wanted.std(dim=1).min() > 0, "the map is too flat to tell anything"
    found, logits = read_and_logits(model, images, TARGET, mean=mean, last=last or None)
    close(found, wanted)
    close(logits, model(images).detach())
    if not last:
        close(METHODS[name](model, images, TARGET), wanted)


@pytest.mark.parametrize("name", ["readout", "legrad"])
@pytest.mark.parametrize("kind", ["plain", "registers", "average"])
@pytest.mark.parametrize("exact", [False, True])
def test_gradient_of_the_map(build_vit, images, kind, name, exact):
    """`exact` takes the gradient through grad A as well; LeGrad has nothing else to learn from."""
    weights = torch.linspace(-1, 2, 48).reshape(3, 16).double()
    model, slow = build_vit(kind), build_vit(kind)
    how = {"explanation": name, "exact_gradient": exact}
    relevance, _ = relevance_and_logits(model, images, TARGET, **how)
    (relevance * weights).sum().backward()
    exact = exact or name == "legrad"
    (by_the_book(slow, images, mean=name == "legrad", exact=exact) * weights).sum().backward()
    assert same_gradients(model, slow) >= 6


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
    moved = 0
    for ours, theirs in zip(*slopes, strict=True):
        moved += ours is not None
        if ours is not None:
            close(ours, theirs)
    assert moved >= 4

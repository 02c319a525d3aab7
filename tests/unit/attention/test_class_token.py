"""The last block for the class token alone: the same numbers, and nobody's hook missed."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from timm.layers import Attention
from timm.models.vision_transformer import ResPostBlock
from torch import nn

from relevit.attention import class_token
from relevit.attention.class_token import (
    ShortVisionTransformer,
    class_token_only,
    reads_class_token_only,
    shorten,
    with_short_last_block,
)
from relevit.attention.recording import record_attention, unfused_attention
from relevit.evaluate.bfloat16 import Answers
from relevit.models.loading import build_model

from ..conftest import CLASS_TOKEN_KINDS, OTHER_KINDS


def rows_of_last_mlp(model):
    """What the last MLP is given; the list fills as the model runs."""
    shapes, linear = [], model.blocks[-1].mlp.fc1
    weight = linear.weight
    linear.forward = lambda x: shapes.append(tuple(x.shape)) or x @ weight.T + linear.bias
    return shapes


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", CLASS_TOKEN_KINDS)
def test_logits_and_gradients_are_those_of_the_whole_block(build_vit, images, kind, fused):
    model = build_vit(kind)
    model.blocks[-1].attn.fused_attn = fused
    pixels = images.clone().requires_grad_()
    weights = torch.linspace(-1, 1, 15).reshape(3, 5).double()

    def run():
        logits = model(pixels)
        found = torch.autograd.grad((logits * weights).sum(), [pixels, *model.parameters()])
        return [logits.detach(), *found]

    whole = run()
    with class_token_only(model):
        assert model.forward_features(images).shape == (3, 1, 16)
        ours = run()
    assert "forward" not in vars(model.blocks[-1])
    for one, other in zip(ours, whole, strict=True):
        assert (one - other).abs().max() <= 1e-12 * max(1.0, float(other.abs().max()))


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_models_whose_head_reads_more_stay_whole(build_vit, images, kind):
    model = build_vit(kind)
    expected = model.forward_features(images)
    with class_token_only(model):
        assert torch.equal(model.forward_features(images), expected)
    shorten(model)
    assert "forward" not in vars(model.blocks[-1])
    assert type(with_short_last_block(build_vit(kind))) is type(model)


# Where a model is made


def test_a_model_made_short_answers_alike_and_shows_its_tokens(build_vit, images, state_of):
    model, plain = with_short_last_block(build_vit()), build_vit()
    shapes = rows_of_last_mlp(model)
    state = state_of(model)
    torch.testing.assert_close(model(images), plain(images), rtol=1e-12, atol=1e-13)
    assert model.forward_features(images).shape == (3, 17, 16)
    with record_attention(model) as tape:
        model(images)
    assert tape.maps[-1].shape[2] == 17
    assert shapes == [(3, 1, 16), (3, 17, 16), (3, 17, 16)]
    assert state_of(model) == state and model.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_of_a_model_made_short_are_short_under_their_own_head(build_vit, images, copied):
    model = with_short_last_block(build_vit())
    expected, other = model(images), copied(model)
    other._modules = dict(other._modules)  # a shallow copy shares them
    other.head = nn.Identity()
    shapes = rows_of_last_mlp(other)
    assert other(images).shape == (3, 16) and shapes == [(3, 1, 16)]
    assert torch.equal(model(images), expected)


@pytest.mark.parametrize(
    ("name", "short"), [("tiny", True), ("tiny-mae", False), ("deit-s-cut", True)]
)
def test_models_of_the_suite_are_made_short(name, short):
    assert isinstance(build_model(name), ShortVisionTransformer) == short


@pytest.mark.parametrize("place", ["blocks.1.attn", "blocks.1.mlp.fc1", "blocks.1", "norm"])
def test_a_hook_sees_all_tokens(build_vit, images, place):
    model, seen = build_vit(), []
    module = model.get_submodule(place)
    handle = module.register_forward_hook(lambda m, inputs, output: seen.append(output.shape[1]))
    with_short_last_block(model)(images)
    with class_token_only(model):
        model(images)
    with record_attention(model, class_row=True):
        model(images)
    Answers(model)(images)
    assert seen == [17, 17, 17, 17]
    handle.remove()
    assert reads_class_token_only(model)


@pytest.mark.parametrize("place", ["blocks.1.attn", "blocks.1.attn.qkv", "blocks.1.mlp"])
def test_a_backward_hook_sees_all_tokens(build_vit, images, place):
    model, seen = build_vit(), []
    module = model.get_submodule(place)
    module.register_full_backward_hook(lambda m, into, out: seen.append(out[0].shape[1]))
    with class_token_only(model):
        model(images).sum().backward()
    assert seen == [17]


class Adapted(nn.Linear):
    """A layer with something of its own beside its weight, as LoRA's."""

    def forward(self, x):
        return super().forward(x) + x.mean(dim=-1, keepdim=True)


def with_adapter(model):
    plain = model.blocks[-1].attn.qkv
    adapted = Adapted(plain.in_features, plain.out_features).double()
    adapted.load_state_dict(plain.state_dict())
    model.blocks[-1].attn.qkv = adapted


def with_gate(model):
    model.blocks[-1].attn = Attention(16, num_heads=2, qkv_bias=True, gated=True).double()


def with_another_block(model):
    norm_after = ResPostBlock(16, num_heads=2, init_values=0.5).double()
    model.blocks[-1] = norm_after.eval()


def with_forward(model, place):
    module = model.get_submodule(place)
    module.forward = lambda x, **kwargs: 2 * type(module).forward(module, x, **kwargs)


@pytest.mark.parametrize(
    "change",
    [
        with_adapter,
        with_gate,
        with_another_block,
        partial(with_forward, place="blocks.1.attn"),
        partial(with_forward, place="blocks.1.attn.qkv"),
    ],
)
def test_blocks_that_are_not_timms_own_stay(build_vit, images, change):
    model = build_vit()
    change(model)
    expected = model(images)
    assert not torch.allclose(expected, build_vit()(images), rtol=1e-6)
    with class_token_only(model):
        assert torch.equal(model(images), expected)
    assert torch.equal(Answers(model)(images), expected.detach())


def test_checkpointing_can_run_the_block_again(build_vit, images):
    model = build_vit()
    model.set_grad_checkpointing()
    with class_token_only(model):
        loss = model(images).sum()
    loss.backward()
    assert model.blocks[-1].attn.qkv.weight.grad.abs().max() > 0


def test_a_hook_on_an_earlier_block_or_the_head_changes_nothing(build_vit):
    model = build_vit()
    for module in (model.blocks[0], model.head):
        module.register_forward_hook(lambda *args: None)
    assert reads_class_token_only(model)


def test_the_block_is_whole_again_after_an_error(build_vit, images):
    model = build_vit()
    with pytest.raises(RuntimeError), class_token_only(model):
        model(images[:, :1])
    assert "forward" not in vars(model.blocks[-1])


def test_inside_one_context_another_changes_nothing(build_vit, images):
    model = build_vit()
    with class_token_only(model):
        with class_token_only(model):
            assert model.forward_features(images).shape[1] == 1
        assert model.forward_features(images).shape[1] == 1


def test_two_threads_that_start_at_once_both_end_well(build_vit, images, monkeypatch):
    """Both have found the block whole before either shortened it."""
    model = build_vit()
    whole = model(images)
    monkeypatch.setattr(class_token, "reads_class_token_only", lambda model: True)
    first, second = class_token_only(model), class_token_only(model)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    torch.testing.assert_close(model(images), whole)
    second.__exit__(None, None, None)
    assert "forward" not in vars(model.blocks[-1])


def test_answers_run_the_class_token_alone_and_leave_the_model(build_vit, images):
    model = build_vit()
    shapes = rows_of_last_mlp(model)
    answers = Answers(model)
    expected = model(images)
    torch.testing.assert_close(answers(images), expected.detach(), rtol=1e-12, atol=1e-13)
    assert shapes == [(3, 17, 16), (3, 1, 16)]


def test_a_copy_of_a_shortened_model_has_its_own_block(build_vit, images):
    model = build_vit()
    shorten(model)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
    assert other(images).abs().max() > 0


def test_second_derivatives_are_those_of_the_whole_block(build_vit, images):
    model, found = build_vit(), []
    pixels = images.clone().requires_grad_()
    for context in (nullcontext(), class_token_only(model)):
        with unfused_attention(model), context:
            answer = model(pixels).log_softmax(dim=1).sum()
        (slopes,) = torch.autograd.grad(answer, pixels, create_graph=True)
        found.append(torch.autograd.grad(slopes.square().sum(), list(model.parameters())[:-1]))
    for whole, ours in zip(*found, strict=True):
        assert (ours - whole).abs().max() <= 1e-11 * max(1.0, float(whole.abs().max()))


def test_autocast_rounds_alike(build_vit, images):
    model = build_vit().float()
    with torch.autocast("cpu", torch.bfloat16):
        whole = model(images.float())
        with class_token_only(model):
            ours = model(images.float())
    assert ours.dtype == whole.dtype == torch.bfloat16
    torch.testing.assert_close(ours, whole, rtol=0.05, atol=0.05)


def test_dropped_paths_are_the_same_images(build_vit, images):
    """Whole branches, drawn image by image: the same draws leave the same logits."""
    model, found = build_vit(drop_path_rate=0.5).train(), []
    for context in (nullcontext(), class_token_only(model)):
        torch.manual_seed(0)
        with context:
            found.append(model(images))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-13)
    assert not torch.allclose(found[0], model.eval()(images))


def test_dropout_is_drawn_in_training_alone(build_vit, images):
    model = build_vit(attn_drop_rate=0.9)
    model.blocks[0].attn.attn_drop.p = 0.0
    for fused in (False, True):
        for block in model.blocks:
            block.attn.fused_attn = fused
        with class_token_only(model):
            assert torch.equal(model.eval()(images), model(images))
            assert not torch.equal(model.train()(images), model(images))

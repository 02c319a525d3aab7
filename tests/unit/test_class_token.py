"""The last block for the class token alone: the same numbers, and nobody's hook missed."""

from __future__ import annotations

import copy

import pytest
import torch

from relevit.answers import Answers
from relevit.attention import record_attention
from relevit.class_token import class_token_only, reads_class_token_only, shorten

CLASS_TOKEN_KINDS = (
    "plain",
    "layer_scale",
    "qk_norm",
    "scale_norm",
    "registers",
    "no_qkv_bias",
)
OTHER_KINDS = ("average", "average_and_registers", "distilled")


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
    with class_token_only(model) as shortened:
        assert shortened
        assert model.forward_features(images).shape == (3, 1, 16)
        ours = run()
    assert "forward" not in vars(model.blocks[-1])
    for one, other in zip(ours, whole, strict=True):
        assert (one - other).abs().max() <= 1e-12 * max(1.0, float(other.abs().max()))


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_models_whose_head_reads_more_stay_whole(build_vit, images, kind):
    model = build_vit(kind)
    expected = model.forward_features(images)
    with class_token_only(model) as shortened:
        assert not shortened
        assert torch.equal(model.forward_features(images), expected)
    shorten(model)
    assert "forward" not in vars(model.blocks[-1])


@pytest.mark.parametrize("place", ["blocks.1.attn", "blocks.1.mlp.fc1", "blocks.1", "norm"])
def test_a_hook_sees_all_tokens(build_vit, images, place):
    model, seen = build_vit(), []
    module = model.get_submodule(place)
    handle = module.register_forward_hook(lambda m, inputs, output: seen.append(output.shape[1]))
    with class_token_only(model):
        model(images)
    with record_attention(model, class_row=True):
        model(images)
    Answers(model)(images)
    assert seen == [17, 17, 17]
    handle.remove()
    assert reads_class_token_only(model)


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
        with class_token_only(model) as again:
            assert not again
        assert model.forward_features(images).shape[1] == 1


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


def test_dropout_is_drawn_in_training_alone(build_vit, images):
    model = build_vit(attn_drop_rate=0.9)
    for fused in (False, True):
        model.blocks[-1].attn.fused_attn = fused
        with class_token_only(model):
            assert torch.equal(model.eval()(images), model(images))
            assert not torch.equal(model.train()(images), model(images))

"""The recurrences against blocks that they describe exactly, and word by word."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from relevit.attention.recording import record_attention
from relevit.evaluate.approximation import approximation_errors, error_table


def linearised(model):
    """Take out what the recurrence leaves out: norms, biases, activation; values pass as they are.

    Then a block is exactly Z -> (A + I) Z W with A the mean over heads, if all heads agree.
    """
    for block in model.blocks:
        block.norm1, block.norm2, block.mlp.act = nn.Identity(), nn.Identity(), nn.Identity()
        width = block.attn.proj.weight.shape[0]
        with torch.no_grad():
            block.attn.qkv.weight[: 2 * width] = 0  # uniform attention in every head
            block.attn.qkv.weight[2 * width :] = torch.eye(width)
            block.attn.proj.weight.copy_(torch.eye(width))
            for layer in (block.attn.qkv, block.attn.proj, block.mlp.fc1, block.mlp.fc2):
                layer.bias.zero_()
    return model


@pytest.mark.parametrize("kind", ["plain", "layer_scale"])
def test_rollout_is_exact_for_blocks_that_are_linear(build_vit, images, kind):
    model = linearised(build_vit(kind))
    if kind == "layer_scale":  # attention's own scale is in the values of token-wise alone
        for block in model.blocks:
            nn.init.ones_(block.ls1.gamma)
    errors = approximation_errors(model, images)
    rollout = errors[errors["method"] == "rollout"]
    assert len(errors) == 3 * 2 * 3 and rollout["squared_error"].max() < 1e-18
    # Identity values have gain 1, and equal heads equal weights: the three are one.
    assert errors["squared_error"].max() < 1e-18


def test_error_word_by_word(build_vit, images):
    model = build_vit()
    with record_attention(model) as tape:
        model(images)
    block, before, after = model.blocks[0], tape.inputs[0], tape.inputs[1]
    mixed = before + tape.maps[0].mean(dim=1) @ before
    guess = mixed @ (block.mlp.fc1.weight.T @ block.mlp.fc2.weight.T + torch.eye(16))
    expected = (after - guess).square().sum(dim=(1, 2)).tolist()
    errors = approximation_errors(model, images)
    first = errors[(errors["method"] == "rollout") & (errors["block"] == 1)]
    assert first["squared_error"].tolist() == pytest.approx(expected, rel=1e-10)
    table = error_table(errors)
    assert table["images"].eq(3).all() and len(table) == 6
    assert table.iloc[0]["mean_squared_error"] == pytest.approx(sum(expected) / 3)


def test_last_block_is_judged_by_its_own_output(build_vit, images):
    model = build_vit(depth=1)
    features = []
    model.norm.register_forward_pre_hook(lambda module, args: features.append(args[0]))
    errors = approximation_errors(model, images)
    with record_attention(model) as tape:
        model(images)
    block, before = model.blocks[0], tape.inputs[0]
    mixed = before + tape.maps[0].mean(dim=1) @ before
    guess = mixed @ (block.mlp.fc1.weight.T @ block.mlp.fc2.weight.T + torch.eye(16))
    expected = (features[-1] - guess).square().sum(dim=(1, 2))
    rollout = errors[errors["method"] == "rollout"]["squared_error"]
    assert rollout.tolist() == pytest.approx(expected.tolist(), rel=1e-10)

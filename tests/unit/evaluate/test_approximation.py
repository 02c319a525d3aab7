"""The recurrences against blocks that they describe exactly, and word by word."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from relevit.evaluate.approximation import approximation_errors


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

"""The heads' rows are the recorded ones, in any number of images at once, and leave no trace."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from relevit.attention.recording import record_attention
from relevit.attribution import METHODS
from relevit.iav import class_attention

CLASS_TOKEN_KINDS = ("plain", "layer_scale", "qk_norm", "registers", "distilled")
AVERAGE_KINDS = ("average", "average_and_registers")


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def recorded(model, images):
    """[batch, layers, heads, tokens, tokens], every row of every map."""
    with torch.no_grad(), record_attention(model) as tape:
        model(images)
    return torch.stack(tape.maps, dim=1)


# Which rows


@pytest.mark.parametrize("kind", CLASS_TOKEN_KINDS)
def test_rows_of_the_class_token(build_vit, images, kind):
    model = build_vit(kind, depth=3)
    prefix = model.num_prefix_tokens
    rows = class_attention(model, images)
    assert rows.shape == (3, 3, 2, 16)
    close(rows, recorded(model, images)[..., 0, prefix:])
    whole = recorded(model, images)[..., 0, :]
    close(rows.sum(dim=-1), 1 - whole[..., :prefix].sum(dim=-1))
    assert prefix == {"registers": 4, "distilled": 2}.get(kind, 1)


@pytest.mark.parametrize("kind", AVERAGE_KINDS)
def test_mean_of_the_patches_rows_where_the_head_averages(build_vit, images, kind):
    model = build_vit(kind, depth=3)
    prefix = model.num_prefix_tokens
    expected = recorded(model, images)[..., prefix:, prefix:].mean(dim=-2)
    close(class_attention(model, images), expected)


def test_mean_row_is_what_an_averaging_head_reads(build_vit, images):
    """The mean of the patches' outputs is the values weighed by the mean of the rows."""
    model = build_vit("average", class_token=False)
    with torch.no_grad(), record_attention(model, values=True) as tape:
        model(images)
    rows = class_attention(model, images)[:, -1]
    close(rows.sum(dim=-1), torch.ones(3, 2).double())
    outputs = tape.maps[-1] @ tape.values[-1]
    close(torch.einsum("bhp,bhpw->bhw", rows, tape.values[-1]), outputs.mean(dim=2))


def test_pooling_asks_for_other_rows(build_vit, images):
    for kind in ("plain", "average"):
        model = build_vit(kind)
        maps = recorded(model, images)
        class_row, mean_row = maps[..., 0, 1:], maps[..., 1:, 1:].mean(dim=-2)
        close(class_attention(model, images, pooling="class_token"), class_row)
        close(class_attention(model, images, pooling="patches"), mean_row)
        close(class_attention(model, images, pooling="both"), class_row + mean_row)


@pytest.mark.parametrize("kind", ["plain", "average"])
def test_last_layers_mean_over_heads_is_raw_attention(build_vit, images, kind):
    model = build_vit(kind)
    expected = METHODS["raw_attention"](model, images, protocol="described")
    close(class_attention(model, images)[:, -1].mean(dim=1), expected)


# Memory and state


@pytest.mark.parametrize("kind", ["plain", "average"])
def test_chunks_bound_the_images_at_once_and_change_nothing(build_vit, images, kind):
    model = build_vit(kind)
    images = torch.cat([images, -images, images.flip(3)])[:8]
    sizes = []
    handle = model.patch_embed.register_forward_hook(lambda m, args, out: sizes.append(len(out)))
    whole = class_attention(model, images)
    for chunk, expected in ((1, 8 * [1]), (3, [3, 3, 2]), (8, [8]), (1000, [8])):
        sizes.clear()
        close(class_attention(model, images, chunk=chunk), whole)
        assert sizes == expected
    handle.remove()


@pytest.mark.parametrize("training", [False, True])
def test_modes_hooks_and_gradients_stay(build_vit, images, state_of, training):
    model = build_vit().train(training)
    model.blocks[0].attn.fused_attn = False
    before = state_of(model)
    rows = class_attention(model, images.clone().requires_grad_())
    assert not rows.requires_grad and torch.is_grad_enabled()
    assert state_of(model) == before


def test_state_stays_after_an_error(build_vit, images, state_of):
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("broken")

    model = build_vit()
    model.blocks[1].mlp = Broken()
    before = state_of(model)
    with pytest.raises(KeyError, match="broken"):
        class_attention(model, images)
    assert state_of(model) == before


def test_wrong_chunks_and_models_are_refused(build_vit, images):
    with pytest.raises(ValueError, match="chunk 0: at least 1 image has to be run at once"):
        class_attention(build_vit(), images, chunk=0)
    model = build_vit("average", class_token=False)
    with pytest.raises(ValueError, match="pooling: this VisionTransformer has no class token"):
        class_attention(model, images, pooling="class_token")
    with pytest.raises(ValueError, match="Linear has no blocks with global self-attention"):
        class_attention(nn.Linear(3, 3), images)

"""Where heads look, IA-scores, entropy and drift, on maps whose values can be written down."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from relevit.iav import (
    attention_entropy,
    centred_scores,
    class_attention,
    ia_scores,
    map_drift,
    patch_average,
    uniform_score,
)
from relevit.maps import record_attention

BATCH, LAYERS, HEADS, PATCHES = 5, 3, 4, 16


def close(ours, theirs, tolerance=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.fixture
def attention():
    random = torch.Generator().manual_seed(0)
    return torch.rand(BATCH, LAYERS, HEADS, PATCHES, generator=random).double()


@pytest.fixture
def attribution():
    random = torch.Generator().manual_seed(1)
    return torch.rand(BATCH, PATCHES, generator=random).double()


# Attention of the heads


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("plain", slice(0, 1)),
        ("layer_scale", slice(0, 1)),
        ("qk_norm", slice(0, 1)),
        ("registers", slice(0, 1)),
        ("distilled", slice(0, 2)),  # its head reads both tokens
        ("average", None),  # the patches'
        ("average_and_registers", None),
    ],
)
def test_rows_that_the_head_reads(build_vit, images, kind, rows):
    model = build_vit(kind, depth=3)
    with torch.no_grad(), record_attention(model) as tape:
        model(images)
    whole = torch.stack(tape.maps, dim=1)  # [batch, layers, heads, tokens, tokens]
    patches = slice(model.num_prefix_tokens, None)
    expected = whole[..., rows or patches, patches].mean(dim=-2)
    close(class_attention(model, images), expected)
    assert expected.shape == (3, 3, 2, 16)


# IA-Score


def test_score_is_the_cosine_and_centred_the_correlation(attention, attribution):
    """Each head has its own score; no other image, layer or head has a part in it."""
    scores, centred = ia_scores(attention, attribution), centred_scores(attention, attribution)
    for i, layer, head in np.ndindex(BATCH, LAYERS, HEADS):
        row, target = attention[i, layer, head].numpy(), attribution[i].numpy()
        cosine = row @ target / np.sqrt((row @ row) * (target @ target))
        assert float(scores[i, layer, head]) == pytest.approx(cosine, rel=1e-12)
        correlation = np.corrcoef(row, target)[0, 1]
        assert float(centred[i, layer, head]) == pytest.approx(correlation, rel=1e-9)
    assert (centred < 0).any()


def test_uniform_attention_scores_high_on_a_flat_map_and_nothing_when_centred(attribution):
    uniform = torch.full((BATCH, LAYERS, HEADS, PATCHES), 1 / 17, dtype=torch.float64)
    expected = attribution.mean(1) / attribution.square().mean(1).sqrt()
    close(uniform_score(attribution), expected)
    close(ia_scores(uniform, attribution), expected[:, None, None].expand(-1, LAYERS, HEADS))
    assert not centred_scores(uniform, attribution).any()
    assert not centred_scores(uniform.float(), attribution.float()).any()


@pytest.mark.parametrize("value", [-0.25, math.nan, math.inf])
def test_maps_that_cannot_be_scored(attention, attribution, value):
    attribution[0, 3] = value
    with pytest.raises(ValueError, match=r"ia_scores: attribution from .*; needed are finite val"):
        ia_scores(attention, attribution)


# Entropy


def test_entropy_is_scipys_and_none_on_one_patch(attention):
    attention[0, 0, 0, ::2], attention[1, 0, 0, 1:] = 0, 0
    found = attention_entropy(attention)
    close(found, torch.from_numpy(entropy(attention.numpy(), axis=-1)))
    assert found[1, 0, 0] == 0


# Maps


def test_patch_average_by_hand():
    pixels = torch.arange(24.0).reshape(1, 4, 6)
    assert patch_average(pixels, (2, 2)).tolist() == [[4.0, 7.0, 16.0, 19.0]]
    assert torch.equal(patch_average(pixels[:, None], (2, 2)), patch_average(pixels, (2, 2)))
    assert torch.equal(patch_average(pixels, (4, 6)), pixels.flatten(1))
    with pytest.raises(ValueError, match="patch_average: 3 channels; sum over colours before"):
        patch_average(pixels[:, None].expand(1, 3, 4, 6), (2, 2))
    mask = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
    mask[..., :3, :2] = True
    assert patch_average(mask, (2, 2)).tolist() == [[1.0, 0.0, 0.5, 0.0]]


# Drift


def test_drift_of_equal_and_of_disjoint_maps(attention):
    close(map_drift(3 * attention, attention), torch.zeros(BATCH).double(), 1e-16)
    one, other = torch.eye(PATCHES)[:2]
    drift = map_drift(torch.stack([5 * one, one]), torch.stack([other, one]))
    assert drift.tolist() == [2 / PATCHES, 0.0]

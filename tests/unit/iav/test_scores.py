"""Where heads look, IA-scores, entropy and drift, on maps whose values can be written down."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from relevit.attention.recording import record_attention
from relevit.attribution import METHODS
from relevit.attribution.smoothgrad import smoothgrad_pixels
from relevit.iav import (
    attention_entropy,
    centred_scores,
    class_attention,
    global_iav,
    head_names,
    head_types,
    ia_scores,
    iav,
    identity_share,
    map_drift,
    patch_average,
    uniform_score,
    unit_norm,
)

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


def as_heads(maps):
    """The same map for every layer and head."""
    return maps[:, None, None].expand(-1, LAYERS, HEADS, -1)


# Attention of the heads


def recorded(model, images):
    """[batch, layers, heads, tokens, tokens], every row of every map."""
    with torch.no_grad(), record_attention(model) as tape:
        model(images)
    return torch.stack(tape.maps, dim=1)


@pytest.mark.parametrize("kind", ["plain", "layer_scale", "qk_norm", "registers"])
def test_rows_of_the_class_token(build_vit, images, kind):
    model = build_vit(kind, depth=3)
    prefix = model.num_prefix_tokens
    rows = class_attention(model, images)
    assert rows.shape == (3, 3, 2, 16)
    close(rows, recorded(model, images)[..., 0, prefix:])
    whole = recorded(model, images)[..., 0, :]
    close(rows.sum(dim=-1), 1 - whole[..., :prefix].sum(dim=-1))
    assert prefix == (4 if kind == "registers" else 1)


def test_a_distilled_model_reads_both_of_its_tokens(build_vit, images):
    model = build_vit("distilled", depth=3)
    close(class_attention(model, images), recorded(model, images)[..., :2, 2:].mean(dim=-2))


@pytest.mark.parametrize("kind", ["average", "average_and_registers"])
def test_mean_of_the_patches_rows_where_the_head_averages(build_vit, images, kind):
    model = build_vit(kind, depth=3)
    prefix = model.num_prefix_tokens
    expected = recorded(model, images)[..., prefix:, prefix:].mean(dim=-2)
    close(class_attention(model, images), expected)


def test_mean_row_is_what_an_averaging_head_reads(build_vit, images):
    """The mean of the patches' outputs is the values weighed by the mean of the rows."""
    model = build_vit("average", class_token=False)
    layer, seen = model.blocks[-1].attn, {}
    layer.qkv.register_forward_hook(lambda module, args, out: seen.update(qkv=out))
    layer.proj.register_forward_pre_hook(lambda module, args: seen.update(outputs=args[0]))
    rows = class_attention(model, images)[:, -1]
    close(rows.sum(dim=-1), torch.ones(3, 2).double())
    values = seen["qkv"].chunk(3, dim=2)[2].unflatten(2, (2, -1))
    read = torch.einsum("bhp,bphw->bhw", rows, values).flatten(1)
    close(read, seen["outputs"].mean(dim=1))


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


# IA-Score


def test_equal_maps_score_one(attribution):
    scores = ia_scores(as_heads(attribution), attribution)
    assert scores.shape == (BATCH, LAYERS, HEADS)
    close(scores, torch.ones_like(scores))
    assert scores.max() <= 1


def test_disjoint_maps_score_zero(attention, attribution):
    left = torch.arange(PATCHES) < PATCHES // 2
    scores = ia_scores(attention * left, attribution * ~left)
    assert torch.equal(scores, torch.zeros_like(scores))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("a", "b"), [(3.0, 1e-5), (1e-30, 1.0), (1e30, 1e-30), (1.0, 1e30)])
def test_scales_do_not_matter(attention, attribution, a, b, dtype):
    expected = ia_scores(attention, attribution).to(dtype)
    scores = ia_scores((a * attention).to(dtype), (b * attribution).to(dtype))
    close(scores, expected, 1e-12 if dtype == torch.float64 else 1e-6)


def test_score_is_the_cosine(attention, attribution):
    """Each head has its own score; no other image, layer or head has a part in it."""
    scores = ia_scores(attention, attribution)
    for i, layer, head in np.ndindex(BATCH, LAYERS, HEADS):
        row, target = attention[i, layer, head].numpy(), attribution[i].numpy()
        cosine = row @ target / np.sqrt((row @ row) * (target @ target))
        assert float(scores[i, layer, head]) == pytest.approx(cosine, rel=1e-12)


@pytest.mark.parametrize("covered", [1, 4, 9, 16])
def test_uniform_attention_on_a_mask(covered):
    """Any-AV with an object's mask: the cosine is the square root of the share it covers."""
    mask = torch.zeros(BATCH, 4 * 4, dtype=torch.float64)
    mask[:, :covered] = 1
    uniform = torch.full((BATCH, LAYERS, HEADS, 16), 1 / 17, dtype=torch.float64)
    scores = ia_scores(uniform, mask)
    close(scores, torch.full_like(scores, math.sqrt(covered / 16)))


def test_uniform_attention_scores_high_on_a_flat_map_and_nothing_when_centred(attribution):
    uniform = torch.full((BATCH, LAYERS, HEADS, PATCHES), 1 / 17, dtype=torch.float64)
    expected = attribution.mean(1) / attribution.square().mean(1).sqrt()
    close(uniform_score(attribution), expected)
    close(ia_scores(uniform, attribution), expected[:, None, None].expand(-1, LAYERS, HEADS))
    assert not centred_scores(uniform, attribution).any()
    assert not centred_scores(uniform.float(), attribution.float()).any()


def test_centred_score_is_the_correlation(attention, attribution):
    scores = centred_scores(attention, attribution)
    for i, layer, head in np.ndindex(BATCH, LAYERS, HEADS):
        expected = np.corrcoef(attention[i, layer, head].numpy(), attribution[i].numpy())[0, 1]
        assert float(scores[i, layer, head]) == pytest.approx(expected, rel=1e-9)
    assert (scores < 0).any()


def test_zero_maps_score_zero(attention, attribution):
    attribution[1] = 0
    attention[2, 1, 3] = 0
    scores = ia_scores(attention, attribution)
    assert (scores[1] == 0).all() and scores[2, 1, 3] == 0
    assert (scores == 0).sum() == LAYERS * HEADS + 1 and scores.isfinite().all()


def test_half_precision_is_scored_in_single(attention, attribution):
    scores = ia_scores(attention.bfloat16(), attribution.float())
    assert scores.dtype == torch.float32
    close(
        scores, ia_scores(attention.bfloat16().double(), attribution.float().double()).float(), 1e-6
    )


@pytest.mark.parametrize("value", [-0.25, math.nan, math.inf])
def test_maps_that_cannot_be_scored(attention, attribution, value):
    attribution[0, 3] = value
    with pytest.raises(ValueError, match=r"ia_scores: attribution from .*; needed are finite val"):
        ia_scores(attention, attribution)


def test_scores_of_a_model(build_vit, images):
    model = build_vit()
    target = torch.tensor([0, 1, 2])
    for name in ("smoothgrad", "gradcam"):
        maps = METHODS[name](model, images, target, protocol="described")
        scores = ia_scores(class_attention(model, images), maps)
        assert scores.shape == (3, 2, 2) and (scores >= 0).all() and (scores <= 1).all()


# IAV and global-IAV


def test_iav_has_layers_times_heads_entries_in_the_order_of_their_names():
    scores = torch.tensor([[[10 * layer + head for head in (1, 2, 3)] for layer in (1, 2)]])
    assert iav(scores.double()).tolist() == [[11, 12, 13, 21, 22, 23]]
    assert head_names(2, 3) == ["L1H1", "L1H2", "L1H3", "L2H1", "L2H2", "L2H3"]
    assert len(head_names(12, 12)) == 144 and head_names(12, 12)[-1] == "L12H12"


def test_sum_and_mean_differ_by_the_number_of_images(attention, attribution):
    scores = ia_scores(attention, attribution)
    assert torch.equal(global_iav(scores), scores.mean(dim=0))
    close(global_iav(scores, "sum"), BATCH * global_iav(scores, "mean"), 1e-14)
    whole = torch.full((4, 2, 2), 0.5)
    assert torch.equal(global_iav(whole, "sum"), 4 * global_iav(whole)), "exactly"


# Entropy


@pytest.mark.parametrize("patches", [1, 2, 16, 196])
@pytest.mark.parametrize("share", [1.0, 0.3, 1e-20])
def test_entropy_of_uniform_attention_is_log_n(patches, share):
    rows = torch.full((2, 3, 4, patches), share / patches, dtype=torch.float64)
    found = attention_entropy(rows)
    assert found.shape == (2, 3, 4)
    close(found, torch.full_like(found, math.log(patches)))


def test_entropy_of_attention_on_one_patch_is_zero():
    rows = torch.zeros(1, 1, 2, 16)
    rows[0, 0, 0, 3], rows[0, 0, 1, 7] = 1.0, 0.2
    assert attention_entropy(rows).tolist() == [[[0.0, 0.0]]]


def test_entropy_is_scipys(attention):
    attention[0, 0, 0, ::2] = 0
    expected = torch.from_numpy(entropy(attention.numpy(), axis=-1))
    close(attention_entropy(attention), expected)


# Heads


def test_head_types_by_the_median():
    """Medians 0.5 (exactly), 0.55, 0.2 (mean 0.5) and 0.9 (mean 0.6)."""
    columns = [
        [0.4, 0.6, 0.1, 0.9],
        [0.5, 0.6, 0.1, 0.9],
        [0.1, 0.1, 0.3, 1.0],
        [0.9, 0.9, 0.9, 0.0],
    ]
    scores = torch.tensor(columns, dtype=torch.float64).T.reshape(4, 2, 2)
    assert head_types(scores).tolist() == [[False, True], [False, True]]
    assert head_types(scores, threshold=0.15).all()
    assert not head_types(scores, threshold=0.9).any()


def test_medians_are_numpys(attention):
    scores = attention[..., 0]
    medians = torch.from_numpy(np.median(scores.numpy(), axis=0))
    assert torch.equal(head_types(scores, 0.4), medians > 0.4)


def test_shares_of_variance():
    """Layers: head decides; image decides; both as much; neither, only the two together."""
    head = torch.tensor([[0.2, 0.8], [0.2, 0.8]]).double()
    both = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).double()
    scores = torch.stack([head, head.T, head + head.T, both], dim=1)
    close(identity_share(scores), torch.tensor([1.0, 0.0, 0.5, 0.0]).double())


def test_shares_are_eta_squared(attention):
    values = attention[..., 0].numpy()
    for layer, share in enumerate(identity_share(attention[..., 0])):
        part = values[:, layer]
        assert float(share) == pytest.approx(part.mean(axis=0).var() / part.var(), rel=1e-12)


def test_equal_scores_have_no_variance_to_share():
    assert identity_share(torch.full((7, 2, 3), 0.1)).tolist() == [0, 0]


# Maps


def test_patch_average_by_hand():
    pixels = torch.arange(24.0).reshape(1, 4, 6)
    assert patch_average(pixels, (2, 2)).tolist() == [[4.0, 7.0, 16.0, 19.0]]
    assert torch.equal(patch_average(pixels[:, None], (2, 2)), patch_average(pixels, (2, 2)))
    assert torch.equal(patch_average(pixels, (4, 6)), pixels.flatten(1))
    assert patch_average(pixels, (1, 1)).tolist() == [[11.5]]


def test_patch_average_of_a_mask_is_the_share_it_covers():
    mask = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
    mask[..., :3, :2] = True
    assert patch_average(mask, (2, 2)).tolist() == [[1.0, 0.0, 0.5, 0.0]]


def test_patch_average_of_pixels_is_smoothgrads_own(build_vit, images):
    model, target = build_vit(), torch.tensor([0, 1, 2])
    pixels = smoothgrad_pixels(model, images, target, draws=2).abs().sum(dim=1)
    expected = METHODS["smoothgrad"](model, images, target, draws=2)
    close(patch_average(pixels, model.patch_embed.grid_size), expected)


def test_unit_norm(attribution):
    found = unit_norm(attribution - 0.5)
    close(found.norm(dim=-1), torch.ones(BATCH).double())
    tiny = torch.tensor([[3e-40, 4e-40], [0.0, 0.0]])
    close(unit_norm(tiny), torch.tensor([[0.6, 0.8], [0.0, 0.0]]), 1e-4)


# Drift


def test_drift_of_equal_and_of_disjoint_maps(attention):
    close(map_drift(3 * attention, attention), torch.zeros(BATCH).double(), 1e-16)
    one, other = torch.eye(PATCHES)[:2]
    drift = map_drift(torch.stack([5 * one, one]), torch.stack([other, one]))
    assert drift.tolist() == [2 / PATCHES, 0.0]


def test_drift_averages_over_layers_and_heads(attention, attribution):
    drift = map_drift(attention, as_heads(attribution))
    single = [
        map_drift(attention[:, layer, head], attribution)
        for layer, head in np.ndindex(LAYERS, HEADS)
    ]
    close(drift, torch.stack(single).mean(dim=0))
    i = 2
    by_hand = (
        attention[i, 0, 0] / attention[i, 0, 0].norm() - attribution[i] / attribution[i].norm()
    )
    close(single[0][i], by_hand.abs().mean())

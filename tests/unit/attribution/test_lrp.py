"""The rules of layer-wise relevance propagation, by hand on tiny tensors, and who they refuse."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from timm.layers import GluMlp, SwiGLU
from timm.models.vision_transformer import ResPostBlock

from relevit.attribution import METHODS
from relevit.attribution import lrp_rules as rules
from relevit.attribution.lrp import from_head, lrp_pixels, through_blocks
from relevit.attribution.seen import observe

from .. import attribution_cases
from ..attribution_cases import LRP

close = partial(attribution_cases.close, atol=1e-12)


def tensor(*values):
    """A vector of one list, a matrix of several, a batch of a list in a list."""
    return torch.tensor(values[0] if len(values) == 1 else values, dtype=torch.float64)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def test_safe_divide():
    ours = rules.safe_divide(tensor([1, 1, 1, 0, 6]), tensor([0, 1e-12, -1e-12, 0, 3]))
    close(ours, tensor([0, 1e9, -1e9, 0, 2]))


def test_linear_counts_products_of_equal_sign():
    """Output 0: 1*2 counts, -3*4 does not, 2*0 is none. Output 1: -3*-1 and 1*1."""
    inputs, weight = tensor([1, -3, 2]), tensor([2, 4, 0], [1, -1, -5])
    ours = rules.through_linear(tensor([10, 20]), inputs, weight)
    close(ours, tensor([10 + 20 * 1 / 4, 20 * 3 / 4, 0]))
    assert ours.sum() == 30


def test_linear_with_parts_apart_pays_twice():
    """Output 1 hands all its relevance to the positive inputs and again to the negative ones."""
    inputs, weight = tensor([1, -3, 2]), tensor([2, 4, 0], [1, -1, -5])
    ours = rules.through_linear(tensor([10, 20]), inputs, weight, apart=True)
    close(ours, tensor([10 + 20, 20, 0]))


def test_linear_drops_what_nothing_carries():
    ours = rules.through_linear(tensor([7]), tensor([1, 1]), tensor([[-1, -1]]))
    close(ours, tensor([0, 0]))


def test_product_halves():
    left, right = tensor([[1, 3]]), tensor([2], [4])
    of_left, of_right = rules.through_product(tensor([[28]]), left, right)
    close(of_left, tensor([[2, 12]]))  # 28 / 14 / 2 times each summand 2 and 12
    close(of_right, tensor([2], [12]))


def test_product_conserves():
    relevance = draw(2, 3, 5)
    parts = rules.through_product(relevance, draw(2, 3, 4, seed=1), draw(2, 4, 5, seed=2))
    for part in parts:
        close(part.sum(dim=(1, 2)), relevance.sum(dim=(1, 2)) / 2, 1e-9)


def test_sum_by_share():
    a, b = tensor([1, 6]), tensor([3, -2])
    parts = rules.through_sum(tensor([8, 4]), a, b, normalise=False)
    close(parts[0], tensor([2, 6]))
    close(parts[1], tensor([6, -2]))


def test_sum_is_scaled_to_the_relevance_of_the_image():
    a, b = tensor([[1, 6]]), tensor([[3, -2]])
    parts = rules.through_sum(tensor([[8, 4]]), a, b)
    # The parts sum to 8 and 4, which is what they may: 12 * 8/12 and 12 * 4/12.
    close(parts[0], tensor([[2, 6]]))
    close(parts[1], tensor([[6, -2]]))
    # Shares 10 and -9 of 1: the whole is 1, of which they get 10/19 and 9/19, both positive.
    parts = rules.through_sum(tensor([[1]]), tensor([[10]]), tensor([[-9]]))
    close(parts[0], tensor([[10 / 19]]))
    close(parts[1], tensor([[9 / 19]]))


def test_sum_is_normalised_image_by_image():
    relevance, a, b = draw(3, 4, 5), draw(3, 4, 5, seed=1), draw(3, 4, 5, seed=2)
    together = rules.through_sum(relevance, a, b)
    for i in range(3):
        alone = rules.through_sum(*(x[i : i + 1] for x in (relevance, a, b)))
        close(together[0][i : i + 1], alone[0])
    close((together[0] + together[1]).sum(dim=(1, 2)), relevance.sum(dim=(1, 2)), 1e-9)


def test_mean_by_share():
    tokens = tensor([[[1, 2], [3, 0], [2, 4]]])
    close(rules.through_mean(tensor([[6, 9]]), tokens), tensor([[[1, 3], [3, 0], [2, 6]]]))


def test_patches_by_the_bounded_rule():
    """One patch of two pixels: pixel 0 is the image's smallest value, 1 its largest."""
    projection = torch.nn.Conv2d(1, 1, kernel_size=(1, 2), stride=(1, 2), bias=False).double()
    with torch.no_grad():
        projection.weight.copy_(tensor([[[[2, -3]]]]))
    image = tensor([[[[-1, 4]]]])
    ours = rules.through_patches(tensor([[[5]]]), image, projection)
    # x w - low w+ - high w-: 2 * (-1) - 2 * (-1) = 0 and -3 * 4 + 3 * 4 = 0: no way to share.
    close(ours, torch.zeros(1, 1, 1, 2).double())
    image = tensor([[[[0, 1], [-1, 4]]]])
    ours = rules.through_patches(tensor([[[5], [0]]]), image, projection)
    # Shares 2 * (0 - -1) = 2 and -3 * (1 - 4) = 9 of 11.
    close(ours[0, 0, 0], tensor([10 / 11, 45 / 11]), 1e-8)


def test_patches_keep_their_place():
    """A grid that is no square: relevance of one patch stays inside its pixels."""
    projection = torch.nn.Conv2d(3, 4, kernel_size=2, stride=2).double()
    images, relevance = draw(1, 3, 4, 6), torch.zeros(1, 6, 4).double()
    relevance[0, 5] = 1
    pixels = rules.through_patches(relevance, images, projection).detach()
    assert pixels[..., 2:, 4:].sum() == pytest.approx(4)
    pixels[..., 2:, 4:] = 0
    assert pixels.abs().max() == 0


# Whole models


@pytest.mark.parametrize(
    "kind", ["plain", "average", "registers", "distilled", "layer_scale", "scale_norm"]
)
def test_relevance_sums_to_one_after_every_block(build_vit, images, kind):
    model = build_vit(kind, depth=3)
    with torch.no_grad():
        seen = observe(model, images, torch.tensor([0, 3, 1]))
        relevance = from_head(model, seen, "described")
        one = torch.ones(3).double()
        close(relevance.sum(dim=(1, 2)), one, 1e-6)
        for found in through_blocks(model, seen, relevance):
            close(found.tokens.sum(dim=(1, 2)), one, 1e-6)
            # Half of a product's relevance goes to the map, by the mixing of the values.
            assert found.attention.sum(dim=(1, 2, 3)).abs().max() < 1


def test_published_average_pooling_hands_on_too_much(build_vit, images):
    model = build_vit("average")
    seen = observe(model, images)
    with torch.no_grad():
        relevance = from_head(model, seen, "published")
    close(relevance.sum(dim=(1, 2)), torch.full((3,), 16.0).double(), 1e-6)


def test_patches_sum_their_pixels(build_vit, images):
    model = build_vit()
    pixels = lrp_pixels(model, images).detach()
    assert pixels.shape == (3, 28, 28)
    blocks = pixels.reshape(3, 4, 7, 4, 7).sum(dim=(2, 4)).flatten(1)
    close(METHODS["lrp"](model, images), blocks, 1e-9)


def test_position_embedding_of_any_image_size(build_vit, images):
    """A model that resizes its position embedding on the way explains as one that did before."""
    small = images[:, :, :21, :21]
    flexible, fixed = build_vit(dynamic_img_size=True), build_vit()
    fixed.set_input_size(img_size=(21, 21))
    close(METHODS["lrp"](flexible, small), METHODS["lrp"](fixed, small), 1e-6)


def test_norm_after_the_position_embedding(build_vit, images):
    """CLIP's first norm hands relevance on: an identity one changes nothing."""
    plain, normed = build_vit(), build_vit(pre_norm=True)
    normed.norm_pre = torch.nn.Hardtanh(-1e9, 1e9)  # not an Identity, and yet one
    normed.load_state_dict(plain.state_dict(), strict=False)
    normed.patch_embed.proj.bias = plain.patch_embed.proj.bias
    close(METHODS["lrp"](normed, images), METHODS["lrp"](plain, images), 1e-6)


UNKNOWN = {
    "block 1": {"mlp_layer": SwiGLU},
    "block  1": {"mlp_layer": GluMlp},
    "the last block or the head": {"block_fn": ResPostBlock},
    "the last block or  the head": {"global_pool": "avg", "pool_include_prefix": True},
}


@pytest.mark.parametrize("what", UNKNOWN)
@pytest.mark.parametrize("name", LRP)
def test_models_without_rules_are_refused(build_vit, images, name, what):
    """They would get a map that looks right and is not."""
    model = build_vit(**UNKNOWN[what])
    text = rf"lrp: {' '.join(what.split())} of this VisionTransformer .*no propagation rule.*MAE"
    with pytest.raises(ValueError, match=text):
        METHODS[name](model, images)


@pytest.mark.parametrize("name", LRP)
def test_gated_attention_is_refused(build_vit, images, name):
    model = build_vit()
    model.blocks[1].attn.gate = torch.nn.Linear(16, 16).double()
    with pytest.raises(ValueError, match="lrp: the last block or the head of this Vision"):
        METHODS[name](model, images)
    model = build_vit(depth=3)
    model.blocks[1].attn.gate = torch.nn.Linear(16, 16).double()
    if name == "partial_lrp":  # needs the last block alone
        METHODS[name](model, images)
    else:
        with pytest.raises(ValueError, match="lrp: block 2 of this VisionTransformer"):
            METHODS[name](model, images)


@pytest.mark.parametrize("name", LRP)
def test_a_model_without_head_is_an_error(build_vit, images, name):
    model = build_vit()
    model.reset_classifier(0)
    with pytest.raises(ValueError, match=r"head of this VisionTransformer is Identity\(\) and no"):
        METHODS[name](model, images)

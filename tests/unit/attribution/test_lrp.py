"""The rules of layer-wise relevance propagation, by hand on tiny tensors, and who they refuse."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from timm.layers import Attention, GluMlp, RmsNorm, SwiGLU
from timm.layers.activations import QuickGELU
from timm.models.vision_transformer import ResPostBlock
from torch import nn

from habitats.homes import habitats
from relevit.attribution import METHODS
from relevit.attribution import lrp as rules
from relevit.attribution.lrp import Relevance
from relevit.models import load_model

from .. import attribution_cases
from ..attribution_cases import LRP

close = partial(attribution_cases.close, atol=1e-12)


def tensor(*values):
    """A vector of one list, a matrix of several, a batch of a list in a list."""
    return torch.tensor(values[0] if len(values) == 1 else values, dtype=torch.float64)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize(
    ("inputs", "weight", "relevance", "apart", "wanted"),
    [
        # Output 0: 1*2 counts, -3*4 does not, 2*0 is none. Output 1: -3*-1 and 1*1.
        ([1, -3, 2], ([2, 4, 0], [1, -1, -5]), [10, 20], False, [10 + 20 / 4, 20 * 3 / 4, 0]),
        # Apart, output 1 hands all to the positive inputs and again to the negative ones.
        ([1, -3, 2], ([2, 4, 0], [1, -1, -5]), [10, 20], True, [10 + 20, 20, 0]),
        # Nothing carries it.
        ([1, 1], ([[-1, -1]],), [7], False, [0, 0]),
    ],
)
def test_linear_counts_products_of_equal_sign(inputs, weight, relevance, apart, wanted):
    inputs, weight = tensor(inputs), tensor(*weight)
    operands = (tensor(relevance), inputs, weight, weight @ inputs)
    close(rules.through_linear(*operands, apart=apart), tensor(wanted))


def test_product_halves():
    left, right = tensor([[1, 3]]), tensor([2], [4])
    of_left, of_right = rules.through_product(tensor([[28]]), left, right, left @ right)
    close(of_left, tensor([[2, 12]]))  # 28 / 14 / 2 times each summand 2 and 12
    close(of_right, tensor([2], [12]))
    relevance, left, right = draw(2, 3, 5), draw(2, 3, 4, seed=1), draw(2, 4, 5, seed=2)
    for part in rules.through_product(relevance, left, right, left @ right):
        close(part.sum(dim=(1, 2)), relevance.sum(dim=(1, 2)) / 2, 1e-9)


@pytest.mark.parametrize(
    ("relevance", "a", "b", "normalise", "wanted"),
    [
        ([8, 4], [1, 6], [3, -2], False, ([2, 6], [6, -2])),
        # The parts sum to 8 and 4, which is what they may: 12 * 8/12 and 12 * 4/12.
        ([8, 4], [1, 6], [3, -2], True, ([2, 6], [6, -2])),
        # Shares 10 and -9 of 1: the whole is 1, of which they get 10/19 and 9/19, both positive.
        ([1], [10], [-9], True, ([10 / 19], [9 / 19])),
    ],
)
def test_sum_by_share(relevance, a, b, normalise, wanted):
    operands = (tensor([values]) for values in (relevance, a, b))
    for part, known in zip(rules.through_sum(*operands, normalise=normalise), wanted, strict=True):
        close(part, tensor([known]))


def test_mean_by_share_and_a_share_of_nothing():
    ours = rules.safe_divide(tensor([1, 1, 1, 0, 6]), tensor([0, 1e-12, -1e-12, 0, 3]))
    close(ours, tensor([0, 1e9, -1e9, 0, 2]))
    tokens = tensor([[[1, 2], [3, 0], [2, 4]]])
    close(rules.through_mean(tensor([[6, 9]]), tokens), tensor([[[1, 3], [3, 0], [2, 6]]]))


def test_patches_by_the_bounded_rule():
    """One patch of two pixels: pixel 0 is the image's smallest value, 1 its largest."""
    weight = tensor([[[[2, -3]]]])
    ours = rules.through_patches(tensor([[[[5]]]]), tensor([[[[-1, 4]]]]), weight)
    # x w - low w+ - high w-: 2 * (-1) - 2 * (-1) = 0 and -3 * 4 + 3 * 4 = 0: no way to share.
    close(ours, torch.zeros(1, 1, 1, 2).double())
    images = tensor([[[[0, 1], [-1, 4]]]])
    ours = rules.through_patches(tensor([[[[5], [0]]]]), images, weight)
    # Shares 2 * (0 - -1) = 2 and -3 * (1 - 4) = 9 of 11.
    close(ours[0, 0, 0], tensor([10 / 11, 45 / 11]), 1e-8)


# Whole models


OPTIONS = {
    # With another seed a value is all but 0, and divided by.
    "norm behind the branch": {"block_fn": ResPostBlock, "seed": 1},
    "norm before the blocks": {"pre_norm": True},
    "QuickGELU": {"act_layer": QuickGELU},
    "RMS norm": {"norm_layer": nn.RMSNorm},
    "RMS norm of timm's own": {"norm_layer": RmsNorm},
}
KINDS = ("plain", "average", "registers", "distilled", "layer_scale", "scale_norm", *OPTIONS)


@pytest.mark.parametrize("kind", KINDS)
def test_relevance_sums_to_one_before_every_block(build_vit, images, kind):
    options = OPTIONS.get(kind, {})
    model = build_vit("plain" if options else kind, depth=3, **options)
    mode = Relevance()
    seen = mode.run(model, images, [0, 3, 1])
    found = mode.gradients(seen.score, [*seen.inputs, *seen.maps])
    for tokens, attention in zip(found[:3], found[3:], strict=True):
        close(tokens.sum(dim=(1, 2)), torch.ones(3).double(), 1e-6)
        # Half of a product's relevance goes to the map, by the mixing of the values.
        assert attention.sum(dim=(1, 2, 3)).abs().max() < 1


def test_a_pass_under_rules_has_the_models_logits_and_gradient(build_vit, images):
    """Also after a backward pass by the rules."""
    model, mode, asked = build_vit("distilled"), Relevance(), images.clone().requires_grad_()
    seen = mode.run(model, asked, 3)
    mode.gradients(seen.score, [asked], retain_graph=True)
    found = torch.autograd.grad(seen.score, asked)[0]
    close(seen.logits, model(asked), 1e-12)
    close(found, torch.autograd.grad(model(asked)[:, 3].sum(), asked)[0], 1e-9)


def test_position_embedding_of_any_image_size(build_vit, images):
    """A model that resizes its position embedding on the way explains as one that did before."""
    small = images[:, :, :21, :14]
    flexible, fixed = build_vit(dynamic_img_size=True), build_vit()
    fixed.set_input_size(img_size=(21, 14))
    close(METHODS["lrp"](flexible, small), METHODS["lrp"](fixed, small), 1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"reg_tokens": 3},
        {"reg_tokens": 3, "global_pool": "avg"},
        {"reg_tokens": 2, "global_pool": "avg", "class_token": False},
    ],
)
def test_tokens_without_a_position_are_no_part_of_its_sum(build_vit, images, options):
    """Pixels have the embedding's part of what the patches have, scaled by it and the position."""
    model = build_vit(no_embed_class=True, **options)
    mode = Relevance()
    seen = mode.run(model, images, [0, 3, 1])
    found = seen.inputs[0], *mode.gradients(seen.score, seen.inputs[:1])
    tokens, relevance = (part[:, model.num_prefix_tokens :] for part in found)
    of_position, of_patches = (
        (relevance / tokens * part).sum(dim=(1, 2)).abs()
        for part in (model.pos_embed, tokens - model.pos_embed)
    )
    wanted = relevance.sum(dim=(1, 2)) * of_patches / (of_patches + of_position)
    found = METHODS["lrp"](model, images, seen.target, protocol="described")
    close(found.sum(dim=1), wanted.detach(), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, "autocast"])
@pytest.mark.parametrize("kind", ["plain", "average", "distilled"])
@pytest.mark.parametrize("name", [*LRP, "attn_lrp", "head_wise"])
def test_half_precision_makes_numbers(build_vit, images, name, kind, dtype):
    """1e-9 is 0 in float16, so that nothing divided by nothing is NaN: rules count in float64."""
    model, target, images = build_vit(kind), torch.tensor([0, 3, 1]), images.clone()
    model.blocks[-1].mlp.fc1.weight.data[3] = 0
    images[0] = 0.3
    half = torch.float32 if dtype == "autocast" else dtype
    with torch.autocast("cpu", dtype=torch.float16, enabled=dtype == "autocast"):
        found = METHODS[name](model.to(half), images.to(half), target)
    assert found.dtype == torch.float32 and found.isfinite().all()


# Models without rules would get a map that looks right and is not


class Gated(Attention):
    def __init__(self, *args, **options):
        super().__init__(*args, gated=True, **options)


class Odd(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.forward = change


class Hidden(torch.autograd.Function):
    """As some quantised layers have it: no mode sees its backward pass."""

    @staticmethod
    def forward(ctx, inputs):
        return inputs * 2

    @staticmethod
    def backward(ctx, slope):
        return slope * 2


def odd(change):
    return {"act_layer": partial(Odd, change)}


MLP = r"in blocks\.\d\.mlp"
REFUSED = {
    "SwiGLU": ({"mlp_layer": SwiGLU}, f"mul of two activations {MLP}"),
    "sigmoid gate": ({"mlp_layer": GluMlp}, f"mul of two activations {MLP}"),
    "gated attention": ({"attn_layer": Gated}, r"mul of two activations in blocks\.\d\.attn"),
    "unknown": ({"act_layer": nn.Softplus}, f"softplus {MLP}"),
    "outside of the graph": (odd(Hidden.apply), f"mul {MLP}"),
    "constant matrix": (odd(lambda x: x @ torch.eye(64).double()), rf"\w*matmul\w* with .* {MLP}"),
    "mean over tokens": (odd(lambda x: x - x.mean(1, keepdim=True)), f"mean over axis 1 {MLP}"),
    "by keyword": (odd(lambda x: torch.softmax(input=x, dim=-1)), f"softmax {MLP}"),
}


def test_a_part_that_is_cut_off_is_no_gradient_at_all(build_vit, images):
    model = build_vit(**odd(lambda x: x.detach()))
    with pytest.raises(ValueError, match="by its attention is not that of its function"):
        METHODS["lrp"](model, images)


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("name", LRP)
def test_what_no_rule_follows_is_refused(build_vit, images, name, kind):
    options, what = REFUSED[kind]
    told = f"lrp: {what} of this VisionTransformer has no propagation rule .*merge_and_unload.*MAE"
    with pytest.raises(ValueError, match=told):
        METHODS[name](build_vit(**options), images)


def test_a_sum_that_is_no_residual_is_refused(build_vit, images):
    """As of an adapter beside the patches' convolution."""
    model = build_vit()
    model.patch_embed.norm = Odd(lambda x: x + 2 * x)
    with pytest.raises(ValueError, match="lrp: a sum of two activations in patch_embed of"):
        METHODS["lrp"](model, images)


def test_partial_lrp_asks_nothing_of_the_blocks_before_the_last(build_vit, images):
    model = build_vit()
    model.blocks[0].mlp.act = nn.Softplus()
    assert METHODS["partial_lrp"](model, images).isfinite().all()


@pytest.mark.parametrize("name", LRP)
def test_maps_of_a_trained_model_in_float32_are_those_of_float64(name):
    """In float32 the divisions by what is nearly 0 made maps that were off by their own size."""
    bench, model = habitats(), load_model("tiny")
    batch = bench.draw("val", range(0, 40, 10), size=bench.spec("tiny").image_size)
    images = bench.spec("tiny").normalise(batch.images)
    found = METHODS[name](model, images, batch.labels)
    exact = METHODS[name](model.double(), images.double(), batch.labels)
    assert found.dtype == torch.float32
    assert (found - exact).abs().max() <= 1e-6 * exact.abs().max()

"""AttnLRP and LibraGrad: logits as ever, sums that hold, and a map to train on.

AttnLRP's values are held to its authors' in `golden/test_attn_lrp.py`.
"""

from __future__ import annotations

import pytest
import torch
from timm.layers import GluMlp, RmsNorm, SwiGLU
from timm.layers.activations import QuickGELU
from timm.models.eva import Eva
from torch import Tensor, nn

from relevit.attribution import METHODS
from relevit.attribution.attn_lrp import attn_lrp_and_logits
from relevit.attribution.backward_rules import SHARED, Rules, constant
from relevit.maps import record_attention
from relevit.text.encoder import build_tiny

from ..attribution_cases import FACTORS, RULES, TARGET, close, slope_by_differences
from ..conftest import SIZES

ROTARY = {"swiglu_mlp": True, "use_rot_pos_emb": True, "scale_mlp": True}
KINDS = {
    "ViT": {},
    "mean": {"global_pool": "avg", "init_values": 0.5},
    "SwiGLU, RMS norm": {"mlp_layer": SwiGLU, "norm_layer": nn.RMSNorm},
    "RMS norm of timm's own": {"norm_layer": RmsNorm},
    "packed SwiGLU": {"mlp_layer": GluMlp, "act_layer": nn.SiLU},
    "QuickGELU": {"act_layer": QuickGELU},
    "EVA-02": None,
}


@pytest.fixture(params=KINDS)
def model(request, build_vit):
    if request.param != "EVA-02":
        return build_vit(**KINDS[request.param])
    torch.manual_seed(0)
    made = Eva(**SIZES, **ROTARY, norm_layer=nn.LayerNorm).double().eval()
    with torch.no_grad():
        for weights in made.parameters():
            weights += 0.2 * torch.randn_like(weights)
    return made


@pytest.mark.parametrize("gamma", [0.0, 0.05])
def test_logits_and_their_gradient_are_those_of_the_model(model, images, gamma):
    _, logits = attn_lrp_and_logits(model, images, TARGET, gamma=gamma, in_graph=True)
    plain = model(images)
    close(logits, plain, 1e-10, 1e-12)
    used = [weights for weights in model.parameters() if weights.requires_grad]
    ours, theirs = (
        torch.autograd.grad(made.square().sum(), used, materialize_grads=True)
        for made in (logits, plain)
    )
    for one, other in zip(ours, theirs, strict=True):
        close(one, other, 1e-8, 1e-9)


def test_libra_grad_is_complete(model, images):
    """Tokens before any block and the biases behind them give the logit, as the paper proves."""
    rules = Rules(SHARED | {Tensor.softmax: constant})
    biases = {
        name: weights
        for name, weights in model.named_parameters()
        if name.endswith("bias") and "q_bias" not in name and not name.startswith("patch_embed")
    }
    with record_attention(model) as tape, rules:
        score = model(images[:1])[0, 3]
    tensors = [*tape.inputs, *biases.values()]
    slopes = rules.gradients(score, tensors)
    found = [values * slope for values, slope in zip(tensors, slopes, strict=True)]
    tokens = found[: len(tape.inputs)]
    sums = dict(zip(biases, (part.sum() for part in found[len(tokens) :]), strict=True))
    for i, one in enumerate(tokens):
        earlier = tuple(f"blocks.{number}." for number in range(i))
        behind = [each for name, each in sums.items() if not name.startswith(earlier)]
        close(one.sum() + sum(behind), score, 1e-9)
    mean = sum(tokens).sum(dim=2)[:, model.num_prefix_tokens :] / len(tokens)
    close(METHODS["libra_grad"](model, images[:1], 3), mean.detach(), 1e-9, 1e-12)


@pytest.mark.parametrize(
    "options", [{"gamma": 0.0}, {"gamma": 0.05}, {"last": 1}], ids=["epsilon", "gamma", "last"]
)
def test_map_in_the_graph_has_its_exact_gradient(model, images, options):
    def figure(in_graph=False):
        relevance, _ = attn_lrp_and_logits(model, images, TARGET, in_graph=in_graph, **options)
        assert relevance.requires_grad == in_graph
        return (relevance * FACTORS).sum()

    for weights in (model.blocks[0].norm1.weight, model.blocks[1].attn.proj.weight):
        (slope,) = torch.autograd.grad(figure(in_graph=True), weights)
        way = torch.randn_like(weights)
        difference = slope_by_differences(figure, weights, way)
        assert float((slope * way).sum()) == pytest.approx(difference, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("reads", ["first", "mean", "last"])
@pytest.mark.parametrize("name", [*RULES, "attention_gradient"])
def test_a_text_gets_one_value_a_token(name, reads):
    model = build_tiny(40, 3, width=16, reads=reads).double()
    embedded = model.embed(torch.tensor([[1, 5, 6, 7, 2], [1, 9, 8, 7, 2]])).detach()
    both, one = (METHODS[name](model, texts, 1) for texts in (embedded, embedded[1:]))
    assert both.shape == (2, 5 - model.num_prefix_tokens) and (both.std(dim=1) > 0).all()
    close(both[1:], one)


@pytest.mark.parametrize("name", ["gamma", "patch_gamma"])
def test_gamma_below_zero_is_an_error(build_vit, images, name):
    with pytest.raises(ValueError, match=rf"^{name} -1: the rule takes 0 .* or more"):
        METHODS["attn_lrp"](build_vit(), images, **{name: -1})


@pytest.mark.parametrize("kind", ["plain", "registers", "average"])
@pytest.mark.parametrize("strength", [0.0, 0.25, 3.0])
def test_gamma_at_the_patch_convolution(build_vit, images, kind, strength):
    """By hand from the relevance of what the convolution makes, which does not depend on it."""
    model, made, slopes = build_vit(kind), [], []

    def keep(layer, args, output):
        made.append(output.detach())
        output.register_hook(slopes.append)

    handle = model.patch_embed.proj.register_forward_hook(keep)
    for _ in range(2):  # a model with other hooks than before is held against its function first
        made.clear(), slopes.clear()
        METHODS["attn_lrp"](model, images, TARGET)
    handle.remove()
    relevance = (made[0] * slopes[0]).flatten(2)  # [batch, channels, patches]
    weight, bias = (part.detach() for part in model.patch_embed.proj.parameters())
    pixels = torch.nn.functional.unfold(images, 7, stride=7)  # [batch, pixels, patches]
    parts = weight.flatten(1)[None, :, :, None] * pixels[:, None]
    sign = (parts.sum(dim=2) + bias[:, None]).sign()[:, :, None]
    more = [1 + strength * (part.sign() == sign) for part in (parts, bias[:, None, None])]
    parts, constant = parts * more[0], (bias[:, None, None] * more[1])[:, :, 0]
    wanted = (relevance / (parts.sum(dim=2) + constant) * parts.sum(dim=2)).sum(dim=1)
    close(METHODS["attn_lrp"](model, images, TARGET, patch_gamma=strength), wanted, 1e-9, 1e-12)


def test_gamma_at_the_patch_convolution_needs_one(build_vit, images):
    text, model = build_tiny(40, 3, width=16).double(), build_vit()
    with pytest.raises(ValueError, match="does not make its tokens of patches of pixels"):
        METHODS["attn_lrp"](text, torch.randn(2, 5, 16).double(), 1, patch_gamma=0.25)
    model.patch_embed.proj.register_forward_hook(lambda layer, args, made: 2 * made)
    with pytest.raises(ValueError, match=r"attn_lrp: patch_embed\.proj .* is a changed Conv2d"):
        METHODS["attn_lrp"](model, images, patch_gamma=0.25)
    assert METHODS["attn_lrp"](model, images).isfinite().all()

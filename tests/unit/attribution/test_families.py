"""Every method on every family of timm's in small, and finding the one patch that decides."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import timm
import torch
from timm.layers import LayerNorm
from timm.models.beit import Beit
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer

from relevit.attribution import METHODS
from relevit.attribution.lrp import Relevance
from relevit.maps import head_pooling
from relevit.models.loading import load_model
from replicas import weights as micro

from .. import patch_finder as finder
from ..attribution_cases import PIXELS, PROTOCOLS, RULES, TARGET, close, explain
from ..conftest import HALF, SIZES

SMALL = SIZES | {"embed_dim": 12, "depth": 3, "norm_layer": partial(LayerNorm, eps=1e-6)}
VIT, BIASED = VisionTransformer, {"qkv_bias": True}
RELATIVE = {"use_abs_pos_emb": False, "use_rel_pos_bias": True, "init_values": 0.1}
FAMILIES = {
    "ViT, DeiT, DINO": (VIT, BIASED),
    "DeiT distilled": (VisionTransformerDistilled, BIASED),
    "DeiT-3": (VIT, BIASED | {"no_embed_class": True, "init_values": 1e-6}),
    "AugReg": (VIT, BIASED | {"drop_path_rate": 0.1, "drop_rate": 0.1, "proj_drop_rate": 0.1}),
    "BEiT": (Beit, RELATIVE | {"global_pool": "avg"}),
    "BEiT v2, class token": (Beit, RELATIVE | {"global_pool": "token"}),
    "BEiT, shared bias": (Beit, {"use_shared_rel_pos_bias": True, "scale_mlp": True}),
    "DINOv2": (VIT, BIASED | {"init_values": 1e-5}),
    "registers": (VIT, BIASED | {"init_values": 1e-5, "reg_tokens": 4, "no_embed_class": True}),
    "DINOv2, any size": (VIT, BIASED | {"init_values": 1e-5, "dynamic_img_size": True}),
    "MAE": (VIT, BIASED | {"global_pool": "avg"}),
    "MAE, class token": (VIT, BIASED | {"global_pool": "token", "fc_norm": True}),
    "no class token": (VIT, BIASED | {"global_pool": "avg", "class_token": False}),
    "average after the norm": (VIT, BIASED | {"global_pool": "avg", "fc_norm": False}),
    "qk_norm": (VIT, BIASED | {"qk_norm": True}),
    "CLIP": (VIT, BIASED | {"pre_norm": True}),
}
OTHERS = {
    "SwinTransformer": (
        "swin_tiny_patch4_window7_224",
        {"img_size": 32, "embed_dim": 12, "depths": (1, 1), "num_heads": (2, 2), "window_size": 4},
    ),
    "ResNet": ("resnet10t", {}),
    "Xcit": (  # its attention is among channels, here as many as tokens
        "xcit_nano_12_p16_224",
        {"img_size": 32, "embed_dim": 8, "depth": 1, "num_heads": 2, "cls_attn_layers": 1},
    ),
}
NAMED = "ViT, DeiT, AugReg, BEiT, EVA-02, MAE, DINO, DINOv2, DINOv3"


def random_weights(model):
    random, model.pretrained_cfg = torch.Generator().manual_seed(0), HALF
    with torch.no_grad():
        for weights in model.parameters():
            weights += 0.2 * torch.randn(weights.shape, generator=random)
    return model.double().eval()


@pytest.fixture(scope="module")
def families():
    torch.manual_seed(1)  # with some weights a map is clamped altogether
    return {name: random_weights(cls(**(SMALL | o))) for name, (cls, o) in FAMILIES.items()}


@pytest.fixture(scope="module")
def others():
    return {
        name: random_weights(timm.create_model(tag, pretrained=False, **small))
        for name, (tag, small) in OTHERS.items()
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_on_every_family(families, images, name, family, protocol):
    found = explain(name, families[family], images, TARGET, protocol=protocol)
    assert found.shape == (3, 16)
    if (name, protocol) == ("gradcam", "described"):  # a map may be clamped altogether
        assert found.isfinite().all()
        return
    if (name, family, protocol) == ("raw_attention", "no class token", "published"):
        assert found.isnan().all()
        return
    alive = ~found.isnan().any(dim=1)
    assert alive.all() or (name, protocol) == ("gradcam", "published")
    assert (found[alive].std(dim=1) > 0).all(), "a flat map tells nothing"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", METHODS)
def test_other_networks_are_refused(others, state_of, name, other, protocol):
    model = others[other]
    before = state_of(model)
    text = rf"record_attention: {other} has no blocks with.*global self-att.*{NAMED}"
    with pytest.raises(ValueError, match=text):
        explain(name, model, torch.rand(2, 3, 32, 32).double(), protocol=protocol)
    assert state_of(model) == before


@pytest.mark.parametrize("name", METHODS)
def test_gradient_checkpointing_is_refused(images, name):
    model = random_weights(VIT(**SMALL))
    model.set_grad_checkpointing()
    with pytest.raises(ValueError, match=r"checkpointing; switch that off: model\.set_grad_check"):
        explain(name, model, images)


# DINO's classifier reads class token and mean patch, interleaved (differences D5)


@pytest.fixture(scope="module")
def dino():
    with pytest.MonkeyPatch.context() as patch:
        micro.make_small(patch)
        return random_weights(load_model("dino-b", "random", options={"depth": 2}))


@pytest.fixture(scope="module")
def faces():
    return torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(2)).double()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_on_the_head_that_reads_both(dino, faces, name, protocol):
    assert head_pooling(dino) == "both" and dino.head.in_features == 2 * dino.embed_dim
    found = explain(name, dino, faces, TARGET, protocol=protocol)
    assert found.shape == (3, 16) and found.isfinite().all()
    assert (found.std(dim=1) > 0).all(), "a flat map tells nothing"


@pytest.mark.parametrize("tokens", [1, 16])
def test_published_relevance_is_split_as_if_concatenated(dino, faces, tokens):
    """One class's weights are 1 in the first half: the class token has it all. In the second
    each patch has the whole (differences F1)."""
    model = copy.deepcopy(dino)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.weight[4].chunk(2)[tokens > 1].fill_(1)
    read = []
    model.norm.register_forward_hook(lambda layer, args, made: read.append(made))

    def relevance(**options):
        rules = Relevance(**options)
        seen = rules.run(model, faces, 4)
        return rules.gradients(seen.score, read[-1:])[0].sum(dim=2)

    published, described = relevance(mean_shares=False, interleaved=False), relevance()
    rows = slice(1) if tokens == 1 else slice(1, None)
    close(published[:, rows], torch.ones(3, tokens).double(), 1e-6)
    close(published.sum(dim=1), torch.full((3,), tokens).double(), 1e-6)
    assert (described.abs() > 1e-9).all(), "interleaved: any half is of both"


READ_BY_CLASS_TOKEN = ("raw_attention", "rollout", "gradcam", "ga")
OWN_HEAD = ("gae", "lrp", *PIXELS, *RULES, "legrad", "readout")  # what the head reads, or pixels


@pytest.mark.parametrize("name", [name for name in METHODS if name not in OWN_HEAD])
def test_published_baselines_read_the_class_token_of_both(dino, faces, name):
    published = partial(explain, name, dino, faces, 4, protocol="published")
    own = published()
    both, row = (published(pooling=pool) for pool in ("both", "class_token"))
    assert (both - row).abs().max() > 1e-9
    close(own, row if name in READ_BY_CLASS_TOKEN else both)
    described = partial(explain, name, dino, faces, 4, protocol="described")
    close(described(), described(pooling="both"))


# One patch decides: no transposed grid, no shift by prefix tokens


@pytest.fixture(scope="module")
def models():
    return {kind: finder.build(kind) for kind in finder.KINDS}


@pytest.fixture(scope="module")
def image():
    return finder.bright_patch_image()


def test_the_bright_patch_decides(models, image):
    """The premise: without it, the class's logit is far lower."""
    for kind, model in models.items():
        bright, dim = model(torch.cat([image, image.clamp(max=0.2)])).detach()
        assert bright[finder.CLASS] > dim[finder.CLASS] + 0.4, kind
        assert int(bright.argmax()) == finder.CLASS, kind


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", finder.KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_the_bright_patch_is_found(models, image, name, kind, protocol):
    found = explain(name, models[kind], image, protocol=protocol)[0]
    if (name, kind, protocol) == ("raw_attention", "average_alone", "published"):
        # Averages over keys (differences D2): without prefix tokens there is nothing to see.
        assert found.isnan().all()
        return
    assert found.isfinite().all() and int(found.argmax()) == finder.BRIGHT
    first, second = found.topk(2).values
    assert first > second + 1e-6 * found.abs().max()

"""What holds for every attribution method: batches, classes, protocols, errors, no traces left."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest
import torch

from relevit.attribution import (
    METHODS,
    explain_all,
    method_options,
    patch_grid,
    relevance_and_logits,
    to_heatmap,
)
from relevit.attribution import explain as heatmap_of
from relevit.attribution.methods import SIGNED
from relevit.maps import checked_target
from relevit.protocols import PUBLISHED

from .. import attribution_cases
from ..attribution_cases import (
    CLASS_AGNOSTIC,
    FACTORS,
    GRAPH,
    LRP,
    OURS,
    PIXELS,
    PROTOCOLS,
    TARGET,
    explain,
    slope_by_differences,
)

close = partial(attribution_cases.close, atol=1e-10)
same = partial(torch.testing.assert_close, rtol=0, atol=0, equal_nan=True)

KINDS = ("plain", "average", "registers", "distilled")
every_method = pytest.mark.parametrize("name", METHODS)
both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


@both_protocols
@pytest.mark.parametrize("kind", KINDS)
@every_method
def test_a_batch_is_its_images_one_by_one(build_vit, images, name, kind, protocol):
    model, target = build_vit(kind), [0, 3, 1]
    together = explain(name, model, images, target, protocol=protocol)
    assert together.shape == (3, 16) and together.dtype == images.dtype
    assert not together.requires_grad and (protocol == "published" or together.isfinite().all())
    alone = [explain(name, model, images[[i]], [target[i]], protocol=protocol) for i in range(3)]
    limit = 1e-6 if name in LRP else 1e-10
    torch.testing.assert_close(together, torch.cat(alone), rtol=limit, atol=limit, equal_nan=True)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("name", ["head_wise", "token_wise", *PIXELS])
def test_chunks_do_not_change_the_map(build_vit, images, name, chunk):
    model = build_vit()
    close(explain(name, model, images, chunk=chunk), explain(name, model, images))


@both_protocols
@every_method
def test_only_signed_methods_go_below_zero(build_vit, images, name, protocol):
    model = build_vit()
    maps = [explain(name, model, images, place, protocol=protocol) for place in range(3)]
    assert any((each.nan_to_num() < 0).any() for each in maps) == (name in SIGNED)


@every_method
def test_no_target_is_the_predicted_class(build_vit, images, name):
    model = build_vit()
    predicted = model(images).argmax(dim=1)
    found = explain(name, model, images, protocol="described")
    close(found, explain(name, model, images, predicted, protocol="described"), 1e-12)
    other = explain(name, model, images, (predicted + 1) % 5, protocol="described")
    changed = bool((found - other).abs().max() > 1e-9)
    assert changed == (name not in CLASS_AGNOSTIC)


@pytest.mark.parametrize(
    "target",
    [1, np.int64(1), [1, 1, 1], np.array([1, 1, 1]), torch.tensor(1), torch.ones(3).int()],
    ids=["number", "NumPy's", "list", "array", "scalar", "int32"],
)
def test_classes_in_any_form(build_vit, images, target):
    wanted = explain("gae", build_vit(), images, torch.tensor([1, 1, 1]))
    assert torch.equal(explain("gae", build_vit(), images, target), wanted)


def test_classes_on_a_device_are_taken_as_they_are():
    """To look at them would wait for it; what has no values cannot be looked at."""
    logits = torch.empty(3, 5, device="meta")
    for target in (torch.empty(3, dtype=torch.int32, device="meta"), torch.tensor(1).to("meta")):
        found = checked_target(logits, target)
        assert (found.shape, found.dtype, found.device) == ((3,), torch.int64, logits.device)


@both_protocols
@every_method
def test_no_nan_where_the_image_says_nothing(build_vit, name, protocol):
    """A constant image, and one class whose logit depends on nothing."""
    model = build_vit()
    with torch.no_grad():
        model.head.weight[2] = 0
    images = torch.full((2, 3, 28, 28), 0.3).double()
    found = explain(name, model, images, torch.tensor([2, 1]), protocol=protocol)
    # NaN is what the published code makes of a map without any range (differences C19).
    may_be_nan = protocol == "published" and name in ("raw_attention", "gradcam")
    assert found.isfinite().all() or may_be_nan


# Modes and what surrounds a call


@every_method
def test_dropout_and_compilation_do_not_matter(build_vit, images, name):
    model = build_vit(proj_drop_rate=0.5, attn_drop_rate=0.5)
    wanted = explain(name, model, images)
    compiled = torch.compile(model.train(), backend="eager")
    for other in (model, compiled):
        same(explain(name, other, images), wanted)


@pytest.mark.parametrize("name", GRAPH)
def test_map_in_the_graph_is_of_the_model_in_its_own_mode(build_vit, images, name):
    model = build_vit(attn_drop_rate=0.5).train()
    maps = [explain(name, model, images, exact_gradient=True).detach() for _ in range(2)]
    assert not torch.equal(*maps)


@every_method
def test_weights_made_in_inference_mode_are_an_error(build_vit, images, name):
    model = build_vit()
    with torch.inference_mode():
        model.head = torch.nn.Linear(16, 5).double()  # one part is enough
    with pytest.raises(ValueError, match=r"made inside torch\.inference_mode\(\).*copy\.deepcopy"):
        explain(name, model, images)
    assert all(weights.requires_grad for weights in model.parameters())
    explain(name, copy.deepcopy(model), images)


# Gradients


@pytest.mark.parametrize("kind", ["plain", "average"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", GRAPH)
def test_gradient_equals_finite_differences(build_vit, images, name, protocol, kind):
    if (name, protocol) == ("gradcam", "published"):
        protocol = "described"  # as published a map may be NaN, and so is its gradient
    model, options = build_vit(kind), {"protocol": protocol}
    if name in (*OURS, "rollout", "ga"):
        options["start_block"] = 1
    if name in OURS:
        options["steps"] = 3

    def figure(**more):
        return (explain(name, model, images, TARGET, **options, **more) * FACTORS).nansum()

    weights = [model.blocks[0].attn.qkv.weight, model.blocks[1].mlp.fc2.weight]
    found = torch.autograd.grad(figure(exact_gradient=True), weights, allow_unused=True)
    for part, slope in zip(weights, found, strict=True):
        way = torch.randn(part.shape, generator=torch.Generator().manual_seed(0)).double()
        difference = slope_by_differences(figure, part, way)
        if slope is None:  # a map of attention alone does not feel the last block's MLP
            assert difference == 0 and name in ("raw_attention", "rollout")
            continue
        assert abs(difference) > 1e-7 or part is not weights[0]
        assert float((slope * way).sum()) == pytest.approx(difference, rel=1e-5, abs=1e-8)


# Options

TEXT = {
    "start_block": 1,
    "mean_over": "queries",
    "weigh": "heads",
    "steps": 7,
    "rule": "trapezoid",
    "baseline": "empty",
}


@pytest.mark.parametrize("name", [name for name in METHODS if name in PUBLISHED])
@pytest.mark.parametrize("kind", ["plain", "average"])
def test_a_protocol_is_its_row_of_options(build_vit, images, name, kind):
    """Nothing more: the row alone, given by hand, is `published`, and none is `described`."""
    model, target = build_vit(kind, depth=3), TARGET
    row = method_options(model, name, "published")
    if name in OURS:
        row |= method_options(model, "path", "published")
    published = explain(name, model, images, target, protocol="published")
    same(explain(name, model, images, target, protocol="described", **row), published)
    described = explain(name, model, images, target, protocol="described")
    text = TEXT | {option: not value for option, value in row.items() if isinstance(value, bool)}
    undone = {option: text[option] for option in row}
    same(explain(name, model, images, target, **undone), described)
    with pytest.raises(TypeError, match="no_difference"):
        explain(name, model, images, target, no_difference=True)


@pytest.mark.parametrize(
    ("depth", "family", "starts"),
    [
        (12, "vit", {"rollout": 2, "ga": 2, "head_wise": 4, "token_wise": 7}),
        (24, "vit", {"token_wise": 7}),
        (6, "vit", {"head_wise": 2, "token_wise": 4}),
        (2, "vit", {"head_wise": 1, "token_wise": 2, "avg_attention": 1}),
        (12, "bert", {"rollout": 1, "ga": 12, "head_wise": 12, "token_wise": 9}),
        (12, "bert", {"transformer_attribution": 12}),
        (6, "bert", {"head_wise": 6, "token_wise": 5}),
        (12, "clip", {"rollout": 1, "ga": 12, "head_wise": 12, "token_wise": 12}),
        (6, "clip", {"ga": 6, "head_wise": 6, "token_wise": 6}),
    ],
)
def test_first_blocks_by_family_and_depth(build_vit, depth, family, starts):
    """Differences C2, C3, C15, D8 and D11; on a shallower model it is the same share."""
    model = build_vit(depth=depth, embed_dim=2, num_heads=1)
    model.family = family
    for name, start in starts.items():
        assert method_options(model, name, "published").get("start_block", 1) == start
        assert method_options(model, name, "described").get("start_block", 1) == 1


@both_protocols
@pytest.mark.parametrize("methods", [("token_wise", "ga", "head_wise"), ("gae",), ("head_wise",)])
def test_methods_explained_together_give_the_same_maps(build_vit, images, methods, protocol):
    model, target = build_vit(), torch.tensor([1, 0, 4])
    maps = explain_all(model, images, target, methods, protocol)
    assert tuple(maps) == methods
    for name, ours in maps.items():
        close(ours, METHODS[name](model, images, target, protocol=protocol))
    wrapped = explain_all(torch.nn.Sequential(model), images, target, methods, protocol)
    assert all(torch.equal(wrapped[name], maps[name]) for name in methods)
    with pytest.raises(ValueError, match=r"methods: \['shap'\] are unknown; use some of \['raw_"):
        explain_all(model, images, target, ["ga", "shap"])


WRONG = [
    ({"protocol": "paper"}, "protocol 'paper' is unknown; use 'published'"),
    ({"target": [0, 1, 5]}, r"for 3 images and 5 classes; give one class in 0\.\.4"),
    ({"target": [0, 1]}, r"for 3 images and 5 classes; give one class in 0\.\.4"),
    *(
        ({"target": value}, "^target .* for 3 images: classes are whole numbers")
        for value in (True, torch.ones(3), np.ones(3, dtype=bool))
    ),
    ({"start_block": 0}, "start_block 0: .* this model has 2; choose one in 1..2"),
    ({"start_block": 3, "protocol": "described"}, "start_block 3: .*choose one in 1..2"),
    ({"images": lambda images: images.numpy()}, "images: a ndarray; this VisionTransformer takes"),
    ({"images": lambda images: images[0]}, r"\[3, 28, 28\] of torch.float64; .*image\[None\]"),
    ({"images": lambda images: images.byte()}, r"of torch.uint8; .*normalise what is 0\.\.255"),
    ({"images": lambda images: images.float()}, r"of torch.float32; .* of torch.float64"),
    ({"images": lambda images: images[..., :21]}, r"\[3, 3, 28, 21\] of .* channels, 28, 28\]"),
    ({"model": "tiny"}, "model: a str is no network; give a timm Vision"),
    ({"steps": 0}, r"steps 0: the path integral needs at least [12] point"),
    ({"baseline": "empty"}, "baseline: this VisionTransformer does not say what black is"),
]


@pytest.mark.parametrize(("change", "told"), WRONG)
@pytest.mark.parametrize("name", ["gae", "token_wise"])
def test_wrong_input_is_named(build_vit, images, name, change, told):
    if name == "gae" and {"start_block", "steps", "baseline"} & change.keys():
        return  # it has no such option
    asked = dict(change)
    model = asked.pop("model", build_vit())
    if "baseline" in change:
        del model.pretrained_cfg
    images = asked.pop("images", lambda images: images)(images)
    with pytest.raises(ValueError, match=told):
        METHODS[name](model, images, **asked)


def test_positive_leaves_out_what_speaks_against_the_class(build_vit, images, monkeypatch):
    model = build_vit()
    maps = METHODS["libra_grad"](model, images, TARGET)
    assert (maps < 0).any(dim=1).all()
    found = heatmap_of(model, images, TARGET, method="libra_grad", positive=True)
    size, grid = tuple(images.shape[-2:]), patch_grid(model, images)
    close(found, to_heatmap(maps.clamp(min=0), size, grid))
    monkeypatch.setitem(METHODS, "libra_grad", lambda *_, **__: -1 - maps.abs())
    with pytest.warns(UserWarning, match="3 of 3 maps of libra_grad are the same everywhere"):
        assert not heatmap_of(model, images, TARGET, method="libra_grad", positive=True).any()


# What the head reads


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_classes": 0}, r"this VisionTransformer has no head \(num_classes=0\), so that its"),
        ({"class_token": False, "global_pool": "avg"}, r"no class token.*use pooling='patches' or"),
        ({"global_pool": "avgmax"}, "pooling: 'avgmax' is unknown; use a model that pools by its"),
        ({"global_pool": "map"}, r"attention-pooling head \(global_pool='map', as SigLIP's\)"),
        ({"global_pool": "prr"}, r"attention-pooling head \(global_pool='prr', as SigLIP's\)"),
    ],
)
def test_heads_that_no_map_is_of_are_refused(build_vit, images, name, options, text):
    model = build_vit(**options)
    if "class_token" in options:
        model.global_pool = "token"
    with pytest.raises(ValueError, match=text):
        explain(name, model, images, 3)
    with pytest.raises(ValueError, match=text):
        relevance_and_logits(model, images, 3)
    if "num_classes" in options and name in CLASS_AGNOSTIC:
        close(explain(name, model, images), explain(name, build_vit(), images))
    else:
        with pytest.raises(ValueError, match=text):
            explain(name, model, images)

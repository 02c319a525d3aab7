"""What holds for every attribution method: batches, classes, protocols, errors, no traces left."""

from __future__ import annotations

import copy
import time
from concurrent.futures import ThreadPoolExecutor
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
from relevit.protocols import PUBLISHED

from .. import attribution_cases
from ..attribution_cases import (
    CLASS_AGNOSTIC,
    GRAPH,
    LRP,
    OURS,
    PIXELS,
    PROTOCOLS,
    explain,
    know_black,
)

close = partial(attribution_cases.close, atol=1e-10)
same = partial(torch.testing.assert_close, rtol=0, atol=0, equal_nan=True)

KINDS = ("plain", "average", "registers", "distilled")
every_method = pytest.mark.parametrize("name", METHODS)
both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


WEIGHTS = [("blocks.0.attn.qkv.weight", (3, 5)), ("blocks.1.mlp.fc2.weight", (2, 9))]
FACTORS = torch.linspace(-1, 2, 48).reshape(3, 16).double()
STEP = 1e-6


@pytest.fixture
def vit(build_vit):
    """Make a small ViT that knows what black is."""
    return lambda kind="plain", **options: know_black(build_vit(kind, **options))


@both_protocols
@pytest.mark.parametrize("kind", KINDS)
@every_method
def test_a_batch_is_its_images_one_by_one(vit, images, name, kind, protocol):
    model, target = vit(kind), torch.tensor([0, 3, 1])
    together = explain(name, model, images, target, protocol=protocol)
    assert together.shape == (3, 16) and together.dtype == images.dtype
    assert not together.requires_grad
    if protocol == "described":
        assert together.isfinite().all()
    alone = [
        explain(name, model, images[i : i + 1], target[i : i + 1], protocol=protocol)
        for i in range(3)
    ]
    torch.testing.assert_close(
        together,
        torch.cat(alone),
        **dict.fromkeys(("rtol", "atol"), 1e-6 if name in LRP else 1e-10),
        equal_nan=True,
    )


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("name", ["head_wise", "token_wise", *PIXELS])
def test_chunks_do_not_change_the_map(vit, images, name, chunk):
    model = vit()
    close(explain(name, model, images, chunk=chunk), explain(name, model, images))


@both_protocols
@every_method
def test_only_signed_methods_go_below_zero(vit, images, name, protocol):
    model = vit()
    maps = [explain(name, model, images, place, protocol=protocol) for place in range(3)]
    maps = torch.cat(maps).nan_to_num()
    assert bool((maps < 0).any()) == (name in SIGNED)


@every_method
def test_no_target_is_the_predicted_class(vit, images, name):
    model = vit()
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
@pytest.mark.parametrize("name", ["gae", "token_wise", "smoothgrad"])
def test_classes_in_any_form(vit, images, name, target):
    model = vit()
    assert torch.equal(
        explain(name, model, images, target), explain(name, model, images, torch.tensor([1, 1, 1]))
    )


@both_protocols
@every_method
def test_no_nan_where_the_image_says_nothing(vit, name, protocol):
    """A constant image, and one class whose logit depends on nothing."""
    model = vit()
    with torch.no_grad():
        model.head.weight[2] = 0
    images = torch.full((2, 3, 28, 28), 0.3).double()
    found = explain(name, model, images, torch.tensor([2, 1]), protocol=protocol)
    if protocol == "described":
        assert found.isfinite().all()
    else:
        # NaN is what the published code makes of a map without any range (differences C19).
        assert found.isfinite().all() or name in ("raw_attention", "gradcam")


# Modes, threads and what surrounds a call


@every_method
def test_dropout_and_compilation_do_not_matter(vit, images, name):
    model = vit(proj_drop_rate=0.5, attn_drop_rate=0.5)
    wanted = explain(name, model, images)
    compiled = torch.compile(model.train(), backend="eager")
    for other in (model, compiled):
        same(explain(name, other, images), wanted)
    if name not in PIXELS:  # which had fewer steps
        same(explain_all(model, images, None, [name])[name], wanted)


@pytest.mark.parametrize("name", GRAPH)
def test_map_in_the_graph_is_of_the_model_in_its_own_mode(vit, images, name):
    model = vit(attn_drop_rate=0.5).train()
    maps = [explain(name, model, images, exact_gradient=True).detach() for _ in range(2)]
    assert not torch.equal(*maps)


@every_method
def test_threads_take_turns(vit, images, state_of, name):
    model = vit()
    wanted = explain(name, model, images)
    model.patch_embed.register_forward_hook(lambda *args: time.sleep(0.001))  # lets the others in
    before = state_of(model)
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(lambda _: explain(name, model, images), range(3)):
            same(found, wanted)
    assert state_of(model) == before


@every_method
def test_weights_made_in_inference_mode_are_an_error(vit, images, name):
    model = vit()
    with torch.inference_mode():
        model.head = torch.nn.Linear(16, 5).double()  # one part is enough
    with pytest.raises(ValueError, match=r"made inside torch\.inference_mode\(\).*copy\.deepcopy"):
        explain(name, model, images)
    assert all(weights.requires_grad for weights in model.parameters())
    explain(name, copy.deepcopy(model), images)


# Gradients


def map_figure(name, model, images, **options):
    """One number that every entry of the map enters, each with another factor."""
    # The map of a class that is not predicted, first block included.
    if name in (*OURS, "rollout", "ga"):
        options["start_block"] = 1
    if name in OURS:
        options["steps"] = 3
    target = torch.tensor([4, 0, 2])
    return (explain(name, model, images, target, **options) * FACTORS).nansum()


@pytest.mark.parametrize("kind", ["plain", "average"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", GRAPH)
def test_gradient_equals_finite_differences(build_vit, images, name, protocol, kind):
    if (name, protocol) == ("gradcam", "published"):
        protocol = "described"  # as published a map may be NaN, and so is its gradient
    model = know_black(build_vit(kind))
    figure = map_figure(name, model, images, protocol=protocol, exact_gradient=True)
    parameters = [model.get_parameter(name) for name, _ in WEIGHTS]
    found = torch.autograd.grad(figure, parameters, allow_unused=True)
    for parameter, (weight, entry), gradient in zip(parameters, WEIGHTS, found, strict=True):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter[entry] += sign * STEP
            values.append(map_figure(name, model, images, protocol=protocol))
            with torch.no_grad():
                parameter[entry] -= sign * STEP
        difference = float((values[0] - values[1]) / (2 * STEP))
        if gradient is None:  # a map of attention alone does not feel the last block's MLP
            assert difference == 0 and name in ("raw_attention", "rollout")
            continue
        assert abs(difference) > 1e-7 or weight != WEIGHTS[0][0]
        assert float(gradient[entry]) == pytest.approx(difference, rel=1e-5, abs=1e-8)


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
def test_a_protocol_is_its_row_of_options(vit, images, name, kind):
    """Nothing more: the row alone, given by hand, is `published`, and none is `described`."""
    model, target = vit(kind, depth=3), torch.tensor([4, 0, 2])
    row = method_options(model, name, "published")
    if name in OURS:
        row |= method_options(model, "path", "published")
    published = explain(name, model, images, target)
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
def test_methods_explained_together_give_the_same_maps(vit, images, methods, protocol):
    model, target = vit(), torch.tensor([1, 0, 4])
    maps = explain_all(model, images, target, methods, protocol)
    assert tuple(maps) == methods
    for name, ours in maps.items():
        close(ours, METHODS[name](model, images, target, protocol=protocol))
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
    own = {"start_block", "steps", "baseline", "pooling"} & change.keys()
    if own and name == "gae":
        return  # it has no such option
    asked = dict(change)
    model = asked.pop("model", build_vit())
    images = asked.pop("images", lambda images: images)(images)
    with pytest.raises(ValueError, match=told):
        METHODS[name](model, images, **asked)


def test_positive_leaves_out_what_speaks_against_the_class(build_vit, images):
    model, target = build_vit(), torch.tensor([4, 0, 2])
    maps = METHODS["libra_grad"](model, images, target)
    assert (maps < 0).any(dim=1).all()
    found = heatmap_of(model, images, target, method="libra_grad", positive=True)
    size, grid = tuple(images.shape[-2:]), patch_grid(model, images)
    close(found, to_heatmap(maps.clamp(min=0), size, grid))


# What the head reads


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_classes": 0}, r"this VisionTransformer has no head \(num_classes=0\), so that its"),
        (
            {"class_token": False, "global_pool": "avg"},
            r"no class token.*use pooling='patches' or a model",
        ),
        ({"global_pool": "avgmax"}, "pooling: 'avgmax' is unknown; use a model that pools by its"),
        ({"global_pool": "map"}, r"attention-pooling head \(global_pool='map', as SigLIP's\)"),
        ({"global_pool": "prr"}, r"attention-pooling head \(global_pool='prr', as SigLIP's\)"),
    ],
)
def test_heads_that_no_map_is_of_are_refused(build_vit, images, name, options, text):
    model = know_black(build_vit(**options))
    if "class_token" in options:
        model.global_pool = "token"
    with pytest.raises(ValueError, match=text):
        explain(name, model, images, 3)
    if "num_classes" in options and name in CLASS_AGNOSTIC:
        close(explain(name, model, images), explain(name, know_black(build_vit()), images))
    else:
        with pytest.raises(ValueError, match=text):
            explain(name, model, images)


def test_features_are_not_trained_on_as_classes(build_vit, images):
    with pytest.raises(ValueError, match="has no head"):
        relevance_and_logits(build_vit(num_classes=0), images, 3)

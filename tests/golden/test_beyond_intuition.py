"""Attributions against the published code of Beyond Intuition (f4, f4b)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.attribution import METHODS

TOLERANCE = 1e-9
OURS = {"oursH": "head_wise", "oursT": "token_wise"}


def close(ours, published):
    atol = TOLERANCE * np.nan_to_num(published).max()
    np.testing.assert_allclose(ours.detach().numpy(), published, rtol=TOLERANCE, atol=atol)


def target_of(inputs, kind):
    return inputs["labels"] if kind == "index" else None


@pytest.fixture(params=["tiny", "deep", "avg"])
def case(request, golden, golden_models):
    """Model, published values."""
    return golden_models(request.param), golden(f"f4_beyond_{request.param}")


def test_raw_attention(case, golden_inputs):
    model, values = case
    close(METHODS["raw_attention"](model, golden_inputs["images"]), values["rawattn"])


@pytest.mark.parametrize("start", [0, 1])
def test_rollout(case, golden_inputs, start):
    model, values = case
    how = {"protocol": "published", "start_block": start + 1}
    ours = METHODS["rollout"](model, golden_inputs["images"], **how)
    close(ours, values[f"rollout_s{start}"])


@pytest.mark.parametrize("kind", ["none", "index"])
def test_gradcam(case, golden_inputs, kind):
    model, values = case
    target = target_of(golden_inputs, kind)
    close(METHODS["gradcam"](model, golden_inputs["images"], target), values[f"gradcam_{kind}"])


def test_gradcam_of_every_class(case, golden_inputs):
    model, values = case
    for label in range(values["gradcam_allclasses"].shape[1]):
        published = values["gradcam_allclasses"][:, label]
        target = torch.full((len(published),), label)
        close(METHODS["gradcam"](model, golden_inputs["images"], target), published)
        described = METHODS["gradcam"](model, golden_inputs["images"], target, protocol="described")
        empty = np.isnan(published).all(axis=1)
        assert not described.isnan().any()
        if model.global_pool == "token":
            assert (described == 0).all(dim=1).tolist() == empty.tolist()


@pytest.mark.parametrize("start", [1, 2])
@pytest.mark.parametrize("kind", ["none", "index"])
def test_ga(case, golden_inputs, kind, start):
    model, values = case
    ours = METHODS["ga"](
        model, golden_inputs["images"], target_of(golden_inputs, kind), start_block=start
    )
    close(ours, values[f"ga_{kind}_s{start}"])


@pytest.mark.parametrize(
    "name",
    [f"oursH_{kind}_s{s}" for kind in ("none", "index") for s in (1, 4)]
    + [f"oursT_{kind}_s{s}" for kind in ("none", "index") for s in (1, 4, 6, 7)],
)
def test_ours(case, golden_inputs, name):
    model, values = case
    method, kind, start = name.split("_")
    ours = METHODS[OURS[method]](
        model, golden_inputs["images"], target_of(golden_inputs, kind), start_block=int(start[1:])
    )
    close(ours, values[name])


VARIANTS = {
    "sslR": {"feedback": "none"},
    "steps5": {"steps": 5},
    "dinopool": {"pooling": "both"},  # needs a head on the class token: not for `avg`
}


@pytest.mark.parametrize("method", OURS)
@pytest.mark.parametrize(
    ("kind", "name"),
    [(k, n) for k in ("tiny", "deep", "avg") for n in VARIANTS if (k, n) != ("avg", "dinopool")],
)
def test_variants(golden, golden_models, golden_inputs, kind, name, method):
    model, values = golden_models(kind), golden(f"f4_beyond_{kind}")
    ours = METHODS[OURS[method]](model, golden_inputs["images"], start_block=1, **VARIANTS[name])
    close(ours, values[f"{method}_none_s1_{name}"])


def test_norm_before_the_mean(golden, golden_models, golden_inputs):
    values, model = golden("f4b_beyond_avg_normbeforepool"), golden_models("norm_before_pool")
    images, labels = golden_inputs["images"], golden_inputs["labels"]
    close(model(images), values["logits"])
    close(METHODS["gradcam"](model, images, labels), values["gradcam_index"])
    for name, method in (OURS | {"ga": "ga"}).items():
        ours = METHODS[method](model, images, labels, start_block=1)
        close(ours, values[f"{name}_index_s1"])

"""Layer-wise relevance propagation against the published code (f5, f5b).

The published code adds rounding of its own that LRP amplifies, so the limit is 1e-5.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.attention.token_rows import carry_rows
from relevit.attribution import METHODS
from relevit.attribution.lrp import from_head, lrp_pixels, through_blocks
from relevit.attribution.seen import observe

TOLERANCE = 1e-5
EPS = {"asis": 1e-5, "eps1e-6": 1e-6}  # of the final norm, in the published class and in timm's


def close(ours, published):
    atol = TOLERANCE * np.abs(published).max()
    np.testing.assert_allclose(ours.detach().numpy(), published, rtol=TOLERANCE, atol=atol)


def target_of(inputs, kind):
    return inputs["labels"] if kind == "index" else None


@pytest.fixture(params=EPS)
def case(request, golden_models):
    """Model with the final norm's eps, prefix of its values' names."""
    model = golden_models("tiny")
    model.norm.eps = EPS[request.param]
    return model, request.param


@pytest.mark.parametrize("kind", ["none", "index"])
def test_methods(case, golden, golden_inputs, kind):
    (model, name), values = case, golden("f5_lrp")
    images, target = golden_inputs["images"], target_of(golden_inputs, kind)
    for start in (0, 1):
        ours = METHODS["transformer_attribution"](model, images, target, start_block=start + 1)
        close(ours, values[f"{name}_ta_{kind}_s{start}"])
    close(METHODS["partial_lrp"](model, images, target), values[f"{name}_plrp_{kind}"])
    close(lrp_pixels(model, images, target), values[f"{name}_full_{kind}"])


@pytest.mark.parametrize("kind", ["none", "index"])
def test_rules_of_the_first_code(golden, golden_models, golden_inputs, kind):
    values, model = golden("f5_lrp"), golden_models("tiny")
    model.norm.eps = EPS["asis"]
    images, target = golden_inputs["images"], target_of(golden_inputs, kind)
    ours = METHODS["partial_lrp"](model, images, target, plain=True)
    close(ours, values[f"asis_plrp_orig_{kind}"])
    close(lrp_pixels(model, images, target, plain=True), values[f"asis_full_orig_{kind}"])


def test_attention_relevance_of_every_block(golden, golden_models, golden_inputs):
    values, model = golden("f5_lrp"), golden_models("tiny")
    model.norm.eps = EPS["asis"]
    seen = observe(model, golden_inputs["images"], golden_inputs["labels"])
    blocks = [b.attention for b in through_blocks(model, seen, from_head(model, seen))][::-1]
    close(torch.stack([b[0] for b in blocks]), values["asis_attncam_img0_index"])
    rolled = carry_rows([b.clamp(min=0).mean(dim=1) for b in blocks], "class_token", 1)
    close(rolled[:, 0, 1:], values["asis_lrprollout_index_s0"])


def test_average_pooling(golden, golden_models, golden_inputs):
    values, model = golden("f5b_lrp_avg"), golden_models("norm_before_pool")
    model.norm.eps = EPS["asis"]
    images, labels = golden_inputs["images"], golden_inputs["labels"]
    close(model(images), values["logits"])
    for start in (0, 1):
        ours = METHODS["transformer_attribution"](model, images, labels, start_block=start + 1)
        close(ours, values[f"ta_index_s{start}"])
    close(METHODS["partial_lrp"](model, images, labels), values["plrp_index"])

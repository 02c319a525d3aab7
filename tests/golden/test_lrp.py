"""Layer-wise relevance propagation against the published code (f5, f5b).

The published code adds 1e-9 to every denominator, be it small or not, and divides once more by
every token that two branches share, with 1e-9 added again; ours does neither. A denominator d then
moves a share by 1e-9 / d: nothing, but where two summands cancel, and what it does to a map depends
on the weights (from 1e-9 to 1e-4 of its maximum). With both done the published way these values are
met to 2e-9. So the limit is measured: how far our own map moves when 1e-9 is added to our
denominators. The published one is twice that away, for its two divisions (seen: up to 2.4 times);
4 times is allowed.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch

from relevit.attribution import METHODS, lrp
from relevit.maps import carry_rows

EPS = {"asis": 1e-5, "eps1e-6": 1e-6}  # of the final norm, in the published class and in timm's


def published_divide(a, b):
    return (a / (b + 1e-9)).masked_fill(b == 0, 0.0)


@pytest.fixture
def close(monkeypatch):
    """Compare what a call gives with published values."""

    def compare(call, published):
        ours, published = call().detach(), torch.from_numpy(published)
        with monkeypatch.context() as patch:
            patch.setattr(lrp, "safe_divide", published_divide)
            moved = (call().detach() - ours).abs().max()
        limit = 4 * moved + 1e-9 * published.abs().max()
        assert (ours - published).abs().max() <= limit

    return compare


def pixels(model, images, target, **options):
    """Relevance of every pixel, summed over colours."""
    rules, images = lrp.Relevance(**options), images.clone().requires_grad_()
    seen = rules.run(model, images, target)
    return rules.gradients(seen.score, [images])[0].sum(dim=1)


@pytest.mark.parametrize("kind", ["none", "index"])
@pytest.mark.parametrize("name", EPS)
def test_methods(close, golden, golden_models, golden_inputs, name, kind):
    values, model, images = golden("f5_lrp"), golden_models("tiny"), golden_inputs["images"]
    model.norm.eps = EPS[name]
    target = golden_inputs["labels"] if kind == "index" else None

    def maps(method, **options):
        return partial(method, model, images, target, **options)

    for start in (0, 1):
        found = maps(METHODS["transformer_attribution"], start_block=start + 1)
        close(found, values[f"{name}_ta_{kind}_s{start}"])
    close(maps(METHODS["partial_lrp"]), values[f"{name}_plrp_{kind}"])
    close(maps(pixels), values[f"{name}_full_{kind}"])
    if name == "asis":  # rules of the first code
        close(maps(METHODS["partial_lrp"], plain=True), values[f"asis_plrp_orig_{kind}"])
        close(maps(pixels, plain=True), values[f"asis_full_orig_{kind}"])


def test_attention_relevance_of_every_block(close, golden, golden_models, golden_inputs):
    values, model = golden("f5_lrp"), golden_models("tiny")
    model.norm.eps = EPS["asis"]

    def blocks():
        rules = lrp.Relevance()
        seen = rules.run(model, golden_inputs["images"], golden_inputs["labels"])
        return rules.gradients(seen.score, seen.maps)

    def rolled():
        matrices = [block.clamp(min=0).mean(dim=1) for block in blocks()]
        return carry_rows(matrices, "class_token", 1)[:, 0, 1:]

    close(lambda: torch.stack([block[0] for block in blocks()]), values["asis_attncam_img0_index"])
    close(rolled, values["asis_lrprollout_index_s0"])


def test_average_pooling(close, golden, golden_models, golden_inputs):
    values, model = golden("f5b_lrp_avg"), golden_models("norm_before_pool")
    model.norm.eps = EPS["asis"]
    images, labels = golden_inputs["images"], golden_inputs["labels"]
    torch.testing.assert_close(model(images), torch.from_numpy(values["logits"]))
    for start in (0, 1):
        ta = partial(METHODS["transformer_attribution"], start_block=start + 1)
        close(partial(ta, model, images, labels), values[f"ta_index_s{start}"])
    close(partial(METHODS["partial_lrp"], model, images, labels), values["plrp_index"])

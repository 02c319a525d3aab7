"""Maps made with create_graph=True hand exact gradients to the weights."""

from __future__ import annotations

import pytest
import torch

from ..attribution_cases import GRAPH, OURS, PROTOCOLS, explain, know_black

WEIGHTS = [("blocks.0.attn.qkv.weight", (3, 5)), ("blocks.1.mlp.fc2.weight", (2, 9))]
FACTORS = torch.linspace(-1, 2, 48).reshape(3, 16).double()
STEP = 1e-6


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
    figure = map_figure(name, model, images, protocol=protocol, create_graph=True)
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

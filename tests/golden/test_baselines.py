"""GradMask and RRR against the published code (f3): terms, gradients, one step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from relevit.finetune.settings import (
    BASELINES,
    FinetuneSettings,
    paper_rate,
    paper_weights,
    script_weights,
)
from relevit.finetune.step import make_optimizer, step_losses

SCRIPT_RATE = 3.0e-6  # learning rate of both published scripts
CASES = [
    ("default", mask, temperature) for mask in ("bin", "soft") for temperature in (1.0, 0.65)
] + [("paperViTB", "bin", 1.0)]
NAMES = [f"{source}_{mask}_T{temperature:g}" for source, mask, temperature in CASES]
SOURCES = {"default": script_weights, "paperViTB": paper_weights}


def close(ours, golden) -> None:
    ours = ours.detach().numpy() if isinstance(ours, torch.Tensor) else np.asarray(ours)
    np.testing.assert_allclose(ours, golden, rtol=1e-9, atol=1e-25)


def losses_of(model, inputs, method, source, mask="bin", temperature=1.0, weights=None, **options):
    settings = FinetuneSettings(
        lr=SCRIPT_RATE,
        method=method,
        temperature=temperature,
        weights=weights or SOURCES[source](method),
        options=options,
    )
    masks = inputs["masks" if mask == "bin" else "masks_soft"]
    return step_losses(model, inputs["images"], masks, inputs["labels"], settings)


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("source", SOURCES)
def test_golden_run_used_these_weights_and_rates(golden, method, source):
    values = golden(f"f3_{method}")
    weights = SOURCES[source](method)
    assert weights["background"] == values[f"{source}_lambda_seg"]
    assert weights["classification"] == values[f"{source}_lambda_acc"]
    rate = paper_rate(method) if source == "paperViTB" else SCRIPT_RATE
    assert rate == values[f"{source}_lr"]


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize(("source", "mask", "temperature"), CASES, ids=NAMES)
@pytest.mark.parametrize("graph", ["", "CREATEGRAPH_"])
def test_terms_and_gradients(
    golden, golden_model, golden_inputs, method, source, mask, temperature, graph
):
    values = golden(f"f3_{method}")
    prefix = f"{source}_{mask}_T{temperature:g}_"
    exact = {"exact_gradient": True} if graph else {}
    losses = losses_of(golden_model, golden_inputs, method, source, mask, temperature, **exact)
    background = losses.terms["background"]
    assert background.requires_grad == values[f"{prefix}{graph}bg_requires_grad"]
    close(background, values[prefix + "bg"])
    close(losses.classification, values[prefix + "cls"])
    close(losses.total, values[prefix + "total"])
    losses.total.backward()
    close(golden_model.head.weight.grad, values[f"{prefix}{graph}grad_head.weight"])


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize(("source", "mask", "temperature"), CASES, ids=NAMES)
def test_gradient_of_the_cross_entropy_alone(
    golden, golden_model, golden_inputs, method, source, mask, temperature
):
    values = golden(f"f3_{method}")
    prefix = f"{source}_{mask}_T{temperature:g}_"
    alone = SOURCES[source](method) | {"background": 0.0}
    losses = losses_of(golden_model, golden_inputs, method, source, mask, temperature, alone)
    losses.total.backward()
    close(golden_model.head.weight.grad, values[prefix + "clsonly_grad_head.weight"])
    assert values[prefix + "maxabs_total_minus_clsonly_grad_all_params"] == 0.0


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("source", SOURCES)
def test_one_adamw_step(golden, golden_model, golden_inputs, method, source):
    values = golden(f"f3_{method}")
    settings = FinetuneSettings(lr=float(values[f"{source}_lr"]))
    optimizer = make_optimizer(golden_model, settings)
    losses_of(golden_model, golden_inputs, method, source).total.backward()
    optimizer.step()
    close(golden_model.head.weight, values[f"{source}_bin_T1_after_head.weight"])


@pytest.mark.parametrize("method", BASELINES)
def test_size_of_the_first_step_with_the_papers_weights(
    golden, golden_model, golden_inputs, method
):
    """The published code moves the weights by .013 of the rate in GradMask, .69 in RRR (B12)."""
    lr, before = paper_rate(method), parameters_to_vector(golden_model.parameters()).detach()
    classification = losses_of(golden_model, golden_inputs, method, "paperViTB").classification
    (paper_weights(method)["classification"] * classification).backward()
    make_optimizer(golden_model, FinetuneSettings(lr=lr, weight_decay=0.0)).step()
    moved = parameters_to_vector(golden_model.parameters()).detach() - before
    ours = float(moved.square().mean().sqrt() / lr)
    golden_size = golden(f"f3_{method}")["paperViTB_bin_T1_rms_adam_update_over_lr"]
    np.testing.assert_allclose(ours, golden_size, rtol=1e-9)

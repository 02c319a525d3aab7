"""Relevance maps, losses, gradients and one step against the published code (f1, f2)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.attribution import gae, to_heatmap
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import make_optimizer, step_losses

SETTINGS = FinetuneSettings(lr=3.0e-6)
CASES = [
    pytest.param(mask, temperature, id=f"{mask}_T{temperature:g}")
    for mask in ("bin", "soft")
    for temperature in (1.0, 0.65)
]


def close(ours, golden) -> None:
    ours = ours.detach().numpy() if isinstance(ours, torch.Tensor) else np.asarray(ours)
    np.testing.assert_allclose(ours, golden, rtol=1e-9, atol=1e-12)


def losses_of(model, inputs, mask: str, temperature: float, settings=SETTINGS, exact=False):
    settings = settings.changed(temperature=temperature, options={"exact_gradient": exact})
    masks = inputs["masks" if mask == "bin" else "masks_soft"]
    losses = step_losses(model, inputs["images"], masks, inputs["labels"], settings)
    losses.total.backward()
    return losses


def norms(model) -> list[float]:
    return [0.0 if p.grad is None else float(p.grad.norm()) for _, p in model.named_parameters()]


@pytest.mark.parametrize("key", ["index", "none"])
def test_relevance_map(golden, golden_model, golden_inputs, key):
    values = golden("f1_robustvit_relevance")
    target = golden_inputs["labels"] if key == "index" else None
    relevance = gae(golden_model, golden_inputs["images"], target)
    close(relevance, values[f"raw_{key}"])
    close(to_heatmap(relevance, (32, 32), (4, 4)), values[f"map_{key}"])


def test_predicted_class(golden, golden_model, golden_inputs):
    logits = golden_model(golden_inputs["images"])
    close(logits, golden_inputs["logits_tiny"].numpy())
    assert logits.argmax(1).tolist() == golden("f1_robustvit_relevance")["pred"].tolist()


def test_golden_run_used_the_papers_weights(golden):
    values = golden("f2_robustvit_loss")
    flags = {"relevance": "seg", "classification": "acc"}
    for name, weight in SETTINGS.weights.items():
        assert weight == values[f"lambda_{flags.get(name, name)}"]
    assert SETTINGS.lr == values["lr"] and SETTINGS.weight_decay == values["weight_decay"]


@pytest.mark.parametrize(("mask", "temperature"), CASES)
def test_losses(golden, golden_model, golden_inputs, mask, temperature):
    values = golden("f2_robustvit_loss")
    losses = losses_of(golden_model, golden_inputs, mask, temperature)
    prefix = f"{mask}_T{temperature:g}_"
    close(losses.terms["background"], values[prefix + "bg"])
    close(losses.terms["foreground"], values[prefix + "fg"])
    close(losses.relevance, values[prefix + "seg"])
    close(losses.classification, values[prefix + "cls"])
    close(losses.total, values[prefix + "total"])
    # validate() of the published code returns the same sum on the same images.
    close(losses.total, values[prefix + "validate_loss"])


@pytest.mark.parametrize(("mask", "temperature"), CASES)
@pytest.mark.parametrize("order", ["", "SECONDORDER_"])
def test_gradients(golden, golden_model, golden_inputs, mask, temperature, order):
    values = golden("f2_robustvit_loss")
    prefix = f"{mask}_T{temperature:g}_{order}grad"
    if f"{prefix}norm_all" not in values:
        assert (order, mask, temperature) == ("SECONDORDER_", "soft", 0.65)
        return
    losses_of(golden_model, golden_inputs, mask, temperature, exact=bool(order))
    names = [name for name, _ in golden_model.named_parameters()]
    assert names == values["param_names"].tolist()
    close(norms(golden_model), values[f"{prefix}norm_all"])
    parameters = dict(golden_model.named_parameters())
    for key in values:
        if key.startswith(f"{prefix}_"):
            close(parameters[key.removeprefix(f"{prefix}_")].grad, values[key])


@pytest.mark.parametrize("order", ["", "SECONDORDER_"])
def test_relevance_term_alone(golden, golden_model, golden_inputs, order):
    """Without the exact gradient the head and the last block's tail learn nothing (A2)."""
    only = SETTINGS.changed(weights={"classification": 0.0})
    losses_of(golden_model, golden_inputs, "bin", 1.0, only, exact=bool(order))
    close(norms(golden_model), golden("f2_robustvit_loss")[f"segonly_{order}gradnorm_all"])


def test_one_adamw_step(golden, golden_model, golden_inputs):
    values = golden("f2_robustvit_loss")
    before = {name: p.detach().clone() for name, p in golden_model.named_parameters()}
    optimizer = make_optimizer(golden_model, SETTINGS)
    losses_of(golden_model, golden_inputs, "bin", 1.0)
    optimizer.step()
    after = dict(golden_model.named_parameters())
    compared = 0
    for key in values:
        if key.startswith("bin_T1_after_"):
            close(after[key.removeprefix("bin_T1_after_")], values[key])
            compared += 1
    assert compared == 6
    moved = [float((after[name] - before[name]).detach().norm()) for name in before]
    np.testing.assert_allclose(moved, values["bin_T1_deltanorm_all"], rtol=1e-9, atol=1e-12)


def test_exact_map_has_the_same_values(golden, golden_model, golden_inputs):
    values = golden("f1_robustvit_relevance")
    relevance = gae(
        golden_model, golden_inputs["images"], golden_inputs["labels"], exact_gradient=True
    )
    assert relevance.requires_grad
    close(relevance, values["raw_index"])

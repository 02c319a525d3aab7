"""What a step costs."""

from __future__ import annotations

import torch

from reproduction.runs.effects import step_price

from ..micro_finetuning import SETTINGS, SPEC, micro_model, pictures


def test_a_step_with_maps_keeps_more_than_labels_and_a_head_alone_less():
    model, train = micro_model(), pictures("train", 8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    free = SETTINGS.weights | {"relevance": 0.0}
    kept = [
        step_price(model, SPEC, train, SETTINGS.changed(**changes), 1)["memory_mib"]
        for changes in ({"weights": free, "trained_blocks": 0}, {"weights": free}, {})
    ]
    assert 0 < kept[0] < kept[1] < kept[2]
    assert step_price(model, SPEC, train, SETTINGS, 1)["memory_mib"] == kept[2]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())

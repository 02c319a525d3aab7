"""What a step costs."""

from __future__ import annotations

import torch

from reproduction.runs import price
from reproduction.runs.price import step_price, step_prices

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


def test_arms_of_one_computation_have_one_price_the_least_of_all_turns(monkeypatch):
    taken = iter([3.0, 9.0, 2.0, 8.0, 4.0, 7.0])

    def price_of(network, spec, train, settings, steps):
        return {"seconds": next(taken), "memory_mib": settings.weights["relevance"]}

    monkeypatch.setattr(price, "step_price", price_of)
    free = SETTINGS.changed(weights=SETTINGS.weights | {"relevance": 0.0})
    arms = {"label": free, "relevance": SETTINGS, "swap": free.changed(augmentation="swap", lr=0.1)}
    found = step_prices(None, SPEC, None, arms)
    assert list(found.index) == list(arms)
    assert found["seconds"].tolist() == [2, 7, 2]
    assert found["memory_mib"].tolist() == [0, SETTINGS.weights["relevance"], 0]

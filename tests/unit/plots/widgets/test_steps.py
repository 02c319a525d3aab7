"""One step by hand: the weights are those of the sliders, and the model is left alone."""

from __future__ import annotations

import pytest
import torch

from relevit.finetune.step import make_optimizer, step_losses
from relevit.plots.widgets.steps import FIRST, step_explorer

from ...micro_finetuning import SETTINGS, pictures

QUIET = SETTINGS.changed(lr=1e-4)


@pytest.fixture
def batch():
    return pictures("finetune", 3)


@pytest.fixture
def explorer(network, spec, batch):
    return step_explorer(network, spec, batch, QUIET)


@pytest.mark.parametrize(
    ("control", "value"),
    [("background", 0.0), ("foreground", 3.0), ("classification", 0.9), ("rate", 30)],
)
def test_a_control_changes_picture_and_text(explorer, shown, control, value):
    before = shown(explorer)
    getattr(explorer, control).value = value
    after = shown(explorer)
    assert after[0] != before[0] and after[1] != before[1]


def test_it_begins_with_the_weights_of_the_settings(explorer):
    names = ("background", "foreground", "classification")
    sliders = [getattr(explorer, name) for name in names]
    assert [s.value for s in sliders] == [QUIET.weights[name] for name in names]
    assert explorer.rate.value == FIRST and not any(s.continuous_update for s in sliders)


def test_the_numbers_are_those_of_a_step_by_hand(network, spec, batch, shown):
    explorer = step_explorer(network, spec, batch, QUIET)
    explorer.rate.value = 1
    text = shown(explorer)[1]
    pixels, masks = spec.normalise(batch.images), batch.masks.float()
    before = step_losses(network, pixels, masks, batch.labels, QUIET)
    before.total.backward()
    make_optimizer(network, QUIET).step()
    after = step_losses(network, pixels, masks, batch.labels, QUIET, train=False)
    pair = [losses.terms["background"] for losses in (before, after)]
    assert f"background {pair[0]:.4f} → {pair[1]:.4f} (" in text
    assert f"class term {before.classification:.4f} → {after.classification:.4f} (" in text
    assert "relevance on the object" in text


def test_a_term_without_weight_is_not_trained(explorer, shown):
    explorer.background.value = explorer.foreground.value = explorer.classification.value = 0.0
    text = shown(explorer)[1]  # weight decay alone moves next to nothing
    assert text.count("(+0 %)") + text.count("(-0 %)") == 3


def test_the_model_stays_as_it_was(network, spec, batch):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    explorer = step_explorer(network, spec, batch, QUIET)
    explorer.rate.value = 30
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())
    kept = (explorer._before.total, explorer._before.heatmaps, explorer._before.logits)
    assert all(value.grad_fn is None for value in kept), "the graph does not stay with the widget"


def test_errors(network, spec, batch):
    with pytest.raises(ValueError, match="gradmask trains no relevance map"):
        step_explorer(network, spec, batch, QUIET.changed(method="gradmask"))
    with pytest.raises(ValueError, match="0 images; a step shall take a moment: give 1 to 3"):
        step_explorer(network, spec, batch.select(torch.tensor([], dtype=torch.long)), QUIET)

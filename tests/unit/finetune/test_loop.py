"""Relevance finetuning of a two-block ViT: what a run does, keeps and resumes, and a real kill."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise

import pytest
import torch
from torch.nn.functional import cross_entropy

from relevit.finetune.epochs import epoch_plan
from relevit.finetune.learning_rate import kept_epoch
from relevit.finetune.loop import augment

from ..micro_finetuning import (
    RESULT,
    SETTINGS,
    SPEC,
    Stop,
    micro_model,
    pictures,
    result,
    run,
    stop,
    validate,
    weights,
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run that nothing disturbed: its history, weights and files."""
    folder, model = tmp_path_factory.mktemp("undisturbed"), micro_model()
    history = run(folder, model=model)
    return history, weights(model), result(folder)


# A run


def test_log_has_a_row_for_each_epoch(undisturbed):
    history = undisturbed[0]
    assert [row["epoch"] for row in history] == [0, 1, 2, 3]
    terms = {f"loss_{t}" for t in ("background", "foreground", "relevance", "classification")}
    terms |= {"loss_total"}
    assert set(history[0]) == {"epoch"} | {f"validation_{t}" for t in terms}
    assert set(history[1]) == set(history[0]) | {"lr"} | {f"train_{t}" for t in terms}
    assert len({row["train_loss_total"] for row in history[1:]}) == 3


def test_same_run_same_bytes(undisturbed, tmp_path):
    model = micro_model()
    assert run(tmp_path, model=model) == undisturbed[0]
    assert torch.equal(weights(model), undisturbed[1])
    assert result(tmp_path) == undisturbed[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(RESULT)


CONTROL = SETTINGS.changed(weights={"relevance": 0.0}, class_term="label", keep="last")


def test_control_takes_the_plain_step_bit_for_bit(tmp_path):
    model, plain, shown = micro_model(), micro_model(), pictures("finetune", 10)
    run(tmp_path, CONTROL.changed(epochs=1, batch_size=10), model=model)
    optimizer = torch.optim.AdamW(
        plain.parameters(), lr=CONTROL.lr, weight_decay=CONTROL.weight_decay, fused=True
    )
    ((places, rng),) = epoch_plan(10, 10, CONTROL.seed, 1)
    batch = shown.select(places)
    logits = plain(SPEC.normalise(augment(batch, rng, SPEC.image_size)[0]))
    (CONTROL.weights["classification"] * cross_entropy(logits, batch.labels)).backward()
    optimizer.step()
    assert torch.equal(weights(model), weights(plain))


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("blocks", [0, 1, 2, "patches"])
def test_only_what_is_trained_changes_and_what_needs_gradients_is_as_before(
    tmp_path, blocks, broken
):
    """The last blocks, a head alone, or all but what somebody has frozen."""
    settings, model = SETTINGS.changed(epochs=1), micro_model()
    if blocks == "patches":
        parts = ("cls_token", "pos_embed", "blocks", "norm", "head")
        model.patch_embed.requires_grad_(False)
    else:
        parts = ("head", *(["norm"] if blocks else []), *("blocks.1", "blocks.0")[:blocks])
        settings = (settings if blocks else CONTROL).changed(trained_blocks=blocks, epochs=1)
        model.cls_token.requires_grad_(False)
    flags = [weight.requires_grad for weight in model.parameters()]
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    with pytest.raises(Stop) if broken else nullcontext():
        run(tmp_path, settings, model=model, after_step=stop if broken else lambda model: None)
    changed = {name for name, each in model.named_parameters() if not each.equal(before[name])}
    assert changed == {name for name in before if name.startswith(parts)}
    assert [weight.requires_grad for weight in model.parameters()] == flags


def test_what_is_frozen_makes_another_run(tmp_path):
    free, frozen = micro_model(), micro_model()
    frozen.patch_embed.requires_grad_(False)
    for model in (frozen, free):  # in the same folder
        run(tmp_path, CONTROL.changed(epochs=1), model=model)
    assert not torch.equal(weights(frozen), weights(free))


def test_model_trains_in_train_mode_and_is_validated_and_left_in_eval_mode(tmp_path):
    model, modes = micro_model(), []

    def check(model, settings):
        modes.append(("validated", model.training))
        return validate(model, settings)

    trained = {"after_step": lambda model: modes.append(("trained", model.training))}
    run(tmp_path, SETTINGS.changed(epochs=2), model=model, validate=check, **trained)
    steps = 3 * [("trained", True)]
    assert modes == [("validated", False)] + 2 * [*steps, ("validated", False)]
    assert not model.training


def test_steps_have_the_rate_of_the_epoch(undisturbed, tmp_path):
    assert [row["lr"] for row in undisturbed[0][1:]] == pytest.approx([1e-3, 1e-3, 0.85e-3])
    ends = []
    told = SETTINGS.changed(options={"decay": 1e-30}, keep="last")
    run(tmp_path, told, after_step=lambda model: ends.append(weights(model)))
    apart = [bool((a != b).any()) for a, b in pairwise(ends)]
    assert apart == 5 * [True] + 3 * [False], "the third epoch's rate is next to nothing"


@pytest.mark.parametrize(
    ("keep", "totals", "epoch"),
    [
        ("last", [3.0, 1.0, 2.0], 3),
        ("lowest_validation_loss", [3.0, 1.0, 1.0], 3),
        ("lowest_validation_loss", [8.0, 9.0, 9.5], 1),  # before training it was 5
    ],
)
def test_kept_epoch(tmp_path, keep, totals, epoch):
    states, figures = [], iter([5.0, *totals])

    def check(model, settings):
        states.append(weights(model))
        return {"loss_total": next(figures)}

    model = micro_model()
    history = run(tmp_path, SETTINGS.changed(keep=keep), model=model, validate=check)
    assert kept_epoch(history, keep) == epoch, "the learning-rate rule looks at another epoch"
    assert [torch.equal(state, weights(model)) for state in states].index(True) == epoch


# Stopped and started again


@pytest.mark.parametrize("at", [3, 5])
def test_stopped_in_the_middle_or_at_the_end_of_an_epoch(undisturbed, tmp_path, at):
    """The next start has a new model."""
    taken = []

    def stop_later(model):
        taken.append(model)
        if len(taken) == at:
            raise Stop

    with pytest.raises(Stop):
        run(tmp_path, after_step=stop_later)
    model = micro_model()
    assert run(tmp_path, model=model) == undisturbed[0]
    assert torch.equal(weights(model), undisturbed[1])
    assert result(tmp_path) == undisturbed[2]


@pytest.mark.parametrize("change", [{"seed": 1}, {"inputs": {"a": 1}}])
def test_other_settings_or_inputs_start_afresh(undisturbed, tmp_path, change):
    run(tmp_path, **(change if "inputs" in change else {"settings": SETTINGS.changed(**change)}))
    seen = []
    assert run(tmp_path, on_epoch=seen.append) == undisturbed[0] == seen
    assert result(tmp_path) == undisturbed[2]

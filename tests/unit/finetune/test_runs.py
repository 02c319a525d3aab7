"""Relevance finetuning of a two-block ViT: what a run does, keeps and refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from relevit.finetune import loop as finetune
from relevit.finetune.loop import check_masks
from relevit.finetune.runs import kept_epoch
from relevit.finetune.step import make_optimizer, step_losses

from ..micro_finetuning import (
    RESULT,
    SETTINGS,
    micro_model,
    pictures,
    result,
    run,
    stop,
    undisturbed_run,
    validate,
    weights,
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed"))


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
    assert not model.training


def test_model_trains_in_train_mode_and_is_validated_in_eval_mode(tmp_path):
    model, modes = micro_model(), []

    def check(model, settings):
        modes.append(("validated", model.training))
        return validate(model, settings)

    run(
        tmp_path,
        SETTINGS.changed(epochs=2),
        model=model,
        validate=check,
        on_step=lambda step, steps: modes.append(("trained", model.training)),
    )
    steps = 3 * [("trained", True)]
    assert modes == [("validated", False)] + 2 * [*steps, ("validated", False)]


@pytest.mark.parametrize("seed", [1, 2])
def test_seed_changes_order_and_augmentation(undisturbed, tmp_path, seed):
    history = run(tmp_path, SETTINGS.changed(seed=seed))
    assert history[0] == undisturbed[0][0]
    assert history[1]["train_loss_total"] != undisturbed[0][1]["train_loss_total"]


def test_optimizer_gets_the_rate_of_the_epoch(undisturbed, tmp_path, monkeypatch):
    used = []

    def watched(model, settings):
        optimizer = make_optimizer(model, settings)
        original = optimizer.step
        optimizer.step = lambda: (used.append(optimizer.param_groups[0]["lr"]), original())[1]
        return optimizer

    monkeypatch.setattr(finetune, "make_optimizer", watched)
    run(tmp_path)
    assert used == pytest.approx([1e-3] * 6 + [0.85e-3] * 3)
    assert [row["lr"] for row in undisturbed[0][1:]] == pytest.approx([1e-3, 1e-3, 0.85e-3])


def test_all_parameters_are_decayed_and_trained():
    model = micro_model()
    (group,) = make_optimizer(model, SETTINGS.changed(weight_decay=0.25)).param_groups
    assert len(group["params"]) == len(list(model.parameters()))
    assert group["weight_decay"] == 0.25 and group["lr"] == SETTINGS.lr


def test_figures_of_training_are_means_over_the_steps_and_others_are_left_out(
    tmp_path, monkeypatch
):
    steps = []

    def watched(*args):
        losses = step_losses(*args)
        steps.append(losses.numbers())
        return losses

    monkeypatch.setattr(finetune, "step_losses", watched)
    before, after = run(tmp_path, SETTINGS.changed(epochs=1, keep="last"), validated=())
    assert before == {"epoch": 0} and len(steps) == 3
    means = {f"train_{name}": np.mean([step[name] for step in steps]) for name in steps[0]}
    assert after == {"epoch": 1, "lr": SETTINGS.lr} | {k: pytest.approx(means[k]) for k in means}


# Which epoch is kept


@pytest.mark.parametrize(
    ("keep", "totals", "epoch"),
    [
        ("last", [3.0, 1.0, 2.0], 3),
        ("lowest_validation_loss", [3.0, 1.0, 2.0], 2),
        ("lowest_validation_loss", [3.0, 1.0, 1.0], 3),
        ("lowest_validation_loss", [8.0, 9.0, 9.5], 1),  # before training it was 5
    ],
)
def test_kept_epoch(tmp_path, keep, totals, epoch):
    states = []
    figures = iter([5.0, *totals])

    def check(model, settings):
        assert not model.training
        states.append(weights(model))
        return {"loss_total": next(figures)}

    model = micro_model()
    history = run(tmp_path, SETTINGS.changed(keep=keep), model=model, validate=check)
    assert kept_epoch(history, keep) == epoch, "the learning-rate rule looks at another epoch"
    assert [torch.equal(state, weights(model)) for state in states].index(True) == epoch


# Losses that are no numbers


def test_diverged_run_names_its_epoch_and_keeps_the_checkpoint(tmp_path):
    calls = []

    def failing(model, settings):
        calls.append(None)
        if len(calls) == 3:  # before training, after epochs 1 and 2
            with torch.no_grad():
                model.head.bias[0] = float("nan")
        return validate(model, settings)

    folder = tmp_path / "seed3"
    text = r"training: validation_loss_\w+ is nan in epoch 2 of seed3; lower the learning rate"
    with pytest.raises(FloatingPointError, match=text):
        run(folder, validate=failing)
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert [row["epoch"] for row in state["history"]] == [0, 1]
    assert not (folder / "weights.safetensors").exists()


def test_learning_rate_that_is_far_too_high_is_noticed(tmp_path):
    with pytest.raises(FloatingPointError, match=r"is (nan|inf) in epoch [12] of"):
        run(tmp_path, SETTINGS.changed(lr=1.0e30))


# Errors


@pytest.mark.parametrize(("value", "kind"), [(False, "no object"), (True, "no background")])
def test_mask_without_object_or_background_is_an_error(tmp_path, value, kind):
    train = pictures("finetune", 6)
    check_masks(train.masks)
    train = replace(train, masks=train.masks.clone())
    train.masks[[2, 5]] = value
    text = rf"finetune: mask 2 has {kind} \(2 such masks\); leave these images out or mend"
    with pytest.raises(ValueError, match=text):
        check_masks(train.masks)
    with pytest.raises(ValueError, match=text):
        run(tmp_path / "run", train=train, validate=stop)
    assert not (tmp_path / "run").exists()

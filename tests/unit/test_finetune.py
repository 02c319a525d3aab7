"""Relevance finetuning of a two-block ViT: settings, resume to the byte, and a real kill.

Run as a script, this file is the process that is killed: `serve` below.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import timm
import torch

from relevit import checkpoints, finetune
from relevit.data import cutouts
from relevit.finetune import (
    CROP_MARGIN,
    FinetuneSettings,
    LossWeights,
    augment,
    check_masks,
    check_settings,
    epoch_plan,
    make_optimizer,
    step_losses,
)
from relevit.learning_rate import choose_learning_rate, kept_epoch
from relevit.models import ModelSpec
from relevit.relevance import gae, to_pixels

SIZE = 28
SPEC = ModelSpec(
    "micro",
    "vit_tiny_patch16_224",
    SIZE,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
    options={"patch_size": 14, "embed_dim": 16, "depth": 2, "num_heads": 2},
)
SETTINGS = FinetuneSettings(lr=1.0e-3, epochs=3, batch_size=4)
RESULT = ("weights.safetensors", "log.jsonl")


class Stop(BaseException):
    """Ends a run at once; not an Exception, so that nothing catches it."""


def stop(*args, **kwargs):
    raise Stop


def micro_model(seed=0):
    torch.manual_seed(seed)
    return timm.create_model(SPEC.timm_name, img_size=SIZE, num_classes=40, **SPEC.options)


@cache
def pictures(name, count):
    """Cutouts with both object and background in the mask, whatever the recipes say."""
    drawn = cutouts.draw(name, range(3 * count), size=SIZE)
    share = drawn.masks.float().mean(dim=(1, 2, 3))
    return drawn.select(((share > 0) & (share < 1)).nonzero()[:count, 0])


def validate(model, settings):
    shown = pictures("validation", 4)
    images = SPEC.normalise(shown.images)
    return step_losses(model, images, shown.masks.float(), shown.labels, settings).numbers()


def run(folder, settings=SETTINGS, *, model=None, train=None, origin="random", **callbacks):
    """One micro finetuning; `callbacks` may replace `validate`, too."""
    model = micro_model() if model is None else model
    train = pictures("finetune", 10) if train is None else train
    check = callbacks.pop("validate", validate)
    return finetune.finetune(
        model, SPEC, train, check, settings, Path(folder), origin=origin, **callbacks
    )


def result(folder):
    return {name: (Path(folder) / name).read_bytes() for name in RESULT}


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run that nothing disturbed: its history, weights and files."""
    folder = tmp_path_factory.mktemp("undisturbed")
    model = micro_model()
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
    assert not model.training


def test_model_trains_in_train_mode_and_is_validated_in_eval_mode(tmp_path):
    model, modes = micro_model(), []

    def check(model, settings):
        modes.append(("validated", model.training))
        return validate(model, settings)

    run(
        tmp_path,
        replace(SETTINGS, epochs=2),
        model=model,
        validate=check,
        on_step=lambda step, steps: modes.append(("trained", model.training)),
    )
    steps = 3 * [("trained", True)]
    assert modes == [("validated", False)] + 2 * [*steps, ("validated", False)]


@pytest.mark.parametrize("seed", [1, 2])
def test_seed_changes_order_and_augmentation(undisturbed, tmp_path, seed):
    history = run(tmp_path, replace(SETTINGS, seed=seed))
    assert history[0] == undisturbed[0][0]
    assert history[1]["train_loss_total"] != undisturbed[0][1]["train_loss_total"]


def test_learning_rate_falls_every_two_epochs_as_published():
    settings = FinetuneSettings(lr=2.0)
    rates = [settings.lr_at(epoch) for epoch in range(1, 6)]
    assert rates == pytest.approx([2.0, 2.0, 1.7, 1.7, 1.445])
    constant = replace(settings, protocol="described")
    assert [constant.lr_at(epoch) for epoch in (1, 3, 50)] == [2.0, 2.0, 2.0]


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
    (group,) = make_optimizer(model, replace(SETTINGS, weight_decay=0.25)).param_groups
    assert len(group["params"]) == len(list(model.parameters()))
    assert group["weight_decay"] == 0.25 and group["lr"] == SETTINGS.lr


# Stopped and started again


@pytest.mark.parametrize("at", range(1, 10))
def test_stopped_in_the_middle_of_an_epoch(undisturbed, tmp_path, at):
    """At each of the nine optimiser steps; the next start is a new process with a new model."""
    taken = []

    def stop_later(step, steps):
        taken.append(step)
        if len(taken) == at:
            raise Stop

    with pytest.raises(Stop):
        run(tmp_path, on_step=stop_later)
    model = micro_model()
    assert run(tmp_path, model=model) == undisturbed[0]
    assert torch.equal(weights(model), undisturbed[1])
    assert result(tmp_path) == undisturbed[2]


@pytest.mark.parametrize("epoch", [1, 2, 3])
@pytest.mark.parametrize("name", ["torch.save", "os.replace", "os.link"])
def test_stopped_while_a_checkpoint_is_written(undisturbed, tmp_path, monkeypatch, name, epoch):
    def arm(row):
        if row["epoch"] == epoch - 1:
            monkeypatch.setattr(name, stop)

    with pytest.raises(Stop):
        run(tmp_path, on_epoch=arm)
    monkeypatch.undo()
    again = []
    run(tmp_path, on_epoch=lambda row: again.append(row["epoch"]))
    assert again == list(range(0 if epoch == 1 else epoch, 4))
    assert result(tmp_path) == undisturbed[2]


def test_stopped_between_last_checkpoint_and_final_weights(undisturbed, tmp_path, monkeypatch):
    with pytest.raises(Stop):
        run(tmp_path, on_epoch=lambda row: stop() if row["epoch"] == 3 else None)
    assert not (tmp_path / "weights.safetensors").exists()
    monkeypatch.setattr(finetune, "_train_step", stop)
    run(tmp_path)  # nothing is left to train
    assert result(tmp_path) == undisturbed[2]


def test_stopped_while_the_final_weights_are_written(undisturbed, tmp_path, monkeypatch):
    save_file = checkpoints.save_file

    def cut(state, target, metadata):
        if Path(target).parent != tmp_path:
            return save_file(state, target, metadata=metadata)
        Path(target).write_bytes(b"half a fi")
        raise Stop

    monkeypatch.setattr(checkpoints, "save_file", cut)
    with pytest.raises(Stop):
        run(tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(finetune, "_train_step", stop)
    run(tmp_path)
    assert result(tmp_path) == undisturbed[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(RESULT)


def test_finished_run_is_not_computed_again(undisturbed, tmp_path, monkeypatch):
    run(tmp_path)
    monkeypatch.setattr(finetune, "_train_step", stop)
    model = micro_model(seed=8)
    assert run(tmp_path, model=model, validate=stop) == undisturbed[0]
    assert torch.equal(weights(model), undisturbed[1])
    assert not model.training


@pytest.mark.parametrize(
    "change",
    [{"lr": 2.0e-3}, {"epochs": 2}, {"seed": 1}, {"protocol": "described"}, {"keep": "last"},
     {"weights": LossWeights(background=1.0)}, {"origin": "elsewhere"}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
@pytest.mark.parametrize("finished", [True, False])
def test_other_settings_start_afresh(undisturbed, tmp_path, change, finished):
    other = {"origin": change["origin"]} if "origin" in change else {
        "settings": replace(SETTINGS, **change)
    }  # fmt: skip
    if finished:
        run(tmp_path, **other)
    else:
        with pytest.raises(Stop):
            run(tmp_path, on_epoch=lambda row: stop() if row["epoch"] == 2 else None, **other)
    seen = []
    assert run(tmp_path, on_epoch=seen.append) == undisturbed[0]
    assert [row["epoch"] for row in seen] == [0, 1, 2, 3]
    assert result(tmp_path) == undisturbed[2]


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
    assert [path.name for path in (folder / "checkpoint").iterdir()] == ["epoch_0001"]
    load = micro_model(seed=3)
    checkpoints.load_weights(folder / "checkpoint/epoch_0001/weights.safetensors", load, "micro")
    assert not (folder / "weights.safetensors").exists()


def test_learning_rate_that_is_far_too_high_is_noticed(tmp_path):
    with pytest.raises(FloatingPointError, match=r"is (nan|inf) in epoch [12] of"):
        run(tmp_path, replace(SETTINGS, lr=1.0e30))


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
    history = run(tmp_path, replace(SETTINGS, keep=keep), model=model, validate=check)
    assert kept_epoch(history, keep) == epoch, "the learning-rate rule looks at another epoch"
    assert [torch.equal(state, weights(model)) for state in states].index(True) == epoch


# A real kill


def serve():
    """Run the finetuning of each folder named on stdin in a process of its own.

    A fork saves importing torch and timm again for each; nothing is computed before it.
    """
    torch.set_num_threads(1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run_and_tell(line.strip())
        say("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def run_and_tell(folder):
    try:
        say("child", os.getpid())
        run(
            folder,
            LONG,
            on_epoch=lambda row: say("epoch", row["epoch"]),
            on_step=lambda step, steps: say("step", step),
        )
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def say(*words):
    print(*words, flush=True)


LONG = replace(SETTINGS, epochs=8)


class Server:
    """The other end of `serve`."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )

    def run(self, folder, kill_when=lambda words, folder: False):
        """Run to the end or to a kill; returns the exit code and the lines until then."""
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        lines, child, killed = [], None, False
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "ended":
                return int(words[1]), lines
            if words[0] == "child":
                child = int(words[1])
                continue
            lines.append(line.strip())
            if not killed and kill_when(lines, folder):
                os.kill(child, signal.SIGKILL)
                killed = True
        raise AssertionError(f"the process ended with {self.process.wait()} after {lines}")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module", autouse=True)
def server():
    """Started with the module's first test, so that it is ready when the last needs it."""
    server = Server()
    yield server
    server.close()


def in_the_middle_of_epoch_2(lines, folder):
    return "epoch 1" in lines and lines[-1] == "step 2"


def while_a_checkpoint_is_written(lines, folder):
    """Waits after epoch 4's last step until its folder is being filled."""
    if "epoch 3" not in lines or lines[-1] != "step 3":
        return False
    hidden, shown = (folder / "checkpoint" / f"{dot}epoch_0004" for dot in (".", ""))
    deadline = time.monotonic() + 120
    while not hidden.exists() and not shown.exists() and time.monotonic() < deadline:
        time.sleep(0.0002)
    return True


def when_the_log_has_seven_rows(lines, folder):
    log = folder / "log.jsonl"
    return log.exists() and len(log.read_text().splitlines()) >= 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL and fork are POSIX")
def test_run_killed_three_times_ends_with_the_same_bytes(server, tmp_path):
    assert server.run(tmp_path / "whole") == (0, server.run(tmp_path / "again")[1])
    folder = tmp_path / "killed"
    first_epochs = []
    for moment in (
        in_the_middle_of_epoch_2,
        while_a_checkpoint_is_written,
        when_the_log_has_seven_rows,
    ):
        code, lines = server.run(folder, moment)
        assert code == -signal.SIGKILL, f"the run ended before it was killed: {lines[-3:]}"
        first_epochs.append(next(line for line in lines if line.startswith("epoch")))
    code, lines = server.run(folder)
    assert code == 0
    first_epochs.append(next(line for line in lines if line.startswith("epoch")))
    assert first_epochs[:2] == ["epoch 0", "epoch 2"], "the run did not go on where it was"
    assert first_epochs[2] in ("epoch 4", "epoch 5")
    assert first_epochs[3] in ("epoch 7", "epoch 8")
    assert result(folder) == result(tmp_path / "whole") == result(tmp_path / "again")
    assert not (folder / "checkpoint").exists()
    assert len(result(folder)["log.jsonl"].splitlines()) == 1 + LONG.epochs


# One step


def step_inputs(count=4):
    shown = pictures("finetune", count)
    return SPEC.normalise(shown.images), shown.masks.float(), shown.labels


def gradients(model, total):
    return torch.autograd.grad(total, list(model.parameters()), allow_unused=True)


def same_gradients(one, other):
    return all(
        (a is None) == (b is None) and (a is None or torch.allclose(a, b, rtol=1e-4, atol=1e-7))
        for a, b in zip(one, other, strict=True)
    )


def test_total_is_the_weighted_sum():
    factors = LossWeights(relevance=0.5, classification=3.0, background=7.0, foreground=0.25)
    losses = step_losses(micro_model(), *step_inputs(), replace(SETTINGS, weights=factors))
    relevance = 7 * losses.background + 0.25 * losses.foreground
    torch.testing.assert_close(losses.relevance, relevance)
    torch.testing.assert_close(losses.total, 0.5 * relevance + 3 * losses.classification)
    assert losses.numbers() == {
        f"loss_{name}": float(getattr(losses, name).detach())
        for name in ("background", "foreground", "relevance", "classification", "total")
    }


@pytest.mark.parametrize("target", ["label", "predicted"])
@pytest.mark.parametrize("protocol", ["published", "described"])
def test_heatmaps_are_gae_of_the_target(target, protocol):
    model = micro_model()
    images, masks, labels = step_inputs()
    settings = replace(SETTINGS, target=target, protocol=protocol)
    losses = step_losses(model, images, masks, labels, settings)
    relevance = gae(model, images, labels if target == "label" else None)
    expected = to_pixels(relevance, (SIZE, SIZE), normalise=protocol == "published")
    torch.testing.assert_close(losses.heatmaps.detach(), expected)
    other = gae(model, images, None if target == "label" else labels)
    assert (relevance - other).abs().max() > 1e-6, "label and prediction are the same"


@pytest.mark.parametrize(("protocol", "exact"), [("published", False), ("described", True)])
def test_protocol_chooses_the_gradient_unless_told(protocol, exact):
    model = micro_model()
    settings = replace(SETTINGS, protocol=protocol)
    found = {
        told: gradients(
            model, step_losses(model, *step_inputs(), settings, exact_gradient=told).total
        )
        for told in (None, True, False)
    }
    assert same_gradients(found[None], found[exact])
    assert not same_gradients(found[None], found[not exact])


def test_temperature_reaches_the_class_term_alone():
    model, inputs = micro_model(), step_inputs()
    one = step_losses(model, *inputs, SETTINGS)
    half = step_losses(model, *inputs, replace(SETTINGS, temperature=0.5))
    assert half.classification < one.classification
    assert half.relevance == one.relevance


# The order and the augmentation


def test_epoch_plan_is_the_same_each_time_and_differs_by_epoch_and_seed():
    def plan(*args):
        return [(rows.tolist(), rng.random()) for rows, rng in epoch_plan(10, 4, *args)]

    assert plan(0, 1) == plan(0, 1)
    plans = [plan(0, 1), plan(0, 2), plan(1, 1), plan(1, 2)]
    for i in range(2):  # the order of the images, and the random numbers of the batches
        drawn = {tuple(map(str, (batch[i] for batch in batches))) for batches in plans}
        assert len(drawn) == 4
    for batches in plans:
        assert [len(rows) for rows, _ in batches] == [4, 4, 2]
        assert sorted(row for rows, _ in batches for row in rows) == list(range(10))
        assert len({draw for _, draw in batches}) == 3, "batches share their random numbers"


def marked_batch(count=12):
    """Images that are their own masks: a block of random place and size, in three channels."""
    random = torch.Generator().manual_seed(0)
    masks = torch.rand(count, 1, SIZE, SIZE, generator=random) < 0.3
    images = masks.expand(-1, 3, -1, -1).to(torch.uint8) * torch.tensor([255, 1, 77])[:, None, None]
    return cutouts.Batch(
        images.to(torch.uint8), masks, torch.arange(count), torch.zeros(count).long()
    )


def test_augment_moves_image_and_mask_alike():
    batch = marked_batch()
    before = batch.images.clone(), batch.masks.clone()
    images, masks = augment(batch, np.random.default_rng(0))
    assert images.dtype == torch.uint8 and masks.dtype == torch.bool
    assert images.shape == batch.images.shape and masks.shape == batch.masks.shape
    for channel, value in enumerate((255, 1, 77)):
        assert torch.equal(images[:, channel : channel + 1], masks.to(torch.uint8) * value)
    assert torch.equal(batch.images, before[0]) and torch.equal(batch.masks, before[1])


def test_augment_crops_anywhere_in_the_margin_and_flips_half():
    """Each picture has one lit pixel in its middle, whose place tells what was done to it."""
    count, middle = 400, SIZE // 2
    images = torch.zeros(count, 3, SIZE, SIZE, dtype=torch.uint8)
    images[:, :, middle, middle] = 200
    images[:, 0, middle, middle + 1] = 100  # right of it, so that a flip shows
    batch = cutouts.Batch(
        images, images[:, :1] > 150, torch.zeros(count).long(), torch.zeros(count).long()
    )
    moved, masks = augment(batch, np.random.default_rng(0))
    places = masks[:, 0].nonzero()
    assert len(places) == count, "the pixel is never lost or doubled"
    shifts = places[:, 1] - middle
    assert (int(shifts.min()), int(shifts.max())) == (-CROP_MARGIN, CROP_MARGIN)
    flipped = [
        bool(picture[0, row, column - 1] == 100)
        for picture, (_, row, column) in zip(moved, places.tolist(), strict=True)
    ]
    assert 150 < sum(flipped) < 250


def test_augment_follows_its_generator():
    batch = marked_batch()
    draws = [augment(batch, np.random.default_rng(seed))[0] for seed in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])


# Errors


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"lr": 0.0}, "lr is 0.0; it must be above 0"),
        ({"lr": -1.0e-6}, "lr is -1e-06; it must be above 0"),
        ({"lr": float("nan")}, "lr is nan; it must be above 0"),
        ({"epochs": 0}, "epochs is 0; it must be above 0"),
        ({"batch_size": 0}, "batch_size is 0; it must be above 0"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be above 0"),
        ({"protocol": "code"}, "protocol 'code' is unknown; use 'published' .* or 'described'"),
        ({"target": "labels"}, "target.*'labels'.*'label'.*'predicted'"),
        ({"keep": "best"}, "keep.*'best'.*'last'.*'lowest_validation_loss'"),
    ],
)
def test_bad_setting_is_an_error_before_the_first_step(tmp_path, change, text):
    settings = replace(SETTINGS, **change)
    with pytest.raises(ValueError, match=text):
        check_settings(settings)
    with pytest.raises(ValueError, match=text):
        run(tmp_path / "run", settings, validate=stop)
    assert not (tmp_path / "run").exists()


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


# The learning-rate rule


@pytest.mark.parametrize(
    ("drops", "rising", "chosen"),
    [
        ({1e-6: 0.1, 3e-6: 1.0, 1e-5: 2.0}, (), 1e-5),  # the highest; at the limit still passes
        ({1e-6: 0.1, 3e-6: 1.0, 1e-5: 2.1}, (), 3e-6),
        ({1e-6: 0.1, 3e-6: 1.0, 1e-5: 0.5}, (1e-5,), 3e-6),  # the class term rose
        ({1e-5: -1.0, 1e-6: 5.0}, (), 1e-5),  # a gain is no drop
        ({3e-6: 2.5, 1e-6: 0.0, 1e-5: 0.0}, (1e-5,), 1e-6),
    ],
)
def test_highest_rate_that_does_no_harm(drops, rising, chosen):
    flags = {lr: lr in rising for lr in drops}
    assert choose_learning_rate(drops, flags, limit_pts=2.0) == chosen


@pytest.mark.parametrize(
    ("drops", "rising"), [({1e-5: 3.0, 1e-6: 2.5}, ()), ({1e-6: 0.0}, (1e-6,)), ({}, ())]
)
def test_no_rate_passes(drops, rising):
    text = r"choose_learning_rate: none of \[.*\] keeps validation top-1 within 2.0 points.*lower"
    with pytest.raises(ValueError, match=text):
        choose_learning_rate(drops, {lr: lr in rising for lr in drops}, limit_pts=2.0)


if __name__ == "__main__":
    serve()

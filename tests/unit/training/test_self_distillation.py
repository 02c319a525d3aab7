"""Pretraining by self-distillation, by hand on a 2-layer ViT."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import timm
import torch

from relevit.data import cutouts
from relevit.data.foregrounds import CLASSES
from relevit.data.labelled import Labelled
from relevit.models.checkpoints import read_tensors
from relevit.models.loading import ModelSpec
from relevit.training import self_distillation
from relevit.training.self_distillation import (
    DistillationSettings,
    build_distillation,
    make_views,
    pretrain,
    train_step,
    validation_figures,
)
from relevit.training.unlabelled import make_optimizer

pytestmark = pytest.mark.usefixtures("no_network")

OPTIONS = {"patch_size": 7, "embed_dim": 16, "depth": 2, "num_heads": 2}
HALF = (0.5, 0.5, 0.5)
MICRO = ModelSpec("micro", "vit_tiny_patch16_224", 28, HALF, HALF, OPTIONS)
SETTINGS = DistillationSettings(
    lr=2.0e-3,
    images=40,
    epochs=2,
    batch_size=16,
    global_px=21,
    local_px=14,
    local_crops=2,
    hidden=32,
    bottleneck=16,
    prototypes=32,
    momentum=0.9,
)
RESULT = ("weights.safetensors", "log.jsonl")


@pytest.fixture(scope="module")
def drawn():
    """Pictures to train on and to validate with, for all runs of this file."""
    return {
        name: cutouts.draw(name, range(count), size=28).images
        for name, count in (("train", 400), ("validation", 24))
    }


@pytest.fixture
def sets(drawn):
    return {name: labelled(name, images) for name, images in drawn.items()}


@pytest.fixture
def run(sets):
    def run(folder, settings=SETTINGS, model=None, **changes):
        model = micro_model() if model is None else model
        return pretrain(model, MICRO, settings, folder, **(sets | changes))

    return run


def labelled(name, images):
    labels = torch.zeros(len(images), dtype=torch.long)
    return Labelled(name, CLASSES, labels, lambda wanted: images[list(wanted)])


def micro_model(seed=0, **options):
    torch.manual_seed(seed)
    return timm.create_model(MICRO.timm_name, img_size=28, num_classes=40, **(OPTIONS | options))


def result(folder):
    return {name: (folder / name).read_bytes() for name in RESULT}


def start(settings=SETTINGS):
    """A new pair of student and teacher with its optimiser, at a rate that does not change."""
    model = build_distillation(micro_model(), settings)
    optimizer, rates = make_optimizer(
        model.student, lr=settings.lr, weight_decay=0.0, betas=(0.9, 0.999), steps=10
    )
    rates.step_update(1)
    return model, optimizer


def views_of(images, settings=SETTINGS, seed=0):
    rng = np.random.default_rng(seed)
    return make_views(images, MICRO, settings, rng, like=torch.empty(0))


def state_of(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


# Schedules and views


def test_momentum_rises_as_a_cosine_to_one():
    momenta = [SETTINGS.momentum_at(share) for share in (0, 1 / 3, 0.5, 1)]
    assert momenta == pytest.approx([0.9, 0.925, 0.95, 1.0])


def test_temperature_rises_linearly_and_stays():
    warm = replace(SETTINGS, first_teacher_temperature=0.02, temperature_warmup=0.2)
    found = [warm.temperature_at(share) for share in (0, 0.1, 0.2, 0.9)]
    assert found == pytest.approx([0.02, 0.03, 0.04, 0.04])
    assert SETTINGS.temperature_at(0) == 0.04


def test_views_are_large_ones_and_small_ones(drawn):
    large, small = views_of(drawn["train"][:5])
    assert tuple(large.shape) == (10, 3, 21, 21) and tuple(small.shape) == (10, 3, 14, 14)
    assert large.dtype == torch.float32 and large.min() >= -1 and large.max() <= 1
    again = views_of(drawn["train"][:5])
    assert torch.equal(large, again[0]) and torch.equal(small, again[1])
    assert len(views_of(drawn["train"][:5], replace(SETTINGS, local_crops=0))) == 1


# One step


def test_a_step_moves_student_centre_and_teacher_in_turn(drawn):
    model, optimizer = start()
    before = state_of(model)
    views = views_of(drawn["train"][:8])
    with torch.no_grad():
        taught = model.teacher(views[:1])
    train_step(model, optimizer, views, SETTINGS, progress=0.5)
    after = model.state_dict()
    torch.testing.assert_close(after["centre"], 0.1 * taught.mean(dim=0))
    for name in state_of(model.teacher):
        learned, kept = after[f"student.{name}"], after[f"teacher.{name}"]
        was = before[f"teacher.{name}"]
        torch.testing.assert_close(kept, 0.95 * was + 0.05 * learned)
        assert torch.equal(learned, was) == name.startswith("encoder.head")
    assert all(weights.grad is None for weights in model.teacher.parameters())


def test_prototypes_wait_for_their_share_of_the_steps(drawn):
    model, optimizer = start()
    weight = model.student.projection.prototypes.weight
    before, views = weight.clone(), views_of(drawn["train"][:8])
    train_step(model, optimizer, views, SETTINGS, progress=0.04)
    assert torch.equal(weight, before)
    train_step(model, optimizer, views, SETTINGS, progress=0.06)
    assert not torch.equal(weight, before)


def test_each_gradient_is_cut_to_its_largest_norm(drawn, monkeypatch):
    seen = []
    monkeypatch.setattr(self_distillation, "LARGEST_GRADIENT", 0.01)
    model, optimizer = start()
    weights = [w for name, w in model.student.named_parameters() if ".head." not in f".{name}"]
    monkeypatch.setattr(optimizer, "step", lambda: seen.extend(w.grad.norm() for w in weights))
    train_step(model, optimizer, views_of(drawn["train"][:8]), SETTINGS, progress=0.5)
    norms = torch.stack(seen)
    assert norms.max() <= 0.01 * (1 + 1e-5)
    assert (norms > 0.0099).sum() > 3  # several were longer


def test_steps_on_the_same_images_reduce_the_loss(drawn):
    """From the teacher's own centre; before it is found, all may agree on one prototype."""
    model, optimizer = start()
    with torch.no_grad():
        model.update_centre(model(views_of(drawn["train"][:32]))[1], momentum=0.0)
    losses = [
        train_step(model, optimizer, views_of(drawn["train"][:32], seed=i), SETTINGS, 0.5)
        for i in range(40)
    ]
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.3


# Validation


def test_validation_figures_by_hand_on_equal_images(drawn):
    """Black pictures have black views only: nothing can tell them apart."""
    model, _ = start()
    figures = validation_figures(model, MICRO, torch.zeros_like(drawn["validation"]), SETTINGS)
    assert figures["feature_spread"] == pytest.approx(0, abs=1e-3)
    assert figures["usage_entropy"] == pytest.approx(figures["target_entropy"], abs=1e-3)


def test_validation_figures_tell_images_apart(drawn):
    model, _ = start()
    figures = validation_figures(model, MICRO, drawn["validation"], SETTINGS)
    assert 0.01 < figures["feature_spread"] <= 1
    assert figures["target_entropy"] < figures["usage_entropy"] <= math.log(32)
    assert validation_figures(model, MICRO, drawn["validation"], SETTINGS) == figures


# Runs


def test_log_has_the_losses_and_what_shows_a_collapse(tmp_path, run):
    history = run(tmp_path, replace(SETTINGS, images=200))
    assert [row["epoch"] for row in history] == [0, 1, 2]
    figures = {"validation_loss", "target_entropy", "usage_entropy", "feature_spread"}
    assert set(history[0]) == {"epoch"} | figures
    assert set(history[2]) == {"epoch", "train_loss", "curve"} | figures
    assert len(history[1]["curve"]) == 13
    assert history[2]["feature_spread"] > 0.02


def test_same_seed_same_bytes(tmp_path, run):
    run(tmp_path / "one")
    torch.manual_seed(99)
    model = micro_model()
    states = torch.random.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    run(tmp_path / "two", model=model)
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]  # noqa: NPY002
    run(tmp_path / "other", replace(SETTINGS, seed=1))
    assert result(tmp_path / "one") == result(tmp_path / "two")
    assert result(tmp_path / "one") != result(tmp_path / "other")


def test_stopped_and_resumed_same_bytes(tmp_path, run):
    def stop(row):
        if row["epoch"] == 1:
            raise KeyboardInterrupt

    run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", on_epoch=stop)
    run(tmp_path / "stopped", model=micro_model(seed=7))
    assert result(tmp_path / "stopped") == result(tmp_path / "whole")


def test_shows_each_image_once(tmp_path, run, drawn, sets):
    asked = []

    def read(wanted):
        asked.extend(wanted)
        return drawn["train"][list(wanted)]

    run(tmp_path, train=replace(sets["train"], read=read))
    assert sorted(asked) == list(range(2 * 40))


def test_encoder_ends_as_the_teacher_and_keeps_its_head(tmp_path, run):
    before, model = micro_model().state_dict(), micro_model()
    run(tmp_path, model=model)
    state = model.state_dict()
    same = {name for name, value in state.items() if torch.equal(value, before[name])}
    assert same == {"head.weight", "head.bias"}
    written = read_tensors(tmp_path / "weights.safetensors")[0]
    for name, value in state.items():
        assert torch.equal(value, written[f"teacher.encoder.{name}"])
        assert torch.equal(value, written[f"student.encoder.{name}"]) == (name in same)
    assert all(weights.requires_grad and weights.grad is None for weights in model.parameters())


def test_only_the_student_is_optimised_and_some_are_spared_the_decay(tmp_path, run, monkeypatch):
    seen, step = [], torch.optim.AdamW.step

    def spy(self):
        seen.append([(g["lr"], g["weight_decay"], len(g["params"])) for g in self.param_groups])
        step(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    run(tmp_path)
    spared, decayed = seen[0]
    assert (spared[1], decayed[1]) == (0.0, 0.04)
    # Weights of the patches, 4 in each of 2 blocks, 4 of the projection, the head.
    assert decayed[2] == 1 + 4 * 2 + 4 + 1
    assert len(seen) == 6
    assert [groups[1][0] for groups in seen][:1] == pytest.approx([SETTINGS.lr])
    assert 0 < seen[-1][1][0] < 0.2 * SETTINGS.lr


# Errors


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"global_px": 20}, "global_px 20; it must be a multiple of the patch, which is 7 px"),
        ({"local_px": 0}, "local_px 0; it must be a multiple of the patch"),
        ({"local_crops": -1}, "local_crops -1; it must be at least 0"),
        ({"global_area": (0.0, 1.0)}, r"global_area \(0.0, 1.0\); it must be a smaller and a"),
        ({"local_area": (0.4, 0.1)}, r"local_area \(0.4, 0.1\); it must be a smaller and a"),
        ({"momentum": 1.01}, r"momentum 1.01; it must be a share in 0..1"),
        ({"frozen_prototypes": -0.1}, r"frozen_prototypes -0.1; it must be a share in 0..1"),
        ({"student_temperature": 0.0}, "student_temperature 0.0; it must be a value above 0"),
        ({"prototypes": 1}, "prototypes 1; it must be at least 2"),
        ({"images": 0}, "images 0; it must be at least 1"),
    ],
)
def test_settings_out_of_range_are_errors(tmp_path, run, change, text):
    with pytest.raises(ValueError, match=f"self_distillation: {text}"):
        run(tmp_path, replace(SETTINGS, **change))
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_that_averages_its_patches_is_an_error(tmp_path, run):
    text = r"a VisionTransformer that pools 'avg'; DINO compares class tokens: build the model"
    with pytest.raises(ValueError, match=text):
        run(tmp_path, model=micro_model(global_pool="avg"))


def test_a_distilled_encoder_is_an_error(build_vit):
    with pytest.raises(ValueError, match=r"a VisionTransformerDistilled that pools 'token'"):
        build_distillation(build_vit("distilled"), SETTINGS)


def test_too_few_images_are_an_error(tmp_path, run, drawn):
    text = r"2 epochs of 40 new images need 80; 'few' has 79: take fewer, or a larger set"
    with pytest.raises(ValueError, match=text):
        run(tmp_path, train=labelled("few", drawn["train"][:79]))

"""Pretraining by self-distillation: student, teacher, loss and steps, by hand on a 2-layer ViT."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import timm
import torch
from timm.layers import resample_abs_pos_embed
from torch.nn.functional import normalize

from relevit.data import cutouts
from relevit.data.foregrounds import CLASSES
from relevit.data.labelled import Labelled
from relevit.models.checkpoints import read_tensors
from relevit.models.loading import ModelSpec
from relevit.training import self_distillation
from relevit.training.self_distillation import (
    DistillationSettings,
    Network,
    Projection,
    SelfDistillation,
    build_distillation,
    distillation_loss,
    encode,
    entropy,
    make_views,
    pretrain,
    teacher_targets,
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


# Student, teacher and the loss between them


PLAIN = ("plain", {})
KINDS = [PLAIN, ("layer_scale", {}), ("qk_norm", {}), ("registers", {})]
KINDS += [("plain", {"no_embed_class": True}), ("registers", {"no_embed_class": True})]
SIZES = (8, 6, 10)  # hidden, bottleneck, prototypes


@pytest.fixture
def model(build_vit):
    torch.manual_seed(0)
    return SelfDistillation(build_vit(), *SIZES).double()


@pytest.fixture
def views():
    """Two large views and three small ones of each of four images."""
    random = torch.Generator().manual_seed(4)
    return [torch.randn(4 * n, 3, s, s, generator=random).double() for n, s in ((2, 21), (3, 14))]


def random_outputs(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


# Encoder


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_at_its_own_size_it_is_the_model_itself(build_vit, images, kind, options):
    model = build_vit(kind, **options)
    expected = model.forward_features(images)
    torch.testing.assert_close(encode(model, images), expected, rtol=0, atol=0)


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_at_another_size_it_is_a_model_of_that_size(build_vit, images, kind, options):
    model, small = build_vit(kind, **options), build_vit(kind, img_size=(14, 21), **options)
    state = model.state_dict()
    prefix = state["pos_embed"].shape[1] - 16
    state["pos_embed"] = resample_abs_pos_embed(
        state["pos_embed"], [2, 3], [4, 4], num_prefix_tokens=prefix
    )
    small.load_state_dict(state)
    part = images[:, :, 7:21, :21]
    torch.testing.assert_close(encode(model, part), small.forward_features(part), rtol=0, atol=0)


def test_positions_learn_from_views_of_other_sizes(build_vit, images):
    model = build_vit()
    encode(model, images[:, :, :14, :14])[:, 0].sum().backward()
    assert (model.pos_embed.grad.abs().amax(dim=2) > 0).all()


def test_a_size_in_broken_patches_is_an_error(build_vit, images):
    text = r"teacher: images of 28 x 20 px for patches of 7 px; sides must be multiples"
    with pytest.raises(ValueError, match=text):
        encode(build_vit(), images[:, :, :, :20])


# Head


def test_head_gives_cosines_to_the_prototypes_whatever_their_length():
    torch.manual_seed(1)
    head = Projection(5, *SIZES).double()
    tokens = random_outputs(7, 5)
    cosines = head(tokens)
    places = normalize(head.layers(tokens), dim=1)
    prototypes = head.prototypes.weight
    expected = places @ prototypes.T / prototypes.norm(dim=1)
    torch.testing.assert_close(cosines, expected)
    with torch.no_grad():
        prototypes.mul_(torch.arange(1, 11)[:, None])
    torch.testing.assert_close(head(tokens), cosines)


def test_views_of_several_sizes_give_the_rows_of_each(model, views):
    together = model.student(views)
    torch.testing.assert_close(together, torch.cat([model.student([v]) for v in views]))
    student, taught = model(views)
    assert tuple(student.shape) == (5, 4, 10) and tuple(taught.shape) == (2, 4, 10)
    torch.testing.assert_close(student.flatten(0, 1), together)
    torch.testing.assert_close(taught, student[:2])  # as long as both are equal


# Loss


def test_targets_are_centred_and_sharpened():
    taught, centre = torch.tensor([[[1.0, 0.5]]]), torch.tensor([0.2, 0.1])
    targets = teacher_targets(taught, centre, 0.5)
    first = 1 / (1 + math.exp(-(0.8 - 0.4) / 0.5))
    torch.testing.assert_close(targets, torch.tensor([[[first, 1 - first]]]))


def test_only_the_distance_from_the_centre_counts():
    taught, shift = random_outputs(2, 3, 10), random_outputs(10, seed=1)
    zero = torch.zeros(10).double()
    torch.testing.assert_close(
        teacher_targets(taught + shift, shift, 0.04), teacher_targets(taught, zero, 0.04)
    )
    even = teacher_targets(shift.expand(2, 3, 10), shift, 0.04)
    torch.testing.assert_close(even, torch.full_like(even, 0.1))


def test_equal_distributions_leave_their_entropy():
    same = random_outputs(1, 3, 10)
    targets = teacher_targets(same.expand(2, 3, 10), torch.zeros(10).double(), 0.1)
    loss = distillation_loss(same.expand(6, 3, 10), targets, 0.1)
    torch.testing.assert_close(loss, entropy(targets).mean())


def test_even_students_lose_the_logarithm_of_the_prototypes():
    targets = random_outputs(2, 3, 10).softmax(dim=-1)
    loss = distillation_loss(torch.ones(4, 3, 10).double(), targets, 0.1)
    assert float(loss) == pytest.approx(math.log(10))


def test_loss_is_the_mean_over_pairs_of_different_views():
    student, targets = random_outputs(5, 3, 10), random_outputs(2, 3, 10, seed=1).softmax(dim=-1)
    losses = []
    for large in range(2):
        for view in range(5):
            if view != large:
                predicted = (student[view] / 0.1).softmax(dim=-1)
                losses.append(-(targets[large] * predicted.log()).sum(dim=-1).mean())
    assert len(losses) == 8
    loss = distillation_loss(student, targets, 0.1)
    torch.testing.assert_close(loss, torch.stack(losses).mean())


def test_two_views_are_compared_crosswise():
    student, targets = random_outputs(2, 3, 10), random_outputs(2, 3, 10, seed=1).softmax(dim=-1)
    crossed = -(targets.flip(0) * (student / 0.1).log_softmax(dim=-1)).sum(dim=-1).mean()
    torch.testing.assert_close(distillation_loss(student, targets, 0.1), crossed)


def test_entropy_by_hand():
    distributions = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    torch.testing.assert_close(entropy(distributions), torch.tensor([0.0, math.log(2)]))


# Averages


def test_only_the_student_gets_a_gradient(model, views):
    student, taught = model(views)
    targets = teacher_targets(taught, model.centre, 0.04)
    distillation_loss(student, targets, 0.1).backward()
    assert all(weights.grad is None for weights in model.teacher.parameters())
    without = {name for name, w in model.student.named_parameters() if w.grad is None}
    assert without == {"encoder.head.weight", "encoder.head.bias"}


def test_teacher_is_the_running_average_of_the_student(model):
    with torch.no_grad():
        for weights in model.student.projection.parameters():
            weights.add_(1.0)
    before = {name: value.clone() for name, value in model.teacher.state_dict().items()}
    student = {name: value.clone() for name, value in model.student.state_dict().items()}
    model.update_teacher(0.9)
    for name, value in model.teacher.state_dict().items():
        torch.testing.assert_close(value, 0.9 * before[name] + 0.1 * student[name])
        assert torch.equal(value, before[name]) == name.startswith("encoder")
        assert torch.equal(model.student.state_dict()[name], student[name])


def test_centre_is_the_running_average_of_the_outputs(model):
    first, second = random_outputs(2, 4, 10), random_outputs(2, 4, 10, seed=1)
    model.update_centre(first, 0.9)
    model.update_centre(second, 0.9)
    means = [outputs.mean(dim=(0, 1)) for outputs in (first, second)]
    torch.testing.assert_close(model.centre, 0.09 * means[0] + 0.1 * means[1])


def test_student_starts_as_an_equal_copy(model):
    assert isinstance(model.teacher, Network)
    for kept, learned in zip(model.teacher.parameters(), model.student.parameters(), strict=True):
        assert torch.equal(kept, learned) and kept is not learned


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

"""Student, teacher and the loss between them, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from timm.layers import resample_abs_pos_embed
from torch.nn.functional import normalize

from relevit.training.self_distillation import (
    Network,
    Projection,
    SelfDistillation,
    distillation_loss,
    encode,
    entropy,
    teacher_targets,
)

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

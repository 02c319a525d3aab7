"""Where a model looks, whether its answer is right, and how much lies on the object."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from habitats.drawings import CLASSES
from habitats.pairs import draw_pairs
from relevit.attribution import explain
from relevit.data.batch import Batch
from relevit.evaluate.looking import (
    RIGHT,
    WRONG,
    Look,
    foreground_iou_pct,
    look,
    look_rows,
    most_moved,
    own_share_pct,
    pointing_table,
)

from ..micro_finetuning import SPEC, micro_model, pictures


@pytest.fixture(scope="module")
def model():
    return micro_model().eval()


@pytest.fixture(scope="module")
def batch():
    return pictures("val", 4)


def test_any_accepted_answer_is_right_and_an_unknown_label_has_none(model, batch):
    plain = look(model, SPEC, batch, CLASSES)
    answer = int(plain.predictions[0])
    other = (answer + 1) % 40
    labels = torch.tensor([answer, other, other, -1])
    same = replace(batch, images=batch.images[:1].expand(4, -1, -1, -1), labels=labels)
    assert look(model, SPEC, same, CLASSES).colours == [RIGHT, WRONG, WRONG, WRONG]
    accepting = replace(same, accepted={other: (other, answer)})
    assert look(model, SPEC, accepting, CLASSES).colours == [RIGHT, RIGHT, RIGHT, WRONG]


def test_a_candidate_is_answered_and_explained(model, batch):
    plain = look(model, SPEC, batch, CLASSES)
    among = tuple(sorted(set(range(40)) - set(plain.predictions.tolist())))
    seen = look(model, SPEC, replace(batch, candidates=among), CLASSES)
    assert set(seen.predictions.tolist()) <= set(among)
    pixels = SPEC.normalise(batch.images)
    with torch.no_grad():
        shares = model(pixels)[:, list(among)].softmax(dim=1)
    assert torch.allclose(seen.confidence_pct, 100 * shares.amax(dim=1))
    maps = explain(model, pixels, seen.predictions)
    assert torch.equal(seen.heatmaps, maps)
    left = copy.deepcopy(model).train()  # what is asked in this mode would differ by its dropout
    for part in left.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    assert not torch.equal(left(pixels), left(pixels))
    again = look(left, SPEC, replace(batch, candidates=among), CLASSES)
    assert left.training and torch.equal(again.heatmaps, maps)


def test_an_image_is_answered_and_explained_in_one_pass(model, batch):
    passes = []
    with model.register_forward_hook(lambda *_: passes.append(1)):
        look(model, SPEC, batch, CLASSES)
    assert len(passes) == 1


def test_what_has_moved_most_is_sought_among_those_that_are_seen(model, batch):
    seen = look(model, SPEC, batch, CLASSES)
    after = replace(seen, on_object_pct=seen.on_object_pct + torch.tensor([9.0, 1.0, 5.0, 3.0]))
    assert most_moved(seen, after, None) == 0
    assert most_moved(seen, after, torch.tensor([0.2, 1.0, 0.3, 0.9])) == 3


# One row an image, on heatmaps made by hand


def case(heat, mask):
    """A look at one image of 2 x 2 pixels."""
    heat = torch.tensor(heat).view(1, 1, 2, 2)
    mask = torch.tensor(mask, dtype=torch.bool).view(1, 1, 2, 2)
    one = torch.tensor([3])
    share = 100 * (heat * mask).sum().reshape(1) / heat.sum()
    seen = Look(heat, one, torch.tensor([95.0]), torch.tensor([40.0]), share, ["t"], ["c"])
    images = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
    return seen, Batch(images=images, masks=mask, labels=one, families=one)


@pytest.mark.parametrize(
    ("heat", "mask", "on_object", "covered"),
    [
        ([1.0, 1.0, 0.0, 0.0], [1, 1, 0, 0], 100.0, 100.0),
        ([0.0, 0.0, 1.0, 1.0], [1, 1, 0, 0], 0.0, 0.0),
        ([1.0, 0.0, 0.0, 0.0], [1, 1, 0, 0], 100.0, 50.0),
        ([1.0, 1.0, 0.0, 0.0], [0, 0, 0, 0], 0.0, 0.0),
    ],
)
def test_shares_of_the_relevance_and_of_the_object(heat, mask, on_object, covered):
    (row,) = look_rows(*case(heat, mask), "val").to_dict("records")
    assert row["on_object_pct"] == on_object and row["covered_pct"] == covered
    assert (row["dataset"], row["index"], row["label"], row["prediction"]) == ("val", 0, 3, 3)
    assert (row["confidence_pct"], row["iou_pct"]) == (95.0, 40.0)


def test_overlap_is_of_the_heatmap_cut_at_its_own_mean():
    upper, left = torch.zeros(2, 4, 4)
    upper[:2], left[:, :2] = 1, 1
    heat = torch.stack([upper, 1 - upper, left, torch.full((4, 4), 0.5), upper + left / 2])
    masks = (upper > 0).expand(5, 1, 4, 4)
    # Of the last only 1.5 and 1.0 are above its mean of 0.75: the whole upper half.
    expected = torch.tensor([100.0, 0.0, 100 * 4 / 12, 0.0, 100.0])
    torch.testing.assert_close(foreground_iou_pct(heat[:, None], masks), expected)
    torch.testing.assert_close(foreground_iou_pct(9 * heat[:, None], masks), expected)
    nothing = torch.zeros(1, 1, 2, 2)
    assert foreground_iou_pct(nothing, nothing.bool()).tolist() == [0.0]


# Images with two objects, and the pointing game between them


@pytest.fixture(scope="module")
def pairs():
    return draw_pairs(12, seed=3)


def test_objects_do_not_touch_and_are_no_look_alikes(pairs):
    assert len(pairs) == 12 and pairs.images.shape == (12, 3, 112, 112)
    assert not pairs.masks.all(dim=1).any()
    assert pairs.masks.flatten(2).any(dim=2).all()
    assert (pairs.labels[:, 0] // 2 != pairs.labels[:, 1] // 2).all()


def test_pointing_game(pairs):
    right = torch.nn.functional.avg_pool2d(pairs.masks.float(), 14).flatten(2)
    maps = {"right": right, "wrong": right.flip(1), "blind": right[:, :1].expand(-1, 2, -1)}
    table = pointing_table(pairs, maps, (8, 8))
    assert table["own_object_pct"].tolist() == [100.0, 0.0, 50.0]
    assert table["images"].tolist() == [24, 24, 24]
    # The blind one is right once in every image, so that images say the same; of those that are all
    # right or all wrong it is Wilson's interval.
    assert table["low_pct"].tolist() == pytest.approx([75.75, 0.0, 50.0], abs=0.01)
    assert table["high_pct"].tolist() == pytest.approx([100.0, 24.25, 50.0], abs=0.01)


def test_interval_is_over_images_whose_two_maps_go_together():
    """As wide as Student's, of the images' means; that of single maps is narrower."""
    own = torch.tensor([[1, 1], [0, 0], [1, 1], [1, 0], [0, 1], [1, 1]] * 20).bool()
    share, low, high = own_share_pct(own)
    means = own.double().mean(dim=1)
    assert share == pytest.approx(100 * means.mean().item())
    assert high - low == pytest.approx(2 * 198.01 * (means.var() / 120).sqrt().item(), rel=1e-4)

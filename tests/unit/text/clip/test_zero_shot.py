"""Zero-shot answers against chance, and the perturbation test on prompts."""

from dataclasses import replace

import pytest
import torch

from relevit.data.batch import Batch
from relevit.text.clip.dual import CLIP_METHODS
from reproduction.language.encoders import Encoder
from reproduction.language.zero_shot import right_answers, zero_shot_perturbation, zero_shot_table

from .replica import TEXTS


class Small(Encoder):
    """Its prompts stand for the replica's tokens."""

    def texts(self):
        return self.dual.embed_texts(TEXTS)


@pytest.fixture(scope="module")
def encoder(single):
    return Small(single, None, ("one", "two", "three"))


def test_answers_are_sought_among_the_prompts_and_unknown_classes_left_out(encoder, batch):
    known = replace(batch, labels=torch.where(batch.labels == batch.labels[1], -1, batch.labels))
    right = right_answers(encoder, [known])
    assert len(right) == int((known.labels >= 0).sum())
    (row,) = zero_shot_table(encoder, torch.tensor([True, True, True, False])).itertuples()
    assert (row.images, row.accuracy_pct, row.chance_pct) == (4, 75, pytest.approx(100 / 3))
    assert row.low_pct < 75 < row.high_pct


@pytest.fixture(scope="module")
def batch(encoder):
    """Images whose right class is the predicted one for half of them."""
    pixels = torch.randint(0, 256, (4, 3, 28, 28), generator=torch.Generator().manual_seed(2))
    pixels = pixels.to(torch.uint8)
    found = encoder.classifier()(encoder.dual.spec.normalise(pixels)).argmax(dim=1)
    labels = (found + torch.tensor([0, 1, 0, 1])) % 3
    masks = torch.ones(4, 1, 28, 28, dtype=torch.bool)
    return Batch(pixels, masks, labels, torch.full((4,), -1))


def test_perturbation_of_both_targets(encoder, batch):
    rows, areas = zero_shot_perturbation(encoder, batch)
    assert areas.groupby(["method", "target", "direction"]).size().tolist() == [1] * 28
    # As the claims read it.
    assert set(areas["target"]) == {"predicted", "target"}
    assert tuple(areas["method"].unique()) == CLIP_METHODS
    # On images that are answered rightly both targets are the same map.
    first = rows[(rows["index"] == 0) & (rows["method"] == "gae")]
    pair = [first[first["target"] == name]["logit"].tolist() for name in ("predicted", "label")]
    assert pair[0] == pair[1]
    wrong = rows[(rows["index"] == 1) & (rows["share_pct"] == 0) & (rows["method"] == "gae")]
    assert wrong.groupby("target")["logit"].first().nunique() == 2


def test_the_end_of_the_curve_is_measured_as_published_and_left_out_as_described(encoder, batch):
    """On the mean colour alone one class is answered, and that one is right for some labels."""
    answers = encoder.classifier()(torch.zeros(1, 3, 28, 28))
    answer = answers.argmax().item()
    labels = torch.tensor([answer, answer, (answer + 1) % 3, (answer + 2) % 3])
    labelled = replace(batch, labels=labels)
    for protocol, last in (("published", 100), ("described", 90)):
        rows, areas = zero_shot_perturbation(encoder, labelled, protocol=protocol)
        rows = rows[(rows["target"] == "predicted") & (rows["method"] == "rollout")]
        own = areas[(areas["target"] == "predicted") & (areas["method"] == "rollout")]
        own = own.set_index("direction")["auc_pct"]
        for direction, part in rows.groupby("direction"):
            curve = 100 * part.groupby("share_pct")["hit"].mean()
            assert curve.index.tolist() == list(range(0, last + 1, 10))
            if protocol == "published":
                ends = part[part["share_pct"] == 100]["top_logit"].tolist()
                assert ends == pytest.approx([answers.max().item()] * 4, rel=1e-4)
                assert curve[100] == 50
                by_hand = (curve.sum() - curve[0] / 2 - curve[100] / 2) / 10
            else:
                by_hand = curve.drop(0).mean()  # "averaged over the masked inputs" (E6)
            assert own[direction] == pytest.approx(by_hand)

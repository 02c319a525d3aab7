"""Zero-shot answers against chance, the perturbation test on prompts, and words of captions."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from relevit.data.batch import Batch
from relevit.text.clip.dual import CLIP_METHODS
from reproduction.language.words import word_table
from reproduction.language.zero_shot import erased_group, zero_shot_perturbation, zero_shot_rows

from ..builders import spelled


@pytest.mark.parametrize("whole", [False, True])
def test_answers_are_sought_in_a_group_and_counted_by_class(cfg, encoder, whole):
    """Class 0 is always right, class 1 never; there are three times as many images of 0."""
    groups = {"all": range(4)} if whole else {"seen": [0, 1], "unseen": [2, 3]}
    encoder = replace(encoder, groups=groups)
    texts = encoder.texts()
    table = zero_shot_rows(
        cfg, encoder, texts[[0, 0, 0, 0, 2, 3]], torch.tensor([0, 0, 0, 1, 2, 3])
    )
    right = [500 / 6] if whole else [50, 100]  # without every class over images
    assert table["accuracy_pct"].tolist() == pytest.approx(right)
    assert table["chance_pct"].tolist() == [100 / len(part) for part in groups.values()]
    assert table["images"].tolist() == ([6] if whole else [4, 2]) and (table["seed"] == 1).all()
    if not whole:
        assert table.loc[0, ["low_pct", "high_pct"]].tolist() == [0.0, 100.0]


def test_unseen_classes_are_erased_only_where_they_are_known():
    def table(low):
        rows = [(0, "seen", 90.0, 5.0), (0, "unseen", low, 5.0)]
        return pd.DataFrame(rows, columns=["seed", "classes", "low_pct", "chance_pct"])

    assert erased_group(table(5.0), 0) == "seen"
    assert erased_group(table(5.1), 0) == "unseen"
    assert erased_group(table(5.1).replace("seen", "all"), 0) == "all"


@pytest.fixture(scope="module")
def batch(single, single_side):
    """Images whose right class is the predicted one for half of them."""
    pixels = torch.randint(0, 256, (4, 3, 28, 28), generator=torch.Generator().manual_seed(2))
    pixels = pixels.to(torch.uint8)
    found = single_side(single.spec.normalise(pixels)).argmax(dim=1)
    labels = (found + torch.tensor([0, 1, 0, 1])) % 3
    masks = torch.ones(4, 1, 28, 28, dtype=torch.bool)
    return Batch(pixels, masks, labels, torch.full((4,), -1))


def erase(cfg, dual, side, batch, protocol="published"):
    cfg = cfg.model_copy(update={"protocol": protocol})
    return zero_shot_perturbation(cfg, side, dual.spec, "seen", batch)


def test_perturbation_of_both_targets(cfg, single, single_side, batch):
    rows, areas = erase(cfg, single, single_side, batch)
    assert areas.groupby(["method", "target", "direction"]).size().tolist() == [1] * 28
    # As the claims read it.
    assert set(areas["target"]) == {"predicted", "target"} and (areas["classes"] == "seen").all()
    assert tuple(areas["method"].unique()) == CLIP_METHODS
    # On images that are answered rightly both targets are the same map.
    first = rows[(rows["index"] == 0) & (rows["method"] == "gae")]
    pair = [first[first["target"] == name]["logit"].tolist() for name in ("predicted", "label")]
    assert pair[0] == pair[1]
    wrong = rows[(rows["index"] == 1) & (rows["share_pct"] == 0) & (rows["method"] == "gae")]
    assert wrong.groupby("target")["logit"].first().nunique() == 2


def test_the_end_of_the_curve_is_measured_as_published_and_left_out_as_described(
    cfg, single, single_side, batch
):
    """On the mean colour alone one class is answered, and that one is right for some labels."""
    answers = single_side(torch.zeros(1, 3, 28, 28))
    answer = answers.argmax().item()
    labels = torch.tensor([answer, answer, (answer + 1) % 3, (answer + 2) % 3])
    labelled = replace(batch, labels=labels)
    for protocol, last in (("published", 100), ("described", 90)):
        rows, areas = erase(cfg, single, single_side, labelled, protocol)
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


def test_words_of_a_caption_by_kind():
    first = spelled("a red lobster on grit", "a", "red", "lob", "ster", "on", "grit")
    second = spelled("a red cat", "a", "red", "cat")
    maps = [
        torch.tensor([0, 0, 1, 3, 4, 0, 2, 0.0]),
        torch.tensor([0, 1, 3, -5, 0.0]),
        torch.zeros(5),  # nothing positive: left out
    ]
    table = word_table([first, second, second], maps).set_index("kind")
    assert table["tokens"].to_dict() == {"class": 3, "colour": 2, "background": 0, "other": 4}
    shares = {"class": 35, "colour": 42.5, "background": 0, "other": 22.5}
    assert table["share_pct"].to_dict() == pytest.approx(shares)
    assert table["highest_pct"].tolist() == [50, 50, 0, 0]

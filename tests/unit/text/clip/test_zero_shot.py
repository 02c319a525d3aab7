"""Zero-shot answers against chance, and the perturbation test on prompts."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from relevit.data.batch import Batch
from relevit.data.foregrounds import class_split
from relevit.evaluate.perturbation import auc_weights
from relevit.text.clip.dual import CLIP_METHODS
from relevit.text.clip.encoders import Encoder
from relevit.text.clip.joining import examples
from relevit.text.clip.zero_shot import (
    TARGETS,
    embed_batches,
    erased_group,
    erased_images,
    projected,
    published_zero_shot_perturbation,
    zero_shot_hits,
    zero_shot_perturbation,
    zero_shot_rows,
    zero_shot_table,
)

from .replica import TEXTS

CORNERS = torch.eye(4)  # a text for each of four classes


def test_answers_are_sought_among_the_candidates_alone():
    images = torch.tensor([[0.5, 0.9, 0.1, 0.4], [0.0, 0.0, 0.1, 0.2]])
    labels = torch.tensor([0, 3])
    assert zero_shot_hits(images, CORNERS, labels, [0, 1, 2, 3]).tolist() == [False, True]
    assert zero_shot_hits(images, CORNERS, labels, [3, 0]).tolist() == [True, True]
    with pytest.raises(ValueError, match=r"labels \[3\] are not among the candidates \[0, 1\]"):
        zero_shot_hits(images, CORNERS, labels, [0, 1])
    with pytest.raises(ValueError, match="not among the 4 texts"):
        zero_shot_hits(images, CORNERS, labels, [0, 3, 4])


def test_table_counts_classes_and_not_images():
    """Class 0 is always right, class 1 never; there are three times as many images of 0."""
    images = torch.cat([CORNERS[[0, 0, 0]], CORNERS[[0]], CORNERS[[2, 3]]])
    labels = torch.tensor([0, 0, 0, 1, 2, 3])
    table = zero_shot_table(images, CORNERS, labels, {"seen": [0, 1], "all": [0, 1, 2, 3]})
    assert table["accuracy_pct"].tolist() == [50.0, 75.0]  # by images: 75 and 83
    assert table["chance_pct"].tolist() == [50.0, 25.0]
    assert table["images"].tolist() == [4, 6] and table["classes"].tolist() == [2, 4]
    assert (table["low_pct"] <= table["accuracy_pct"]).all()
    assert table.loc[0, ["low_pct", "high_pct"]].tolist() == [0.0, 100.0]


def test_groups_without_classes_or_images_are_refused():
    labels = torch.tensor([0, 1])
    with pytest.raises(ValueError, match=r"'unseen' of 2 classes, without images: \[3\]"):
        zero_shot_table(CORNERS[:2], CORNERS, labels, {"unseen": [1, 3]})
    with pytest.raises(ValueError, match="'one' of 1 classes"):
        zero_shot_table(CORNERS[:2], CORNERS, labels, {"one": [1]})


@pytest.fixture(scope="module")
def batch(random_dual):
    """Images whose right class is the predicted one for half of them."""
    images = torch.randint(0, 256, (4, 3, 28, 28), generator=torch.Generator().manual_seed(2))
    images = images.to(torch.uint8)
    found = random_dual.similarities(random_dual.spec.normalise(images), TEXTS).argmax(dim=1)
    labels = (found + torch.tensor([0, 1, 0, 1])) % 3
    masks = torch.ones(4, 1, 28, 28, dtype=torch.bool)
    return Batch(images, masks, labels, torch.full((4,), -1))


def test_perturbation_of_both_targets(random_dual, batch):
    classifier = random_dual.image_classifier(random_dual.embed_texts(TEXTS))
    methods = ("gae", "token_wise")
    rows, areas = zero_shot_perturbation(classifier, random_dual.spec, batch, methods)
    assert list(areas["method"].unique()) == list(methods)
    assert areas.groupby(["method", "target", "direction"]).size().tolist() == [1] * 8
    assert tuple(rows["target"].unique()) == TARGETS
    # On images that are answered rightly both targets are the same map.
    one = rows[(rows["index"] == 0) & (rows["method"] == "gae")]
    pair = [one[one["target"] == target]["logit"].to_numpy() for target in TARGETS]
    assert (pair[0] == pair[1]).all()
    wrong = rows[(rows["index"] == 1) & (rows["share_pct"] == 0) & (rows["method"] == "gae")]
    assert wrong.groupby("target")["logit"].first().nunique() == 2


@pytest.mark.parametrize(("options", "colour"), [({}, "mean"), ({"fill": "black"}, "black")])
def test_everything_erased_leaves_the_mean_colour_as_published(random_dual, batch, options, colour):
    classifier = random_dual.image_classifier(random_dual.embed_texts(TEXTS))
    rows, _ = zero_shot_perturbation(
        classifier, random_dual.spec, batch, ["raw_attention"], shares_pct=[100], **options
    )
    left = torch.zeros(1, 3, 28, 28)
    if colour == "black":
        left = random_dual.spec.normalise(left.to(torch.uint8))
    expected = classifier(left).max().item()
    answers = rows[rows["share_pct"] == 100]["top_logit"]
    assert answers.tolist() == pytest.approx([expected] * 16, rel=1e-4)


def test_the_end_of_the_curve_is_measured_as_published(random_dual, batch):
    """On the mean colour alone one class is answered, and that one is right for some labels."""
    classifier = random_dual.image_classifier(random_dual.embed_texts(TEXTS))
    answer = classifier(torch.zeros(1, 3, 28, 28)).argmax().item()
    labels = torch.tensor([answer, answer, (answer + 1) % 3, (answer + 2) % 3])
    labelled = Batch(batch.images, batch.masks, labels, batch.families)
    rows, areas = zero_shot_perturbation(classifier, random_dual.spec, labelled, ["rollout"])
    by_share = rows[rows["target"] == "predicted"].groupby(["direction", "share_pct"])["hit"].mean()
    for direction in ("positive", "negative"):
        curve = 100 * by_share[direction]
        assert curve.index.tolist() == list(range(0, 101, 10)) and curve[100] == 50
        by_hand = (curve.sum() - curve[0] / 2 - curve[100] / 2) / 10
        own = areas[(areas["direction"] == direction) & (areas["target"] == "predicted")]
        assert own["auc_pct"].item() == pytest.approx(by_hand)


def test_the_area_is_the_mean_over_the_masked_inputs_as_described(random_dual, batch):
    """Its text averages over the masked inputs (differences E6); no end is set to 0."""
    classifier = random_dual.image_classifier(random_dual.embed_texts(TEXTS))
    rows, areas = zero_shot_perturbation(
        classifier, random_dual.spec, batch, ["rollout"], protocol="described"
    )
    assert rows["share_pct"].max() == 90
    own = rows[(rows["target"] == "label") & (rows["share_pct"] > 0)]
    expected = 100 * own.groupby("direction", sort=False)["hit"].mean()
    found = areas[areas["target"] == "label"]["auc_pct"].tolist()
    assert found == pytest.approx(expected.tolist())


def test_measured_areas_by_hand():
    assert auc_weights([0, 50, 100], "measured").tolist() == [0.25, 0.5, 0.25]
    assert auc_weights([0, 100], "measured").tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match=r"shares are \[0, 50\]; .*100 for rule 'measured'"):
        auc_weights([0, 50], "measured")


@pytest.mark.wrong_types
def test_areas_that_cannot_be_measured_are_refused_before_any_work():
    with pytest.raises(ValueError, match="100 for rule 'measured'"):
        zero_shot_perturbation(None, None, None, ["gae"], shares_pct=[50])


@pytest.mark.wrong_types
def test_methods_without_a_rule_for_clip_are_refused_before_any_work(random_dual, batch):
    with pytest.raises(ValueError, match=r"zero_shot: methods \['lrp'\] are not for CLIP"):
        zero_shot_perturbation(None, random_dual.spec, batch, ["gae", "lrp"])


def test_published_table():
    table = published_zero_shot_perturbation().set_index(["method", "direction", "target"])
    values = table["auc_pct"]
    assert values["token_wise", "negative", "label"] == 37.10
    assert values["ga", "negative", "label"] == 37.09
    assert values["raw_attention", "positive", "predicted"] == 14.11
    assert set(table.index.get_level_values("method")) == set(CLIP_METHODS) - {"gae"}
    assert len(table) == 20


# As the parameters of 12_clip ask for it


def test_features_run_once_are_those_of_the_encoder(towers, encoder, shown):
    once = projected(encoder, examples(towers, shown))
    directly, labels = embed_batches(encoder.dual, shown.batch.split(30))
    torch.testing.assert_close(once, directly)
    assert torch.equal(labels, shown.batch.labels)


def test_images_without_a_class_are_left_out(encoder, shown):
    part = shown.batch.select(range(4))
    part.labels[1] = -1
    features, labels = embed_batches(encoder.dual, [part])
    assert len(features) == 3 and labels.tolist() == [0, 2, 3]
    part.labels[:] = -1
    with pytest.raises(ValueError, match="no image with a known class; choose other held_out"):
        embed_batches(encoder.dual, [part])


def test_zero_shot_has_the_columns_of_the_claims(cfg, encoder, shown):
    features, labels = embed_batches(encoder.dual, shown.batch.split(40))
    table = zero_shot_rows(cfg, encoder, features, labels)
    assert table["classes"].tolist() == ["seen", "unseen"] and (table["seed"] == 1).all()
    assert table["chance_pct"].tolist() == [5, 5] and table["images"].tolist() == [40, 40]


def test_of_classes_without_an_image_the_mean_is_over_images(cfg, encoder):
    encoder = Encoder(encoder.dual, encoder.tokenizer, encoder.prompts, {"all": range(40)})
    texts = encoder.texts()
    labels = torch.tensor([0, 0, 0, 5])
    table = zero_shot_rows(cfg, encoder, texts[[0, 0, 0, 6]], labels)
    row = table.iloc[0]
    assert (row["accuracy_pct"], row["chance_pct"], row["candidates"]) == (75, 2.5, 40)


def test_unseen_classes_are_erased_only_where_they_are_known():
    def table(low):
        rows = [(0, "seen", 90.0, 5.0), (0, "unseen", low, 5.0)]
        return pd.DataFrame(rows, columns=["seed", "classes", "low_pct", "chance_pct"])

    assert erased_group(table(5.0), 0) == "seen"
    assert erased_group(table(5.1), 0) == "unseen"
    assert erased_group(table(5.1).replace("seen", "all"), 0) == "all"


def test_erased_images_are_of_the_group_with_places_for_labels(cfg, encoder, shown):
    classifier, batch = erased_images(cfg, encoder, "unseen", shown.batch)
    unseen = class_split(1)[1]
    assert classifier.head.out_features == 20 and len(batch) == 3
    assert [unseen[i] for i in batch.labels.tolist()] == unseen[:3]

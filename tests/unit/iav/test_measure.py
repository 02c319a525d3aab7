"""What 07_iav measures in a finetuned model: explanations, and the tables made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from relevit.attribution import METHODS
from relevit.data.cutouts import CUTOUTS
from relevit.iav import class_attention, class_structure, global_iav, measure
from relevit.iav.measure import (
    Explainer,
    chance_table,
    entropy_table,
    follow_epochs,
    object_share_pct,
    score_table,
    space_table,
)
from relevit.iav.runs import compared_runs, drawn_to_explain, finetune_run

from ..micro_iav import PATCHES, SIZE, micro_models, params, write_backbones

pytestmark = pytest.mark.usefixtures("no_network")

EXPLAINER = Explainer(methods=("smoothgrad", "gradcam"), draws=3, chunk=7)
LAYERS, HEADS, IMAGES, EPOCHS = 2, 2, 12, 3
RUN = ["model", "kind", "seed"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model that was finetuned for three epochs."""
    with micro_models():
        cfg = params(tmp_path_factory.mktemp("outputs"), models=["mini-dino"], epochs=EPOCHS)
        write_backbones(cfg)
        (run,) = compared_runs(cfg)
        finetune_run(cfg, run)
        yield run


@pytest.fixture(scope="module")
def model(run):
    return run.load(EPOCHS, "cpu")


@pytest.fixture(scope="module")
def pictures():
    return drawn_to_explain(CUTOUTS, IMAGES, SIZE, classes=4)


@pytest.fixture(scope="module")
def found(run, model, pictures):
    return EXPLAINER(model, run.spec, pictures)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


# Explaining


def test_explanation_holds_what_its_parts_give(run, model, pictures, found):
    pixels = run.spec.normalise(pictures.images)
    close(found.attention, class_attention(model, pixels))
    named = {"draws": 3, "noise": 0.15, "seed": 0, "protocol": "described"}
    close(found.maps["smoothgrad"], METHODS["smoothgrad"](model, pixels, pictures.labels, **named))
    gradcam = METHODS["gradcam"](model, pixels, pictures.labels, protocol="described")
    close(found.maps["gradcam"], gradcam.detach())
    assert found.attention.shape == (IMAGES, LAYERS, HEADS, PATCHES)
    tensors = [found.attention, *found.maps.values()]
    assert {values.dtype for values in tensors} == {torch.float32}
    assert not any(values.requires_grad or values.is_inference() for values in tensors)
    assert (found.maps["gradcam"] == 0).any(), "what spoke against the class is cut off"


@pytest.mark.parametrize(("chunk", "part"), [(1, 25), (100, 25), (7, 1), (7, 5)])
def test_chunks_and_parts_do_not_matter(run, model, pictures, found, monkeypatch, chunk, part):
    monkeypatch.setattr(measure, "PART", part)
    told = []
    other = replace(EXPLAINER, chunk=chunk)(model, run.spec, pictures, told.append)
    assert sum(told) == IMAGES and max(told) <= part
    close(other.attention, found.attention)
    for name, values in found.maps.items():
        close(other.maps[name], values)


def test_true_or_predicted_class_is_explained(run, model, pictures, found):
    with torch.no_grad():
        predicted = model(run.spec.normalise(pictures.images)).argmax(dim=1)
    right = predicted == pictures.labels
    assert 0 < right.sum() < IMAGES, "this test needs both"
    other = replace(EXPLAINER, label="predicted")(model, run.spec, pictures)
    equal = (other.maps["smoothgrad"] == found.maps["smoothgrad"]).all(dim=1)
    assert torch.equal(equal, right)


def test_reduced_precision_rounds_smoothgrad_alone(run, model, pictures, found):
    rounded = replace(EXPLAINER, precision="bfloat16")(model, run.spec, pictures)
    assert rounded.maps["smoothgrad"].dtype == torch.float32
    assert not torch.equal(rounded.maps["smoothgrad"], found.maps["smoothgrad"])
    torch.testing.assert_close(
        rounded.maps["smoothgrad"], found.maps["smoothgrad"], rtol=0.2, atol=1e-3
    )
    assert torch.equal(rounded.maps["gradcam"], found.maps["gradcam"])
    assert torch.equal(rounded.attention, found.attention)


# Of an explanation


def test_any_map_can_be_held_against_the_heads_and_shown(found):
    mask = torch.eye(PATCHES)[:IMAGES]
    more = found.held_against("mask", mask)
    assert list(more.maps) == ["smoothgrad", "gradcam", "mask"] and "mask" not in found.maps
    length = found.attention.norm(dim=-1)
    alone = torch.stack([found.attention[i, :, :, i] / length[i] for i in range(IMAGES)])
    close(more.scores("mask"), alone)
    few = more.first(5).named({"mask": "object mask"})
    assert list(few.maps) == ["object mask"]
    assert torch.equal(few.scores("object mask"), more.scores("mask")[:5])


# Tables


AXES = {
    "scores": [*RUN, "map", "image", "layer", "head"],
    "slopes": [*RUN, "map"],
    "epochs": [*RUN, "epoch", "layer", "head"],
    "drift": [*RUN, "epoch", "quantity"],
    "masking": [*RUN, "order", "ratio_pct"],
    "entropy": [*RUN, "image", "layer", "head"],
    "space": [*RUN, "layer"],
}


def check_contract(table, name):
    """The axes that the claims read, each row once, and finite numbers."""
    assert not table.duplicated(AXES[name]).any()
    numbers = table.select_dtypes("float").drop(columns="object_share_pct", errors="ignore")
    assert np.isfinite(numbers.to_numpy()).all()
    assert set(table["model"]) == {"mini-dino"} and set(table["kind"]) == {"self-supervised"}


def test_scores_table(run, found, pictures):
    scores = {name: found.scores(name) for name in found.maps}
    table = score_table(run, scores, pictures.labels)
    assert list(table.columns) == [*RUN, "map", "image", "label", "layer", "head", "score"]
    assert len(table) == 2 * IMAGES * LAYERS * HEADS
    check_contract(table, "scores")
    row = table.set_index(["map", "image", "layer", "head"]).loc["gradcam", 3, 2, 1]
    assert row["score"] == float(found.scores("gradcam")[3, 1, 0])
    assert row["label"] == int(pictures.labels[3])


def test_chance_table(run, found):
    table = chance_table(run, found)
    layers = found.attention.shape[1]
    assert list(table) == ["model", "kind", "seed", "layer", "score", "uniform", "centred"]
    assert list(table["layer"]) == list(range(1, layers + 1))
    scores = found.scores("smoothgrad")
    assert table["score"].iloc[0] == pytest.approx(float(scores[:, 0].mean()))
    assert table["uniform"].nunique() == 1
    assert (table["centred"] < table["score"]).all()


def test_entropy_table(run, pictures):
    """Uniform attention has log N nats, one patch has none."""
    attention = torch.full((IMAGES, LAYERS, HEADS, PATCHES), 1 / PATCHES)
    attention[2, 1, 0] = torch.eye(PATCHES)[4]
    share = object_share_pct(pictures)
    table = entropy_table(run, attention, share)
    assert list(table.columns) == [*RUN, "image", "layer", "head", "entropy", "object_share_pct"]
    check_contract(table, "entropy")
    one = (table["image"] == 2) & (table["layer"] == 2) & (table["head"] == 1)
    assert table.loc[one, "entropy"].item() == 0
    np.testing.assert_allclose(table.loc[~one, "entropy"], np.log(PATCHES), rtol=1e-6)
    assert (table["object_share_pct"] == share.numpy()[table["image"]]).all()


def test_object_share_by_hand(pictures):
    masks = torch.zeros(2, 1, SIZE, SIZE, dtype=torch.bool)
    masks[0, :, : SIZE // 2, : SIZE // 2] = True
    two = pictures.select([0, 1])
    assert object_share_pct(replace(two, masks=masks)).tolist() == [25.0, 0.0]
    assert object_share_pct(replace(two, masks=masks & False)).isnan().tolist() == [True, True]


def test_space_table(run, found, pictures):
    scores = found.scores("smoothgrad")
    table = space_table(run, scores, pictures.labels)
    assert list(table.columns) == [*RUN, "layer", "silhouette", "knn_pct", "chance_pct"]
    check_contract(table, "space")
    assert table["layer"].tolist() == [1, 2]
    second = class_structure(scores[:, 1], pictures.labels, 2)
    assert table.iloc[1, 4:].tolist() == list(second)
    assert table["chance_pct"].tolist() == pytest.approx([100 * 2 / 11] * 2)
    few = space_table(run, scores[:8], pictures.labels[:8])
    assert few["chance_pct"].tolist() == pytest.approx([100 / 7] * 2)


def test_other_classes_do_not_outvote_a_small_one(run):
    labels = torch.arange(4).repeat(2)
    scores = labels[:, None, None].float().expand(8, 2, 3) + 0.01 * torch.arange(8)[:, None, None]
    assert space_table(run, scores, labels)["knn_pct"].tolist() == [100.0, 100.0]


# Epochs


@pytest.fixture(scope="module")
def followed(run, found, pictures):
    """Seven of the twelve images after every epoch."""
    return follow_epochs(run, EXPLAINER, pictures.select(range(7)), found, EPOCHS, "cpu")


def test_epochs_table(run, found, followed):
    table = followed[0]
    assert list(table.columns) == [*RUN, "epoch", "layer", "head", "global_iav", "entropy"]
    assert len(table) == EPOCHS * LAYERS * HEADS
    check_contract(table, "epochs")
    assert table["epoch"].unique().tolist() == [1, 2, 3]
    last = table[table["epoch"] == EPOCHS]
    expected = global_iav(found.first(7).scores("smoothgrad")).flatten()
    np.testing.assert_array_equal(last["global_iav"], expected.numpy())
    assert table["entropy"].between(0, np.log(PATCHES)).all()


def test_drift_ends_at_nothing(followed):
    table = followed[1]
    assert list(table.columns) == [*RUN, "epoch", "quantity", "difference"]
    check_contract(table, "drift")
    wide = table.pivot(index="epoch", columns="quantity", values="difference")
    assert sorted(wide.columns) == ["attention", "smoothgrad"]
    assert (wide.loc[EPOCHS] == 0).all() and (wide.loc[[1, 2]] > 0).all(axis=None)

"""How much a model leans, of models of which that is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from habitats.homes import habitats
from relevit.base.files import project_root
from relevit.data.batch import join
from relevit.data.filling import GREY
from relevit.evaluate.intervals import student
from relevit.evaluate.lean import (
    CONDITIONS,
    NULLS_PTS,
    Interval,
    background_gap,
    background_share,
    class_gaps,
    condition_table,
    images_wanted,
    lean_of,
    lean_rows,
    lean_verdict,
    shown_as,
)
from relevit.evaluate.predictions import Classifier
from relevit.models.loading import open_model
from relevit.models.registry import shipped_weights
from relevit.models.spec import ModelSpec
from reproduction.measures.context import backgrounds_challenge

SPEC = ModelSpec("stub", "none", 32, (0.5,) * 3, (0.5,) * 3, classes=3)
SIDE = 32
KNOWN = pd.read_csv(project_root() / "docs" / "results" / "audit_known.csv")


class Reader(nn.Module):
    """Answers by which channel is brightest: of the middle, of the border, or by neither."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what, self.scale = what, nn.Parameter(torch.ones(()))

    def forward(self, images):
        middle = images[..., 14:18, 14:18].mean(dim=(2, 3))
        border = images[..., :3, :].mean(dim=(2, 3))
        return self.scale * {"object": middle, "background": border, "both": middle + border,
                             "nothing": 0 * middle}[self.what]  # fmt: skip


def scenes(count=30, seed=0):
    """A disc of the class's colour on a background of it; (images, masks, labels)."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    images = torch.randint(0, 100, (count, 3, SIDE, SIDE), generator=random)
    images[torch.arange(count), labels] += 100
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    masks = ((rows - 16) ** 2 + (columns - 16) ** 2 < 64)[None, None].repeat(count, 1, 1, 1)
    return images.byte(), masks, labels


def right_pct(what, **how):
    rows = lean_rows(Reader(what), SPEC, *scenes(), **how)
    return (100 * rows.groupby("condition")["right"].mean()).to_dict(), rows


def test_what_each_condition_shows():
    of_object, rows = right_pct("object")
    assert of_object == dict.fromkeys(CONDITIONS, 100.0)  # the fill is of the class's colour here
    of_background, _ = right_pct("background")
    wrong = {"other": 0.0, "grey": pytest.approx(100 / 3)}
    assert of_background == dict.fromkeys(CONDITIONS, 100.0) | wrong
    assert len(rows) == 30 * len(CONDITIONS)
    assert list(rows) == ["image", "label", "condition", "answer", "right", "probability", "logit"]
    assert rows["probability"].between(0, 1).all()
    object_gone = rows.query("condition == 'filled'")["logit"].mean()
    assert 0 < object_gone <= rows.query("condition == 'original'")["logit"].mean() * 1.2


def test_the_seed_draws_backgrounds_and_nothing_else():
    first, again, other = (right_pct("both", seed=seed)[1] for seed in (0, 0, 1))
    assert first.equals(again) and not first.equals(other)
    drawn = first["condition"].isin(["same", "other"])
    assert first[~drawn].equals(other[~drawn])


def test_images_without_object_or_background_are_left_out():
    images, masks, labels = scenes(9)
    masks[0], masks[1] = False, True
    labels[2] = 3  # the only one of its class
    shown = {name: places.tolist() for name, places, _ in shown_as(images, masks, labels)}
    assert shown == {name: [*range(2 + (name == "same"), 9)] for name in CONDITIONS}
    with pytest.raises(ValueError, match="of classes: 1; give such images of two classes"):
        next(shown_as(images, masks, torch.zeros_like(labels)))


def rows_of(column, **values):
    """Rows with one value an image under each condition."""
    return pd.concat(
        pd.DataFrame({"image": range(len(each)), "condition": name, column: each})
        for name, each in values.items()
    )


def gap_of(same, other):
    return background_gap(rows_of("right", same=same, other=other))


def test_the_interval_holds_the_gap_and_models_that_do_not_lean_are_hardly_ever_said_to():
    """Of twenty about one at most, whatever their accuracy, and also where pasting costs points."""
    rng = np.random.default_rng(0)
    kinds = [(0.1, 0, 150), (0.5, 0, 150), (0.95, 0, 150), (0.5, 8, 150), (0.95, 8, 150)]
    for right, gap, images in (*kinds, (0.9, 12, 20), (0.9, 12, 300)):
        shares = np.array([[right], [right - gap / 100]])
        found = [gap_of(*(rng.random((2, images)) < shares)) for _ in range(200)]
        assert np.mean([each.low <= gap <= each.high for each in found]) > 0.92
        for masks, (null, half) in NULLS_PTS.items():
            leans = np.mean([lean_verdict(each, masks) == "leans" for each in found])
            assert gap > null + half or leans <= 0.05 + 2 * (0.05 * 0.95 / len(found)) ** 0.5


def test_the_gap_is_paired_and_few_images_without_any_change_are_too_few_to_tell():
    same, mixed = [True] * 10, [True, False] * 100
    assert lean_verdict(gap_of(same, same), "annotated") == "undecided"
    assert lean_verdict(gap_of(same * 20, same * 20), "annotated") == "does not lean"
    assert gap_of(mixed, mixed).high < 3 and gap_of(mixed, mixed[::-1]).high > 10
    alone = rows_of("right", other=same)
    with pytest.raises(ValueError, match="give at least two images of a class"):
        background_gap(alone)


def test_pictures_of_each_condition():
    images, masks, labels = scenes(9)
    images = (255 * masks + images * ~masks).byte()  # white objects: none may be left behind
    seen = {name: pictures for name, _, pictures in shown_as(images, masks, labels)}
    assert list(seen) == list(CONDITIONS) and torch.equal(seen["original"], images)
    inside, border = masks.expand(-1, 3, -1, -1), images[..., :3, :]
    for name in ("control", "same", "other", "grey", "blurred"):
        assert seen[name][inside].eq(255).all(), name
    assert seen["filled"][inside].max() < 255
    assert all(torch.equal(seen[name][..., :3, :], border) for name in ("control", "filled"))
    assert seen["grey"][~inside].eq(round(GREY)).all()
    rough = [kind[..., :4, :].float().diff().abs().mean() for kind in (seen["blurred"], images)]
    assert rough[0] < rough[1] / 3


@pytest.mark.parametrize("masks", NULLS_PTS)
def test_what_an_audit_reads_of_models_that_do_not_lean_is_what_was_measured(masks):
    """And the verdicts of `make controls` follow from it."""
    known = KNOWN[KNOWN["masks"] == masks]
    none = known[known["redrawn_pts"] <= 2]
    too_large = (none["gap_pts"] - none["redrawn_pts"]).groupby(none["model"]).mean()
    half = student(len(too_large) - 1) * too_large.std() * (1 + 1 / len(too_large)) ** 0.5
    assert NULLS_PTS[masks] == (round(too_large.mean(), 1), round(half, 1))
    gaps = known[["images", "gap_pts", "gap_low_pts", "gap_high_pts"]].itertuples(index=False)
    assert [lean_verdict(Interval(*gap), masks) for gap in gaps] == known["verdict"].tolist()


@pytest.mark.parametrize(
    ("masks", "gap", "half", "verdict", "many"),
    [
        ("annotated", 30, 5, "leans", None),
        ("annotated", 2, 5, "does not lean", None),
        ("tokencut", 2, 5, "undecided", "undecided"),  # such masks hide a part of a lean
        ("annotated", 15, 15, "undecided", "leans"),
        ("annotated", 2, 15, "undecided", "does not lean"),
        ("tokencut", 12, 1, "undecided", "undecided"),  # a model that does not lean reads as much
        ("tokencut", 30, 25, "undecided", "leans"),
    ],
)
def test_the_verdict_and_how_many_images_would_tell(masks, gap, half, verdict, many):
    """None where what is open is the masks', however many are shown; else as many as are said."""

    def reads(images):
        wide = half * (100 / images) ** 0.5
        return Interval(int(images), gap, gap - wide, gap + wide)

    assert lean_verdict(reads(100), masks) == verdict
    if verdict == "undecided":
        assert lean_verdict(reads(1e9), masks) == many
        wanted = images_wanted(reads(100), masks)
        assert (wanted is None) == (many == "undecided")
        if wanted:
            assert lean_verdict(reads(1.01 * wanted), masks) == many
            assert lean_verdict(reads(0.97 * wanted), masks) == "undecided"
    lean = lean_of(reads(100), masks)
    assert lean.value == gap - NULLS_PTS[masks][0] and lean.high - lean.low > 2 * half


def test_the_worst_class_comes_first_and_tables_are_in_percent():
    right = {"original": (1, 1, 1, 1), "filled": (0, 1, 0, 0), "same": (1, 1, 1, 1)}
    rows = pd.concat(
        pd.DataFrame({"image": range(4), "label": [1, 1, 0, 0], "condition": name,
                      "right": np.array(each, bool), "probability": 0.25})
        for name, each in (right | {"other": (0, 0, 1, 0)}).items()
    )  # fmt: skip
    columns = ["label", "images", "top1_pct", "filled_pct", "gap_pts"]
    assert class_gaps(rows)[columns].to_numpy().tolist() == [
        [1, 2, 100, 50, 100],
        [0, 2, 100, 0, 50],
    ]
    filled = condition_table(rows).set_index("condition").loc["filled"]
    assert filled[["top1_pct", "probability_pct"]].tolist() == [25, 25]
    assert filled["low_pct"] < 25 and filled["high_pct"] > 50


def test_the_share_of_the_background_has_no_unit_and_its_interval_holds_it():
    """It adds 0.3 and alone has 0.4, of 1; logits of any size say the same."""
    exact = rows_of("logit", control=[4.0] * 30, grey=[3.0] * 30, filled=[1.0] * 30)
    assert background_share(exact)[1:] == pytest.approx((25.0,) * 3)
    random, means = np.random.default_rng(0), {"control": 1.0, "grey": 0.7, "filled": 0.4}
    drawn = {name: random.normal(mean, 0.3, 40) for name, mean in means.items()}
    rows = rows_of("logit", **drawn)
    found = background_share(rows)
    assert found.low < 35 < found.high and found.low < found.value < found.high
    for size in (0.001, 100):
        assert background_share(rows.assign(logit=size * rows["logit"])) == pytest.approx(found)
    assert background_share(rows.assign(logit=rows["logit"] - 1)) is None, "of no more than chance"


@pytest.mark.slow
def test_habitats_originals_lean_in_their_order_and_as_exact_scenes_say():
    """Those trained on animals on nothing, and at home: redrawn scenes have their true gaps."""
    bench, gaps = habitats(), {}
    batch = join(list(bench.test_batches("val", 80, 40, seed=0, size=112)))
    for learned in ("cutouts", "habitats"):
        model = open_model("tiny", shipped_weights("tiny", learned))
        rows = lean_rows(model.network, model.spec, batch.images, batch.masks, batch.labels)
        gaps[learned] = background_gap(rows)
        classifier = Classifier(model.network, model.spec)
        exact = backgrounds_challenge(classifier, bench.test_batches, 80)["background_gap_pts"]
        assert gaps[learned].low <= exact <= gaps[learned].high
    assert gaps["cutouts"].high < gaps["habitats"].low
    said = {learned: lean_verdict(gap, "annotated") for learned, gap in gaps.items()}
    assert said["habitats"] == "leans" != said["cutouts"]

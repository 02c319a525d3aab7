"""Methods side by side: the maps, the tables, and what one map is worth in both tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from relevit.attribution import METHODS
from relevit.data.batch import Batch
from relevit.data.cutouts import CUTOUTS
from relevit.evaluate import Erasing, perturbation
from relevit.evaluate import methods as comparison
from relevit.evaluate.methods import (
    ABLATION,
    ablation_maps,
    ablation_table,
    area_table,
    method_maps,
    perturb,
    perturb_by_label,
    right_answers,
    segmentation_table,
    shared_maps,
)
from relevit.models.loading import load_model
from relevit.models.registry import model_spec
from relevit.models.spec import ModelSpec

HALF = Erasing(shares_pct=(50,))
SPEC = ModelSpec("micro", "none", 28, mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.fixture(scope="module")
def pictures():
    return CUTOUTS.draw("val", range(5), labels=range(5), size=28)


@pytest.fixture
def micro(build_vit):
    return build_vit().float()


def test_maps_are_those_of_the_methods(micro, pictures, monkeypatch):
    monkeypatch.setattr(comparison, "BATCH", 2)
    names = ("gae", "rollout", "token_wise")
    done = []
    maps, seconds = method_maps(
        micro, SPEC, pictures, names, target=pictures.labels, on_method=lambda: done.append(1)
    )
    assert list(maps) == list(seconds) == list(names) and len(done) == 3
    for name in names:
        expected = METHODS[name](micro, SPEC.normalise(pictures.images), pictures.labels)
        torch.testing.assert_close(maps[name], expected, rtol=1e-4, atol=1e-7)
        assert seconds[name] > 0


def test_protocol_reaches_the_methods(micro, pictures):
    found = [
        method_maps(micro, SPEC, pictures, ["rollout"], protocol=protocol)[0]["rollout"]
        for protocol in ("published", "described")
    ]
    assert not torch.allclose(*found)


def test_published_segmentation_judges_ga_over_all_blocks_and_erasing_from_block_2(
    build_vit, pictures
):
    """The published scripts of the two tests differ in GA's first block (differences C2)."""
    model, pixels = build_vit(depth=8).float(), SPEC.normalise(pictures.images)
    maps, seconds = method_maps(model, SPEC, pictures, ["ga", "gae"])
    assert list(seconds) == ["ga", "gae"]
    torch.testing.assert_close(maps["ga"], METHODS["ga"](model, pixels, start_block=2))
    expected = {"ga": METHODS["ga"](model, pixels, start_block=1), "gae": maps["gae"]}
    found = segmentation_table(maps, pictures.masks, (4, 4))
    pd.testing.assert_frame_equal(found, segmentation_table(expected, pictures.masks, (4, 4)))
    erased = segmentation_table({"ga": maps["ga"]}, pictures.masks, (4, 4))
    assert not found[found["method"] == "ga"].equals(erased)
    alone = segmentation_table({"ga_all_blocks": maps["ga_all_blocks"]}, pictures.masks, (4, 4))
    assert alone["method"].unique().tolist() == ["ga_all_blocks"]


@pytest.mark.parametrize(
    ("names", "depth", "protocol"),
    [(["ga"], 8, "described"), (["ga"], 6, "published"), (["gae"], 8, "published")],
)
def test_one_map_serves_both_tests_where_they_begin_alike(
    build_vit, pictures, names, depth, protocol
):
    maps, _ = method_maps(build_vit(depth=depth).float(), SPEC, pictures, names, protocol=protocol)
    assert list(maps) == names


@pytest.mark.wrong_types
def test_unknown_method_is_an_error_before_any_work(pictures):
    with pytest.raises(ValueError, match=r"methods: \['shap'\] are unknown; .*'gae'"):
        method_maps(None, SPEC, pictures, ["gae", "shap"])


def test_no_images_are_refused(micro, pictures):
    with pytest.raises(ValueError, match="maps: no images to explain; give at least one"):
        shared_maps(micro, SPEC, pictures.images[:0], ["gae"])


def test_answers_are_right_wrong_or_of_unknown_class(micro, pictures):
    answers = micro(SPEC.normalise(pictures.images)).argmax(dim=1)
    labels = torch.stack([answers[0], (answers[1] + 1) % 5, -torch.ones_like(answers[2])])
    batch = replace(pictures.select(range(3)), labels=labels)
    assert right_answers(micro, SPEC, batch)[:2].tolist() == [1.0, 0.0]
    assert np.isnan(right_answers(micro, SPEC, batch)[2])
    assert np.isnan(right_answers(micro, SPEC, batch.select([2]))).all()


def test_the_mask_itself_is_the_best_map_and_its_opposite_the_worst(pictures):
    inner = torch.nn.functional.avg_pool2d(pictures.masks.float(), 7).flatten(1)
    table = segmentation_table({"mask": inner, "opposite": 1 - inner}, pictures.masks, (4, 4))
    wide = table.pivot(index="method", columns="metric", values="value_pct")
    assert (wide.loc["mask"] > wide.loc["opposite"]).all()
    assert (table["low_pct"] <= table["value_pct"]).all()
    assert (table["value_pct"] <= table["high_pct"]).all()


def test_tables_do_not_depend_on_how_many_images_are_tested_at_once(micro, pictures, monkeypatch):
    maps, _ = method_maps(micro, SPEC, pictures, ["gae", "rollout"])
    explained = torch.arange(4, -1, -1)

    def both():
        rows = perturb(micro, SPEC, pictures, maps, HALF, explained=explained)
        keys = ["method", "direction", "index", "share_pct"]
        table = segmentation_table(maps, pictures.masks, (4, 4))
        return table, rows.sort_values(keys).reset_index(drop=True)

    whole = both()
    monkeypatch.setattr(comparison, "PART", 2)
    monkeypatch.setattr(perturbation, "PART", 2)
    for parts, expected in zip(both(), whole, strict=True):
        pd.testing.assert_frame_equal(parts, expected, rtol=1e-4)


def test_erasing_the_object_hurts_more_than_erasing_the_rest():
    spec, model = model_spec("tiny"), load_model("tiny")
    batch = CUTOUTS.draw("val", range(20), size=spec.image_size)
    inner = torch.nn.functional.avg_pool2d(batch.masks.float(), 14).flatten(1)
    erasing = Erasing(shares_pct=(20, 40))
    rows = perturb(model, spec, batch, {"mask": inner, "opposite": -inner}, erasing)
    areas = area_table(rows)
    wide = areas.pivot(index="method", columns="direction", values="auc_pct")
    assert wide.loc["mask", "positive"] < wide.loc["mask", "negative"]
    # The opposite map erases from the other end, but for parts that tie.
    assert wide.loc["opposite", "positive"] == pytest.approx(wide.loc["mask", "negative"], abs=5)
    assert set(rows["method"]) == {"mask", "opposite"} and len(rows) == 2 * 2 * 20 * 3


def test_ablation_has_the_rows_of_the_paper(micro, pictures):
    maps = ablation_maps(micro, SPEC, pictures.images)
    whole, _ = method_maps(micro, SPEC, pictures, ["head_wise", "token_wise"])
    torch.testing.assert_close(maps["head_wise|integrated_gradient"], whole["head_wise"])
    torch.testing.assert_close(maps["token_wise|integrated_gradient"], whole["token_wise"])
    areas = area_table(perturb(micro, SPEC, pictures, maps, HALF))
    table = ablation_table(segmentation_table(maps, pictures.masks, (4, 4)), areas)
    assert list(zip(table["perception"], table["feedback"], strict=True)) == list(ABLATION)
    row = table.iloc[3]
    expected = areas[areas["method"] == "head_wise|integrated_gradient"].set_index("direction")
    assert row["positive_auc_pct"] == expected.loc["positive", "auc_pct"]
    assert row["negative_standard_error_pts"] == expected.loc["negative", "standard_error_pts"]
    assert not table.drop(columns=["perception", "feedback"]).isna().any(axis=None)
    assert isinstance(table, pd.DataFrame)


def test_maps_for_the_label_are_made_anew_where_the_answer_is_wrong(micro, pictures):
    """Against the long way: explain the label of every image, erase every image."""
    names, erasing = ["gae", "rollout"], Erasing("token", shares_pct=(30, 60))
    answers = micro(SPEC.normalise(pictures.images)).argmax(dim=1)
    labels = torch.where(torch.arange(5) % 2 == 0, answers, (answers + 1) % 5)
    batch = Batch(pictures.images, pictures.masks, labels, pictures.families)
    own, _ = method_maps(micro, SPEC, batch, names)
    rows = perturb(micro, SPEC, batch, own, erasing)
    found = perturb_by_label(micro, SPEC, batch, rows, erasing)
    maps, _ = method_maps(micro, SPEC, batch, names, target=labels)
    long_way = perturb(micro, SPEC, batch, maps, erasing, explained=labels)
    keys = ["method", "direction", "index", "share_pct"]
    found, long_way = (t.sort_values(keys).reset_index(drop=True) for t in (found, long_way))
    pd.testing.assert_frame_equal(found, long_way, rtol=1e-4)
    assert not found["logit"].equals(rows.sort_values(keys)["logit"].reset_index(drop=True))
    assert area_table(found, names[::-1])["method"].unique().tolist() == names[::-1]


def test_areas_are_the_mean_over_the_masked_inputs_as_described(micro, pictures):
    """As published the whole image counts too, and the end is set to 0 (differences E6)."""
    maps, _ = method_maps(micro, SPEC, pictures, ["gae", "rollout"])
    rows = perturb(micro, SPEC, pictures, maps, Erasing(shares_pct=(30, 60)))
    by_hand = rows[rows["share_pct"] > 0].groupby(["method", "direction"])["hit"].mean()
    found = area_table(rows, protocol="described").set_index(["method", "direction"])["auc_pct"]
    assert found.to_dict() == pytest.approx((100 * by_hand).to_dict())
    assert found.tolist() != area_table(rows)["auc_pct"].tolist()


def test_all_answers_right_is_the_same_table(micro, pictures):
    labels = micro(SPEC.normalise(pictures.images)).argmax(dim=1)
    batch = Batch(pictures.images, pictures.masks, labels, pictures.families)
    maps, _ = method_maps(micro, SPEC, batch, ["gae"])
    rows = perturb(micro, SPEC, batch, maps, HALF)
    assert perturb_by_label(micro, SPEC, batch, rows, HALF) is rows

"""The stored tables: all there, in our names, and as the papers print and average them."""

from itertools import product

import pandas as pd
import pytest

from habitats.cutouts import TEST_SETS
from relevit.attribution import METHODS
from relevit.attribution.beyond_intuition import FEEDBACKS, PERCEPTIONS
from relevit.evaluate.segmentation import METRICS
from reproduction.paper import published as paper
from reproduction.paper.published import read_table

PRINTED = 0.0501  # points; half a printed digit, with room for float rounding
# Printed averages that disagree with the printed cells (classes, set, metric).
WRONG = {("A", "v2", "top1"), ("B", "si_location", "top1")}


def test_changes_over_the_models_are_the_printed_averages():
    rows = paper.published_rows("main_T1", "main_T2", "arxiv_T10", "arxiv_T11")
    rows = rows[(rows["method"] == "ours")]
    keys = ["masks", "classes", "dataset", "metric"]
    ours = (rows["value_pct"] - rows["reference_pct"]).groupby([rows[key] for key in keys]).mean()
    printed = read_table("averages").set_index(keys)["change_pts"]
    far = (ours.reindex(printed.index) - printed).abs() > PRINTED
    assert set(printed.index[far].droplevel("masks")) == WRONG
    for masks in ("annotated", "tokencut"):
        changes = paper.published_changes(masks).set_index("dataset")
        assert tuple(changes.index) == TEST_SETS
        assert changes.loc["a", "change_top1_pts"] == pytest.approx(ours[masks, "all", "a", "top1"])


@pytest.mark.parametrize("name", paper.CAPTIONS)
def test_every_printed_number_is_kept_and_has_what_it_is_compared_with(name):
    rows = paper.published_rows(name)
    own = rows if name != "supp_T9" else rows[rows["method"] != "original"]
    stored = [read_table(one) for one in ("robustness", "segmentation", "perturbation")]
    printed = pd.concat(stored).query("table == @name")
    values = printed["value_pct"].fillna(printed["auc_pct"])
    assert len(own) == len(printed) and own["value_pct"].sum() == pytest.approx(values.sum())
    assert (rows["reference_pct"].isna() == (rows["method"] == "original")).all()


def test_claims_are_complete():
    claims = paper.claims()
    numbers = {"RV": range(1, 44), "BI": range(1, 23), "IAV": range(1, 23)}
    assert claims["id"].tolist() == [f"{p}-{i:02}" for p, those in numbers.items() for i in those]
    assert (claims[["paper", "where", "claim"]] != "").all(axis=None)
    claims.iloc[:, 0] = "changed"
    assert "changed" not in set(paper.claims().iloc[:, 0])


def test_tests_of_maps_are_in_our_names():
    outlines, areas = paper.published_segmentation(), paper.published_perturbation()
    assert outlines["table"].value_counts().to_dict() == {"T2": 96, "main_T3": 42, "T6": 9}
    assert areas["table"].value_counts().to_dict() == {"T1": 84, "T3": 20, "supp_T12": 12}
    assert set(outlines["metric"]) == set(METRICS)
    for table in (outlines, areas):
        assert set(table.query("paper == 'beyond_intuition'")["method"]) < set(METHODS)
    assert set(areas["target"]) == {"predicted", "label", "not stated"}


def test_changes_of_maps_are_means_over_the_models():
    found = paper.published_map_changes()
    rows = paper.published_rows("main_T3").query("method == 'ours' and metric == 'miou_pct'")
    assert found["miou_pct"] == pytest.approx((rows["value_pct"] - rows["reference_pct"]).mean())
    assert found["positive"] < 0 < found["negative"] and len(found) == 5


def test_ablation_of_beyond_intuition_repeats_the_table_of_outlines():
    ablation = paper.published_ablation().set_index(["perception", "feedback"])
    assert set(ablation.index) < set(product(PERCEPTIONS, FEEDBACKS)) and len(ablation) == 7
    full = paper.published_segmentation().query("table == 'T2' and model == 'ViT-B'")
    values = full.pivot(index="method", columns="metric", values="value_pct")
    for name in ("head_wise", "token_wise"):
        ours = ablation.loc[(name, "integrated_gradient"), list(METRICS)]
        assert ours.tolist() == values.loc[name, list(METRICS)].tolist()

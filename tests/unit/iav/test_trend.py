"""Slopes over depth, their intervals, and whether a number tells the kinds of runs apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from relevit.evaluate.intervals import bootstrap_interval
from relevit.iav import (
    global_iav,
    image_slopes,
    kind_auc,
    kind_intervals,
    kind_trends,
    model_trends,
    score_rows,
    score_tensor,
    separation,
    separations,
    slopes,
    trend_table,
)

RUN = ["model", "kind", "seed", "map"]


def close(ours, theirs, tolerance=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.fixture
def scores():
    return torch.rand(6, 4, 3, generator=torch.Generator().manual_seed(0)).double()


# Slopes


@pytest.mark.parametrize("layers", [2, 6, 12])
@pytest.mark.parametrize("change", [-0.4, 0.0, 0.25])
def test_slope_of_a_line_is_its_change_over_the_whole_depth(layers, change):
    depth = torch.linspace(0, 1, layers, dtype=torch.float64)
    tilted = torch.tensor([0.1, -0.1, 0.0]).double()  # the heads' own places
    scores = 0.5 + change * depth[None, :, None] + tilted.expand(5, layers, 3)
    close(slopes(scores), torch.full((5,), change, dtype=torch.float64))


def test_slope_is_that_of_polyfit_and_linear_in_the_images(scores):
    depth = np.linspace(0, 1, 4)
    expected = [np.polyfit(depth, image.mean(dim=1).numpy(), 1)[0] for image in scores]
    close(slopes(scores), torch.from_numpy(np.array(expected)), 1e-12)
    close(slopes(global_iav(scores)[None])[0], slopes(scores).mean())


def test_slope_needs_two_layers():
    for wrong in (torch.ones(3, 1, 2), torch.ones(3, 2)):
        with pytest.raises(ValueError, match=r"slopes: scores \(3, .*with at least two layers"):
            slopes(wrong)


# Tables


def run(values, model="a", kind="supervised", seed=0, name="smoothgrad"):
    """Rows of one run: two layers of two heads, whose mean falls or rises by `values`."""
    change = torch.tensor(values).double()[:, None, None]
    scores = 0.5 + change * torch.tensor([[-0.6, -0.4], [0.4, 0.6]]).double()
    labels = torch.arange(len(values)) % 3
    return score_rows(scores, labels).assign(model=model, kind=kind, seed=seed, map=name)


def test_rows_and_tensor_are_each_others_inverse(scores):
    rows = score_rows(scores, torch.arange(6) * 10)
    assert list(rows.columns) == ["image", "label", "layer", "head", "score"]
    assert len(rows) == 6 * 4 * 3
    one = rows[(rows["image"] == 2) & (rows["layer"] == 4) & (rows["head"] == 1)]
    assert one["score"].item() == float(scores[2, 3, 0]) and one["label"].item() == 20
    assert torch.equal(score_tensor(rows.sample(frac=1, random_state=0)), scores)
    with pytest.raises(ValueError, match=r"score_rows: scores \(6, 4, 3\) and labels \(5,\)"):
        score_rows(scores, torch.arange(5))


def test_incomplete_scores_are_refused(scores):
    rows = score_rows(scores, torch.arange(6))
    for wrong, count in ((rows[1:], 71), (pd.concat([rows, rows[:1]]), 73), (rows[:0], 0)):
        with pytest.raises(ValueError, match=f"score_tensor: {count} rows, {count} with a finite"):
            score_tensor(wrong)
    swapped = pd.concat([rows[1:], rows[1:2]])  # as many rows as there should be
    with pytest.raises(ValueError, match=r"score_tensor: 72 rows, .*6 images x 4 layers x 3 heads"):
        score_tensor(swapped)
    with pytest.raises(ValueError, match="score_tensor: 72 rows, 71 with a finite score"):
        score_tensor(rows.assign(score=rows["score"].where(rows.index != 5)))
    with pytest.raises(ValueError, match=r"score_tensor: no columns \['head'\]; needed are"):
        score_tensor(rows.drop(columns="head"))


def test_trend_table_by_hand():
    table = pd.concat(
        [
            run([0.1, 0.3, 0.2], model="b", seed=1),
            run([-0.2, -0.2, -0.2], kind="self-supervised"),
            run([0.0, 0.0, 0.6], model="b", seed=1, name="mask"),
        ]
    )
    found = trend_table(table.sample(frac=1, random_state=1))
    assert list(found.columns) == [*RUN, "slope", "low", "high"]
    found = found.set_index(["model", "map"]).sort_index()
    assert found["slope"].tolist() == pytest.approx([-0.2, 0.2, 0.2])
    assert found.loc[("a", "smoothgrad"), "low"] == pytest.approx(-0.2)
    row = found.loc[("b", "smoothgrad")]
    assert (row["low"], row["high"]) == bootstrap_interval(slopes(score_tensor(table[:12])))
    assert row["kind"] == "supervised" and row["seed"] == 1
    assert trend_table(table)["model"].tolist() == ["b", "a", "b"], "in the order given"


def test_image_slopes_keep_the_images(scores):
    table = run([0.1, 0.3, 0.2]).assign(image=lambda t: 7 - t["image"])
    found = image_slopes(table)
    assert list(found.columns) == [*RUN, "image", "slope"]
    assert found["image"].tolist() == [5, 6, 7]
    assert found["slope"].tolist() == pytest.approx([0.2, 0.3, 0.1])
    assert image_slopes(table[:0]).empty and trend_table(table[:0]).empty


def slope_table(**models):
    """`slopes` with one map; names of self-supervised models begin with s."""
    rows = [
        (model, "self-supervised" if model[0] == "s" else "supervised", seed, "gradcam", slope)
        for model, values in models.items()
        for seed, slope in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=[*RUN, "slope"])


def test_means_over_seeds_and_models_by_hand():
    table = slope_table(a=[-0.4, -0.2], b=[-0.1], s=[0.0, 0.3, 0.0])
    models = model_trends(table).set_index("model")
    assert models["seeds"].tolist() == [2, 1, 3]
    assert models["slope"].tolist() == pytest.approx([-0.3, -0.1, 0.1])
    assert models["slope_std"].tolist()[::2] == pytest.approx([0.02**0.5, 0.03**0.5])
    assert np.isnan(models.loc["b", "slope_std"])
    first, second = kind_trends(table).to_dict("records")
    assert first["kind"] == "supervised" and first["models"] == 2
    assert first["slope"] == pytest.approx(-0.2), "a model counts once, whatever its seeds"
    assert first["slope_std"] == pytest.approx(0.02**0.5)
    assert (first["lowest"], first["highest"]) == (-0.4, -0.1)
    assert second["slope"] == pytest.approx(0.1) and np.isnan(second["slope_std"])
    with pytest.raises(ValueError, match=r"model_trends: rows with the same .* occur twice; give"):
        model_trends(pd.concat([table, table[:1]]))


# Intervals over images and seeds


def per_image(count=40, image_noise=0.0, seed_noise=0.0):
    """Two models of each kind with three seeds; the true slopes are -0.2, -0.1, 0 and 0.2."""
    random = np.random.default_rng(0)
    images = image_noise * random.normal(size=count)
    parts = []
    for model, slope in (("a", -0.2), ("b", -0.1), ("s", 0.0), ("t", 0.2)):
        for seed in range(3):
            values = slope + images + seed_noise * (seed - 1)
            part = pd.DataFrame({"image": range(count), "slope": values})
            kind = "supervised" if model in "ab" else "self-supervised"
            parts.append(part.assign(model=model, kind=kind, seed=seed, map="mask"))
    return pd.concat(parts, ignore_index=True)


def test_kind_intervals_without_noise_are_points():
    found = kind_intervals(per_image())
    assert list(found.columns) == ["map", "kind", "models", "slope", "low", "high"]
    assert found["kind"].tolist() == ["supervised", "self-supervised", "difference"]
    assert found["models"].tolist() == [2, 2, 4]
    for name in ("slope", "low", "high"):
        assert found[name].tolist() == pytest.approx([-0.15, 0.1, 0.25])


def test_what_all_models_share_is_not_in_the_difference():
    """Images move every model alike: the kinds' intervals are wide, the difference has none."""
    table = per_image(image_noise=0.3)
    found = kind_intervals(table).set_index("kind")
    width = found["high"] - found["low"]
    low, high = bootstrap_interval(torch.tensor(table["slope"][:40].to_numpy()))
    assert width["supervised"] == pytest.approx(high - low, rel=0.1)
    assert width["difference"] == pytest.approx(0, abs=1e-12)


def test_seeds_widen_the_interval():
    """The mean of 3 drawn of (-d, 0, d) has variance 2 d² / 9; of two models a half of that."""
    found = kind_intervals(per_image(seed_noise=0.1)).set_index("kind")
    width = found["high"] - found["low"]
    error = 0.1 * (2 / 9 / 2) ** 0.5
    assert width["supervised"] == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert width["difference"] == pytest.approx(2 * 1.96 * error * 2**0.5, rel=0.15)


def test_kind_intervals_do_not_depend_on_the_order_of_rows():
    table = per_image(image_noise=0.3, seed_noise=0.1)
    shuffled = table.sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(kind_intervals(table), kind_intervals(shuffled))


def test_kind_intervals_need_both_kinds_on_the_same_images():
    table = per_image()
    with pytest.raises(ValueError, match=r"kind_intervals: map 'mask' has kinds \['supervised'\]"):
        kind_intervals(table[table["kind"] == "supervised"])
    with pytest.raises(ValueError, match="on 40 images, 1 slopes missing; needed are both of"):
        kind_intervals(table[1:])
    with pytest.raises(ValueError, match=r"kind_intervals: level_pct 0\.0 and 2000 resamples"):
        kind_intervals(table, level_pct=0.0)


# Telling the kinds apart


@pytest.mark.parametrize(
    ("supervised", "self_supervised", "gap", "auc"),
    [
        ([-0.4, -0.2], [-0.1, 0.3], 0.1, 1.0),
        ([-0.4, 0.2], [-0.1, 0.3], -0.3, 0.75),
        ([0.1, 0.1], [0.1, 0.1], 0.0, 0.5),
        ([0.5, 0.4], [0.1, 0.3], -0.4, 0.0),
    ],
)
def test_separation_and_auc_by_hand(supervised, self_supervised, gap, auc):
    table = slope_table(a=supervised, s=self_supervised)
    assert separation(table["slope"], table["kind"]) == pytest.approx(gap)
    assert kind_auc(table["slope"], table["kind"]) == auc
    assert kind_auc(-table["slope"], table["kind"]) == 1 - auc


def test_separations_of_several_properties():
    table = slope_table(a=[-0.4, -0.2], s=[-0.1, 0.3])
    properties = pd.DataFrame(
        {
            "slope": table["slope"],
            "entropy": [3.0, 2.0, 1.0, 1.5],
            "top1_pct": [90.0, 70.0, 80.0, 60.0],
        }
    )
    rows = separations(properties, table["kind"]).to_dict("records")
    assert [row["property"] for row in rows] == ["slope", "entropy", "top1_pct"]
    assert [row["above"] for row in rows] == pytest.approx([0.1, -2.0, -30.0])
    assert [row["below"] for row in rows] == pytest.approx([-0.7, 0.5, -10.0])
    assert [row["auc"] for row in rows] == [1.0, 0.0, 0.25]


def test_separation_needs_both_kinds_and_finite_values():
    table = slope_table(a=[-0.4, -0.2], s=[-0.1, 0.3])
    slope, kind = table["slope"], table["kind"]
    for values, kinds in (
        (slope[:2], kind[:2]),
        (slope, kind[::-1]),
        (slope, kind.replace("supervised", "unsupervised")),
        (slope.where(slope > 0), kind),
    ):
        with pytest.raises(ValueError, match=r"separation: \d values \(\d finite\) of kinds \["):
            separation(values, kinds)
        with pytest.raises(ValueError, match=r"kind_auc: .*; needed are both of \('supervised'"):
            kind_auc(values, kinds)

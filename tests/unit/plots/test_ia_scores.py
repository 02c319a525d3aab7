"""The pictures of IAV on small tables: what is drawn is what can be counted by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from relevit.plots import ia_scores as pictures
from relevit.plots.pretrained import COLOURS
from relevit.plots.style import OURS

from ..picture_tables import KINDS, SEEDS, band, line, table

MAPS = ("smoothgrad", "aav_dino")
LAYERS, HEADS, IMAGES = 3, 4, 5


def score(row) -> float:
    """Falls with depth for mini-deit alone; later heads are lower, except in layer 2."""
    falls = 0.2 * row["layer"] * (row["model"] == "mini-deit")
    sign = -1 if row["layer"] == 2 else 1
    head = sign * 0.05 * (row["head"] - 2.5)
    return 0.8 - falls - head + 0.02 * row["seed"] + 0.01 * (row["image"] - 2)


@pytest.fixture
def scores():
    return table(
        lambda row: {"score": score(row) - 0.1 * (row["map"] == "aav_dino"), "label": 0},
        map=MAPS,
        layer=range(1, LAYERS + 1),
        head=range(1, HEADS + 1),
        image=range(IMAGES),
    )


@pytest.fixture
def slopes():
    down = {"mini-deit": -0.4, "mini-dino": 0.05}

    def value(row):
        slope = down[row["model"]] + 0.02 * row["seed"]
        return {"slope": slope, "low": slope - 0.03, "high": slope + 0.05}

    return table(value, map=MAPS)


@pytest.fixture
def space():
    return table(
        lambda row: {
            "silhouette": 0.1 * row["layer"] - 0.2,
            "knn_pct": 10.0 * row["layer"],
            "chance_pct": 2.5 + row["seed"],
        },
        layer=range(1, LAYERS + 1),
    )


@pytest.fixture
def robustvit():
    rows = itertools.product(("original", "seed0", "seed1"), ("smoothgrad", "mask"), (1, 2), (1, 2))
    made = pd.DataFrame(rows, columns=["run", "map", "layer", "head"]).assign(image=0)
    gain = made["run"].map({"original": 0.0, "seed0": 0.1, "seed1": 0.2})
    return made.assign(score=0.5 + gain * (made["map"] == "mask"))


# Scores


def test_depth_curves_are_means_with_the_range_of_seeds(scores):
    left, right = pictures.depth_curves(scores).axes
    assert line(left, "mini-deit").get_ydata() == pytest.approx([0.61, 0.41, 0.21])
    assert line(left, "mini-dino").get_ydata() == pytest.approx([0.81] * 3)
    assert line(right, "mini-dino").get_ydata() == pytest.approx([0.71] * 3)
    assert band(left, 1) == pytest.approx((0.8, 0.82))
    assert left.get_ylim() == pytest.approx((0.1, 0.9)), "tenths around the data of both panels"
    assert (left.get_title(), right.get_title()) == ("SmoothGrad", "SmoothGrad of DINO (AAV)")


def test_heads_are_sorted_within_their_layer(scores):
    figure = pictures.head_curves(scores)
    axis = figure.axes[0]
    assert axis.get_title() == "mini-deit" and len(axis.lines) == LAYERS
    for layer, drawn in enumerate(axis.lines, start=1):
        top = 0.61 - 0.2 * (layer - 1) + 0.075
        assert drawn.get_ydata() == pytest.approx([top - 0.05 * rank for rank in range(HEADS)])
        assert drawn.get_xdata() == pytest.approx(layer + np.array([-0.3, -0.1, 0.1, 0.3]))


def test_boxes_are_coloured_by_the_median(scores):
    """mini-deit, seed 0: layer 1 has medians 0.675 to 0.525, layer 2 0.475 to 0.325."""
    figure = pictures.score_boxes(scores, (1, 2))
    first, second, dino, _ = figure.axes
    colours = [[to_hex(box.get_facecolor()) for box in axis.patches] for axis in figure.axes]
    assert colours[0] == [pictures.HIGH] * HEADS and colours[1] == [pictures.LOW] * HEADS
    assert [text.get_text() for text in first.get_xticklabels()] == ["1", "2", "3", "4"]
    assert [text.get_text() for text in second.get_xticklabels()] == ["4", "3", "2", "1"]
    assert first.get_title() == "mini-deit, layer 1" and dino.get_title() == "mini-dino, layer 1"
    medians = [
        line.get_ydata()[0]
        for line in first.lines
        if to_hex(line.get_color()) == "#000000"
        and len(set(line.get_ydata())) == 1
        and line.get_linestyle() == "-"
    ]
    assert max(medians) == pytest.approx(0.695) and 0.675 in np.round(medians, 6)


def test_boxes_of_another_seed(scores):
    moved = scores.assign(score=scores["score"] - 0.5 * (scores["seed"] == 1))
    high, low = (pictures.score_boxes(moved, (1,), seed=seed).axes[1] for seed in SEEDS)
    assert to_hex(high.patches[0].get_facecolor()) == pictures.HIGH
    assert to_hex(low.patches[0].get_facecolor()) == pictures.LOW


def test_a_score_that_is_no_number_leaves_the_others_of_its_box(scores):
    """GradCAM's map can be zero everywhere (differences C19)."""
    holed = scores.assign(score=scores["score"].where(scores["image"] != 2))
    axis = pictures.score_boxes(holed, (1,)).axes[0]
    assert len(axis.patches) == HEADS
    assert np.isfinite([patch.get_path().vertices for patch in axis.patches]).all()


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (
            lambda s: pictures.depth_curves(s, ["mask"]),
            r"depth_curves: map \['mask'\] is not in the table; it holds \['aav_dino', 'smoothg",
        ),
        (lambda s: pictures.head_curves(s, "mask"), r"head_curves: map \['mask'\]"),
        (lambda s: pictures.score_boxes(s), r"score_boxes: layer \[6, 12\] .* holds \[1, 2, 3\]"),
        (lambda s: pictures.score_boxes(s, (1,), seed=7), r"score_boxes: seed \[7\] .* \[0, 1\]"),
    ],
)
def test_what_the_table_lacks_is_an_error(scores, draw, text):
    with pytest.raises(ValueError, match=text):
        draw(scores)


def test_slopes_stand_with_their_intervals_by_kind(slopes):
    left, right = pictures.slope_intervals(slopes).axes
    points = np.array([held[0].get_xydata()[0] for held in left.containers])
    assert points == pytest.approx(np.array([(-0.4, 0), (-0.38, 1), (0.05, 2), (0.07, 3)]))
    ends = left.containers[0][2][0].get_segments()[0]
    assert ends[:, 0] == pytest.approx([-0.43, -0.35])
    means = [held.get_xdata()[0] for held in left.lines if held.get_linestyle() == ":"]
    assert sorted(means) == pytest.approx([-0.39, 0.06])
    assert [text.get_text() for text in left.get_yticklabels()] == ["mini-deit", "mini-dino"]
    assert left.get_yticks() == pytest.approx([0.5, 2.5])
    assert len(right.containers) == 4
    names = [text.get_text().replace("\n", "") for text in right.texts]
    places = [text.get_position()[1] for text in right.texts]
    assert dict(zip(names, places, strict=True)) == {"supervised": 0.5, "self-supervised": 2.5}


def test_slopes_of_a_run_without_a_map_leave_its_row_empty(slopes):
    missing = (slopes["map"] == "aav_dino") & (slopes["model"] == "mini-dino")
    _, right = pictures.slope_intervals(slopes[~missing]).axes
    assert [held[0].get_ydata()[0] for held in right.containers] == [0, 1]


def test_before_and_after_finetuning(robustvit):
    same, mask = pictures.before_after(robustvit).axes
    assert line(same, "finetuned, all runs").get_ydata() == pytest.approx([0.5, 0.5])
    assert line(mask, "original").get_ydata() == pytest.approx([0.5, 0.5])
    after = line(mask, "finetuned, all runs")
    assert after.get_ydata() == pytest.approx([0.65, 0.65]) and after.get_color() == OURS
    assert band(mask, 1) == pytest.approx((0.6, 0.7))


def test_entropy_boxes_of_the_last_layer():
    entropy = table(
        lambda row: {"entropy": row["layer"] + 0.1 * row["head"] + 0.01 * row["image"]},
        layer=(1, 2),
        head=range(1, HEADS + 1),
        image=range(IMAGES),
    )
    figure = pictures.entropy_boxes(entropy, patches=64)
    axis = figure.axes[0]
    assert axis.get_title() == "mini-deit" and axis.get_xlabel() == "head of layer 2, by its median"
    assert [text.get_text() for text in axis.get_xticklabels()] == ["4", "3", "2", "1"]
    assert to_hex(axis.patches[0].get_facecolor()) == COLOURS["mini-deit"]
    (even,) = [held.get_ydata()[0] for held in axis.lines if held.get_linestyle() == ":"]
    assert even == pytest.approx(np.log(64))
    with pytest.raises(ValueError, match=r"entropy_boxes: layer \[9\]"):
        pictures.entropy_boxes(entropy, 9)


# The space of scores


def test_space_pictures_say_the_numbers_of_their_layer(space):
    points = {name: np.arange(12.0).reshape(6, 2) for name in KINDS}
    labels = np.array([3, 3, 7, 7, 9, 9])
    names = [f"animal {i}" for i in range(10)]
    figure = pictures.space_pictures(points, labels, space, layer=2, classes=names, seed=1)
    axis = figure.axes[0]
    title = "mini-deit, layer 2\nsilhouette 0.00\nk-NN 20 % (chance 4 %)"
    assert axis.get_title() == title
    clouds = np.concatenate([cloud.get_offsets() for cloud in axis.collections])
    assert np.array_equal(clouds, points["mini-deit"])
    assert len({to_hex(cloud.get_facecolor()[0]) for cloud in axis.collections}) == 3
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == ["animal 3", "animal 7", "animal 9"]
    with pytest.raises(ValueError, match=r"space_pictures: model \['x'\] is not in the table"):
        pictures.space_pictures({"x": points["mini-deit"]}, labels, space, 2, names)


def test_space_curves(space):
    left, right = pictures.space_curves(space).axes
    assert line(left, "mini-dino").get_ydata() == pytest.approx([-0.1, 0, 0.1])
    assert line(right, "mini-deit").get_ydata() == pytest.approx([10, 20, 30])
    (chance,) = [held for held in right.lines if held.get_linestyle() == ":"]
    assert chance.get_ydata()[0] == pytest.approx(3)


def test_no_picture_changes_its_table(scores, slopes, space):
    before = [held.copy() for held in (scores, slopes, space)]
    pictures.depth_curves(scores)
    pictures.head_curves(scores)
    pictures.score_boxes(scores, (1, 3))
    pictures.slope_intervals(slopes)
    pictures.space_curves(space)
    for held, copy in zip((scores, slopes, space), before, strict=True):
        pd.testing.assert_frame_equal(held, copy)

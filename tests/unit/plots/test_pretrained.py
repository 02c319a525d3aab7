"""What pictures of several models share, and those of how the models learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from relevit.plots import pretrained as pictures
from relevit.plots.pretrained import COLOURS

from ..picture_tables import band, line, table

LAYERS, HEADS = 3, 4


@pytest.fixture
def epochs():
    return table(
        lambda row: {"entropy": 2 + 0.1 * row["epoch"] * row["layer"], "global_iav": 0.5},
        epoch=range(4),
        layer=range(1, LAYERS + 1),
        head=range(1, HEADS + 1),
    )


@pytest.fixture
def models():
    return table(
        lambda row: {
            "train_loss": 1 / row["epoch"] if row["epoch"] else np.nan,
            "validation_top1_pct": 20.0 * row["epoch"] + row["seed"],
        },
        epoch=range(4),
    )


@pytest.fixture
def shift():
    levels = {"none": (0.0,), "blur": (1.0, 2.0), "jigsaw": (1.0, 2.0), "patch_jigsaw": (8.0,)}
    parts = [
        table(
            lambda row: {"top1_pct": 90 - 10 * row["level"] + row["seed"], "images": 10},
            corruption=(name,),
            level=values,
        )
        for name, values in levels.items()
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def masking():
    lost = {"attention": 0.5, "smoothgrad": 0.8, "random": 0.3}
    return table(
        lambda row: {"top1_pct": 90 - lost[row["order"]] * row["ratio_pct"], "images": 10},
        order=lost,
        ratio_pct=(10, 50, 90),
    )


# What all share


def test_supervised_come_first_and_others_get_colours_of_their_kind():
    kinds = {
        "b": "self-supervised",
        "mini-dino": "self-supervised",
        "a": "supervised",
        "mini-deit": "supervised",
        "c": "self-supervised",
    }
    styles = pictures.model_styles(pd.DataFrame(kinds.items(), columns=["model", "kind"]))
    assert list(styles) == ["mini-deit", "a", "mini-dino", "b", "c"]
    assert [style["linestyle"] for style in styles.values()] == ["--", "--", "-", "-", "-"]
    assert len({style["color"] for style in styles.values()}) == 5
    assert styles["mini-deit"]["color"] == COLOURS["mini-deit"]


def test_models_of_a_kind_differ_in_print():
    """Brightness as printers take it; of the suite's own models and of all others."""
    spare = {kind: [colour for colour, _ in looks] for kind, looks in pictures.SPARE.items()}
    own = list(COLOURS.values())
    for colours in (own[:2], own[2:], *spare.values()):
        grey = sorted(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) for colour in colours)
        assert np.diff(grey).min() > 0.15
    assert len(set(pictures.MARKERS.values())) == len(COLOURS)


@pytest.mark.parametrize(
    ("count", "lowest", "leftmost"),
    [(1, [0], [0]), (3, [0, 1, 2], [0]), (4, [2, 3], [0, 2]), (5, [2, 3, 4], [0, 3])],
)
def test_panels_at_the_edge_have_the_names_of_the_axes(count, lowest, leftmost):
    made = pd.DataFrame({"model": [f"m{i}" for i in range(count)], "kind": "supervised"})
    labels = ("across", "up")
    _, panels = pictures.model_panels(made, (2, 2), labels, sharex=True, sharey=True)
    axes = list(panels.values())
    assert [i for i, axis in enumerate(axes) if axis.get_xlabel() == "across"] == lowest
    assert [i for i, axis in enumerate(axes) if axis.get_ylabel() == "up"] == leftmost
    places = [axis.get_subplotspec() for axis in axes]
    assert [i for i, place in enumerate(places) if place.is_first_col()] == leftmost
    assert all(axes[i].xaxis.get_tick_params()["labelbottom"] for i in lowest)


def test_a_kind_without_colours_is_an_error():
    with pytest.raises(ValueError, match=r"model_styles: kinds \['x'\]; only \['self-supervised'"):
        pictures.model_styles(pd.DataFrame({"model": ["a"], "kind": ["x"]}))


def test_seeds_weigh_the_same_whatever_their_number_of_rows():
    rows = pd.DataFrame({"seed": [0, 0, 0, 1], "x": [1, 1, 1, 1], "y": [0.0, 0, 0, 1]})
    _, axis = pictures.subplots()
    pictures.seed_band(axis, rows, "x", "y", color="red")
    assert axis.lines[0].get_ydata() == [0.5] and band(axis, 0) == (0, 1)


# Finetuning


def test_shift_curves_begin_at_images_without_a_change(models, shift):
    accuracy, blur, jigsaw, patches = pictures.shift_curves(models, shift).axes
    assert line(accuracy, "mini-dino").get_ydata() == pytest.approx([0.5, 20.5, 40.5, 60.5])
    for axis in (blur, jigsaw):
        assert line(axis, "mini-deit").get_xdata() == pytest.approx([0, 1, 2])
        assert line(axis, "mini-deit").get_ydata() == pytest.approx([90.5, 80.5, 70.5])
    assert line(patches, "mini-deit").get_xdata() == pytest.approx([0, 8])


def test_finetuning_curves_have_no_loss_before_the_first_epoch(models):
    loss, accuracy = pictures.finetuning_curves(models).axes
    assert line(loss, "mini-deit").get_xdata() == pytest.approx([1, 2, 3])
    assert line(accuracy, "mini-deit").get_xdata() == pytest.approx([0, 1, 2, 3])


def test_pretraining_curves_have_their_own_scales():
    logs = {
        name: pd.DataFrame({"epoch": [1, 2], "train_loss": [scale, scale / 2]})
        for name, scale in (("mini-mae", 1.0), ("other", 100.0))
    }
    left, right = pictures.pretraining_curves(logs).axes
    assert left.lines[0].get_color() == COLOURS["mini-mae"] and right.get_title() == "other"
    assert left.get_ylim()[1] < 2 < 90 < right.get_ylim()[1]


def test_drift_curves_take_what_the_table_holds():
    drift = table(
        lambda row: {"difference": 0.05 - 0.01 * row["epoch"]},
        epoch=range(1, 5),
        quantity=("attention",),
    )
    (axis,) = pictures.drift_curves(drift).axes
    assert axis.get_title() == "Attention maps" and axis.get_ylim()[0] == 0
    assert line(axis, "mini-deit").get_ydata() == pytest.approx([0.04, 0.03, 0.02, 0.01])


def test_masking_curves_have_a_line_an_order(masking):
    axis = pictures.masking_curves(masking).axes[0]
    assert line(axis, "SmoothGrad").get_ydata() == pytest.approx([82, 50, 18])
    assert line(axis, "attention").get_ydata() == pytest.approx([85, 65, 45])
    assert line(axis, "chance").get_ydata() == pytest.approx([87, 75, 63])


def test_entropy_maps_show_layers_by_epochs_and_their_change(epochs):
    later = epochs[(epochs["model"] == "mini-dino") | (epochs["epoch"] > 0)]
    top, _, change, _ = pictures.entropy_maps(epochs).axes[:4]
    assert top.get_title() == "mini-deit"
    assert top.get_ylim()[0] > top.get_ylim()[1], "layer 1 on top"
    for axis, start in ((top, 2.0), (change, 0.0)):
        drawn = np.asarray(axis.collections[0].get_array()).reshape(LAYERS, 4)
        assert drawn == pytest.approx(start + 0.1 * np.outer([1, 2, 3], range(4)))
    assert change.collections[0].get_clim() == pytest.approx((-0.9, 0.9))
    _, _, change, _ = pictures.entropy_maps(later).axes[:4]
    moved = np.asarray(change.collections[0].get_array()).reshape(LAYERS, 3)
    assert moved == pytest.approx(0.1 * np.outer([1, 2, 3], range(3))), "from its own first epoch"


def test_no_picture_changes_its_table(epochs, models, shift, masking):
    before = [held.copy() for held in (epochs, models, shift, masking)]
    pictures.entropy_maps(epochs)
    pictures.shift_curves(models, shift)
    pictures.masking_curves(masking)
    for held, copy in zip((epochs, models, shift, masking), before, strict=True):
        pd.testing.assert_frame_equal(held, copy)

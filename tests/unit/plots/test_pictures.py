"""Pictures that several pages share, and plots of seaborn in the suite's style."""

import numpy as np
import pandas as pd
import pytest
import seaborn.objects as so
from matplotlib.colors import to_hex, to_rgb

from relevit.finetune.learning_rate import class_loss_column
from reproduction.measures.paired import GROUPS
from reproduction.params.cells import FINETUNED, params_of
from reproduction.plots import shared
from reproduction.plots.style import CONTROL, FAINT, METHODS, OURS, alternative_text, drawn


def table(columns: str, *rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


def added(worlds=("own",), arms=("ours", "labels")) -> pd.DataFrame:
    """What relevance adds: 10 for each world, 1 for each group."""
    rows = [
        {"world": world, "arm": arm, "classes": group}
        | {
            f"{kind}{part}": sign * (10 * w + g + 1) + reach
            for kind, sign in (("with", 1), ("without", -1), ("adds", 2))
            for part, reach in (("_pts", 0), ("_low_pts", -2), ("_high_pts", 3))
        }
        for w, world in enumerate(worlds)
        for arm in arms
        for g, group in enumerate(GROUPS)
    ]
    return pd.DataFrame(rows)


def erased(*methods: str) -> pd.DataFrame:
    rows = [(name, order, share) for name in methods
            for order in ("positive", "negative") for share in (0, 50, 100)]  # fmt: skip
    found = table("method direction share_pct", *rows)
    return found.assign(accuracy_pct=95.0 - found["share_pct"] / 2)


def ends(axis) -> list:
    """From where to where the intervals of a panel go, along their values."""
    across = int(not axis.yaxis_inverted())
    segments = [each for held in axis.collections for each in held.get_segments()]
    return [[float(low), float(high)] for low, high in (each[:, across] for each in segments)]


def test_with_and_without_stand_beside_each_other():
    axis, other = shared.added_bars(added(), "t").axes
    assert (axis.get_title(), other.get_title()) == ("our setting", "labels")
    assert [bar.get_height() for bar in axis.patches] == [1, 2, 3, -1, -2, -3]
    assert [to_hex(bar.get_facecolor()) for bar in axis.patches] == [OURS] * 3 + [CONTROL] * 3
    assert ends(axis) == [[-1, 4], [0, 5], [1, 6], [-3, 2], [-4, 1], [-5, 0]]


def test_near_names_of_worlds_stand_below_each_other():
    gaps = pd.Series({"own": 30.0, "home 1": 60.0, "home 0.8": 6.0, "home 0.5": 5.0})
    (axis,) = shared.dose_response(added([*gaps.index], ["ours"]), gaps, "t").axes
    assert [text.get_text() for text in axis.texts] == ["home 0.5\nhome 0.8", "own", "home 1"]
    assert axis.containers[0].lines[0].get_ydata().tolist() == [64, 44, 4, 24]


@pytest.mark.parametrize(
    ("names", "more", "title"),
    [
        ("value_pct low_pct high_pct score", {"x": True, "": 0}, "x (%)\nhigher is better"),
        ("auc_pct low_pct high_pct direction", None, "negative: AUC (%)\nhigher is better"),
        ("value low high score", None, "outline:\nmIoU (%)"),
        ("value_pct low_pct high_pct metric", None, "mIoU (%)"),
    ],
)
def test_scores_have_their_panels(names, more, title):
    name = "x" if more else "negative" if "direction" in names else "miou_pct"
    rows = ("gae", 50.0, 40.0, 60.0, name), ("(random)", 5.0, 4.0, 6.0, name)
    (axis,) = shared.score_bars(table(f"method {names}", *rows), "t", more).axes
    assert axis.get_title() == title and ends(axis) == [[40, 60], [4, 6]]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["GAE", "(random)"]
    assert [to_hex(bar.get_facecolor()) for bar in axis.patches] == [METHODS["gae"], FAINT]


def test_lines_are_means_over_seeds_and_bands_reach_all():
    rows = table("model kind seed layer score", *(
        ("mini-dino", "self-supervised", seed, layer, seed + layer + image)
        for seed in (0, 4) for layer in (1, 2, 3) for image in (-1, 1)))  # fmt: skip
    (axis,) = drawn(shared.model_lines(rows, "layer", "score"), 4, 3, "t", level=0).axes
    (line,) = [each for each in axis.lines if len(each.get_xdata()) == 3]
    assert line.get_ydata().tolist() == [3, 4, 5], "mean over seeds"
    (band,) = axis.patches or axis.collections
    assert [band.get_extents().y0, band.get_extents().y1] != [3, 5]
    assert not np.mod(axis.get_xticks(), 1).any(), "layers are whole"


def test_a_plot_is_drawn_in_the_style_and_its_legend_covers_nothing():
    rows = table("set value who", ("a", 1.0, "one"), ("b", 2.0, "two"))
    plot = so.Plot(rows, x="set", y="value", color="who").add(so.Bar())
    figure = drawn(plot.label(color=""), 5, 3, "title", level=1.5)
    said = alternative_text(figure)
    assert "title" in said and "Colours and lines: one; two." in said
    (axis,), (legend,) = figure.axes, figure.legends
    assert axis.lines[0].get_linestyle() == ":", "a level that is not zero"
    figure.draw_without_rendering()
    assert axis.get_window_extent().x1 <= legend.get_window_extent().x0


def test_no_change_is_drawn_as_none():
    row = ("$a", "with relevance - original", 0.0, 0.0, 0.0)
    shown = table("dataset change change_pts low_pts high_pts", row)
    axis = shared.paired_changes(shown, "t").axes[0]
    assert axis.get_ylim()[0] <= -1 and axis.get_ylim()[1] >= 1
    assert not axis.get_xticklabels()[0].get_parse_math()


def test_rates_are_judged_at_the_kept_epoch():
    """A full dot passes, a cross does not; the dotted lines are the rule's limits."""
    column = class_loss_column(params_of(FINETUNED)())

    def history(top1, loss):
        keys = ("epoch", "validation_top1_pct", column, "validation_loss_total")
        keys += ("validation_loss_background", "validation_class_losses")
        images = [[loss[0]] * 2, [loss[1] - 0.001, loss[1] + 0.001]]
        # An epoch whose images were not looked at leaves no gap.
        parts = (0, 2), top1, loss, (1.0, 0.5), (0.2, 0.1), images
        first, last = (dict(zip(keys, row, strict=True)) for row in zip(*parts, strict=True))
        return [first, {"epoch": 1}, last]

    histories = {1e-6: history((90, 89), (1.0, 1.008)), 1e-3: history((90, 60), (1.0, 3.0))}
    left, right = shared.rate_curves(histories, 3.0, params_of(FINETUNED)()).axes
    assert [line.get_xdata().tolist() for line in right.lines[:3:2]] == [[0, 2], [0, 2]]
    marks = {line.get_marker(): line.get_ydata()[0] for line in right.lines}
    assert marks["o"] == 1.008 and marks["X"] == 3.0
    dotted = [
        [li.get_ydata()[0] for li in ax.lines if li.get_linestyle() == ":"] for ax in (left, right)
    ]
    assert dotted == [[-3.0], [1.01]]


def test_each_family_has_its_panels_and_the_others_are_faint():
    rows = erased("ga", "rollout", "gae", "random", "new")
    figure = shared.perturbation_curves(rows, "t", "erased tokens (%)", 45.0)
    top = figure.axes[:3]
    titles = [axis.get_legend().get_title().get_text() for axis in top]
    assert titles == ["attention", "attention x gradient", "others"]
    hues = [[to_hex(line.get_color()) for line in axis.lines] for axis in top]
    assert hues[0][:4] == [*[FAINT] * 3, METHODS["rollout"]]
    assert hues[1][2:4] == [METHODS["gae"], METHODS["ga"]]
    assert top[0].lines[3].get_ydata().tolist() == [95, 70, 45]
    assert set(top[0].lines[-1].get_ydata()) == {45.0}, "the guess"
    assert figure.axes[-1].get_xlabel() == "erased tokens (%)"


def test_models_have_colours_that_differ_in_print_supervised_ones_first():
    kinds = {"mini-dino": "self-supervised", "x": "supervised", "mini-deit": "supervised"}
    scales = shared.model_scales(pd.DataFrame(kinds.items(), columns=["model", "kind"]))
    assert scales["color"].order == ["mini-deit", "x", "mini-dino"]
    assert set(scales["marker"].values) == set(kinds)
    grey = sorted(
        np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) for colour in shared.COLOURS.values()
    )
    assert np.diff(grey).min() > 0.03

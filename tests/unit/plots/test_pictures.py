"""Curves, bars, points and lines: what a reader finds in each, drawn from small tables."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb

from relevit.finetune.learning_rate import class_loss_column
from reproduction.measures.paired import GROUPS, ORIGINAL
from reproduction.params.cells import FINETUNED, params_of
from reproduction.plots import curves, intervals, lines
from reproduction.plots.style import CONTROL, FAINT, GAIN, LOSS, METHODS, OURS, alternative_text
from reproduction.plots.tables import change_heatmap, entropy_maps

KINDS = {"mini-dino": "self-supervised", "mini-deit": "supervised"}
SEEDS = (0, 1)


def table(columns: str, *rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


def runs(value, **columns) -> pd.DataFrame:
    """A row for each model, seed and combination of `columns`; `value` maps a row to numbers."""
    keys = {"model": KINDS, "seed": SEEDS} | columns
    made = [dict(zip(keys, row, strict=True)) for row in itertools.product(*keys.values())]
    return pd.DataFrame([row | {"kind": KINDS[row["model"]]} | value(row) for row in made])


def score(row) -> dict:
    """Falls with depth for mini-deit alone; later heads are lower, except in layer 2."""
    falls = 0.2 * row["layer"] * (row["model"] == "mini-deit")
    head = (-1 if row["layer"] == 2 else 1) * 0.05 * (row["head"] - 2.5)
    lower = 0.1 * (row["map"] == "aav_dino")
    return {"score": 0.8 - falls - head - lower + 0.02 * row["seed"] + 0.01 * (row["image"] - 2)}


def slope(row) -> dict:
    middle = -0.4 * (row["model"] == "mini-deit") + 0.02 * row["seed"]
    return {"slope": middle, "low": middle - 0.03, "high": middle + 0.05}


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
    rows = itertools.product(methods, ("positive", "negative"), (0, 50, 100))
    found = table("method direction share_pct", *rows)
    return found.assign(accuracy_pct=95.0 - found["share_pct"] / 2)


def seen(axis) -> dict:
    """What there is in a panel; points and their ends are those of the last group."""
    across = axis.get_ylim()[0] > axis.get_ylim()[1]
    bars = [bar for bar in axis.patches if hasattr(bar, "get_width")]
    names = axis.get_yticklabels() if across else axis.get_xticklabels()
    found = {
        "title": axis.get_title(),
        "across": axis.get_xlabel(),
        "names": [name.get_text() for name in names],
        "texts": [text.get_text().strip() for text in axis.texts if text.get_text()],
        "bars": [bar.get_width() if across else bar.get_height() for bar in bars],
        "colours": [to_hex(bar.get_facecolor()) for bar in axis.patches],
        "lines": [np.asarray(line.get_ydata()) for line in axis.lines],
        "hues": [to_hex(line.get_color()) for line in axis.lines],
        "bands": [path.get_paths()[0].vertices[:, 1] for path in axis.collections],
    }
    found["bands"] = [[heights.min(), heights.max()] for heights in found["bands"]]
    for held in axis.containers:
        held = getattr(held, "errorbar", held) or held
        if hasattr(held, "has_xerr"):
            points, _, (ends,) = held.lines
            found["points"] = [*points.get_data()[0 if across else 1]] if points else []
            found["ends"] = [end[:, 0 if across else 1] for end in ends.get_segments() if end.size]
    return found


SEEN = ("seen", 50.0, 40.0, 60.0)
SCORES = ("gae", 50.0, 40.0, 60.0, "f1"), ("random", 5.0, 5.0, 5.0, "f1")
HALF = {"bars": [50], "ends": [[40, 60]]}
TESTS = ("rank_correlation", "miou_pct", "erasing_pts", "truth_pct")
SHARES = table("arm relevance on_object_pct on_props_pct on_texture_pct",
               (ORIGINAL, False, 50.0, 10.0, 40.0), ("ours", True, 70.0, 0.0, 30.0))  # fmt: skip
TWINS = pd.concat([SHARES, SHARES[1:].assign(relevance=False), SHARES[1:].assign(arm="published")])
WORDS = ("ga", "class", 70.0), ("ga", "other", 30.0), ("raw", "class", 0.0), ("raw", "other", 0.0)
AREAS = [(n, d, v * (d == "negative")) for n, v in zip("cab", (9, 4, 5), strict=True)
         for d in ("negative", "positive")]  # fmt: skip
GAPS = pd.Series({"own": 30.0, "home 1": 60.0, "home 0.8": 6.0, "home 0.5": 5.0})
FAR = ("a", 6.0, 5.0, 7.0), ("b", 3.0, 2.5, 3.5), ("c", -25.0, -26.0, -24.0)
WORTHS = ("gae", 0.1, 0.0, 0.3, "own", "val"), ("lrp", 0.2, 0.1, 0.3, "own", "a")
ARMS = table("change_pts low_pts high_pts", (9, 8, 10), (7, 5, 8))
DEPTHS = runs(score, map=("smoothgrad", "aav_dino"), layer=range(1, 4), head=range(1, 5),
              image=range(5))  # fmt: skip
ORDERS = {"attention": 0.5, "smoothgrad": 0.8, "random": 0.3}
# How each is drawn, and what must be seen in its first panel or, with a number, in another.
PICTURES = {
    "exact zeros": (
        lambda: curves.gap_dots({("rrr", "published"): table(
            "difference_norm alone_norm", (0.0, 1.0), (1.0, 2.0))}),
        {"title": "RRR", "lines": [[0, 0.5]]}),
    "chance is one line, the distance to it shaded": (
        lambda: curves.chance_curves(erased("gae", "random"), "t"),
        {"lines": [[95, 70, 45]] * 3, "bands": [[45, 95]] * 2}),
    "rationales": (
        lambda: curves.rationale_curves_figure(table(
            "method k f1_pct standard_error_pts", ("ga", 10, 3.0, 0.5), ("ga", 20, 4.0, 0.5)), "t"),
        {"bands": [[2.02, 4.98]], "across": "highest tokens\ntaken (k)"}),
    "with and without": (
        lambda: intervals.added_bars(added(), "t"),
        {"title": "ours", "bars": [1, 2, 3, -1, -2, -3], "colours": [OURS] * 3 + [CONTROL] * 3,
         "ends": [[-3, 2], [-4, 1], [-5, 0]]}),
    "neighbours have a point, probes none": (
        lambda: intervals.neighbour_dots(table(
            "model data test accuracy_pct images", ("with", "val", "k = 1", 80.0, 100),
            ("with", "val", "linear probe", 90.0, math.nan)), "t"),
        {"points": [80], "names": ["val\nk = 1"]}),
    "near names of worlds below each other": (
        lambda: intervals.dose_response(added([*GAPS.index], ["ours"]), GAPS, "t"),
        {"points": [66, 46, 6, 26], "texts": ["home 0.5\nhome 0.8", "own", "home 1"]}),
    "a bar far beyond all others is cut": (
        lambda: intervals.average_bars(table("run change_pts low_pts high_pts", *FAR), "run", "t"),
        {"texts": ["◂ -25.0"], "colours": [GAIN, GAIN, LOSS]}),
    "shares": (
        lambda: intervals.share_bars(SHARES, "t"),
        {"bars": [50, 70, 10, 0, 40, 30], "names": [ORIGINAL, "with"]}),
    "shares of twins": (
        lambda: intervals.share_bars(TWINS, "t"),
        {"names": [ORIGINAL, "ours, without", "ours, with", "published, with"]}),
    "an empty map": (
        lambda: intervals.word_bars(table("method kind share_pct", *WORDS), "t"),
        {"texts": ["70", "30", "no map"]}),
    "accuracies": (
        lambda: intervals.accuracy_bars(table("dataset top1_pct images", ("val", 50, 100)), "t"),
        {"bars": [50], "ends": [[40.2, 59.8]], "names": ["val"]}),
    "scores": (
        lambda: intervals.score_bars(
            table("method value_pct low_pct high_pct score", *SCORES), "t", {"f1": True, "": 0}),
        {"title": "f1 (%)\nhigher is better", "bars": [50, 5], "ends": [[40, 60]]}),
    "areas": (
        lambda: intervals.score_bars(
            table("method auc_pct low_pct high_pct direction", (*SCORES[0][:4], "negative")), "t"),
        HALF | {"title": "negative: AUC (%)\nhigher is better"}),
    "zero-shot": (
        lambda: intervals.zero_shot_bars(
            table("classes accuracy_pct low_pct high_pct seed chance_pct", (*SEEN, 0, 5)), "t"),
        HALF | {"names": ["seen classes"]}),
    "pointing of groups": (
        lambda: intervals.pointing_bars(
            table("classes own_object_pct low_pct high_pct method", (*SEEN, "gae")), "t"), HALF),
    "pointing": (
        lambda: intervals.pointing_bars(
            table("method own_object_pct low_pct high_pct", SEEN), "t"),
        {"points": [50], "ends": [[40, 60]]}),
    "panels share their places": (
        lambda: intervals.causal_dots(table(
            "method value low high zero dataset", *WORTHS).assign(score=TESTS[0]),
            {"val": "home", "a": "away"}),
        {"points": [0.1, math.nan], "ends": [[0, 0.3]], "names": ["gae", "lrp"]}),
    "three tests, marks grey": (
        lambda: intervals.score_bars(table("method score value low high", *(
            (name, test, 0.5, 0.4, 0.6) for name in ("gae", "(random)") for test in TESTS)), "t"),
        {"names": ["gae", "(random)"], "colours": [METHODS["gae"], FAINT]}),
    "two tests": (
        lambda: intervals.two_tests(
            table("method metric value_pct", *((n, "miou_pct", "abc".index(n)) for n in "abc")),
            table("method direction auc_pct", *AREAS)),
        {"texts": ["a", "b", "c"], "title": "Spearman's correlation of the two orders: 1.00"}),
    "classes are sorted": (
        lambda: intervals.class_grid(table("dataset label name change_top1_pts", *(
            ("val", i, f"c{i}", change) for i, change in enumerate((3.0, -2.0, 0.0)))), [0], "t"),
        {"bars": [-2, 0, 3], "across": "c1 … c0"}),
    "arms, and ours stands out": (
        lambda: intervals.arm_changes(ARMS.set_axis(["swap_5e-6", "relevance"]), "t", "relevance"),
        {"names": ["swap, at the rate of relevance", "relevance"],
         "bars": [9, 7], "ends": [[8, 10], [5, 8]], "colours": [FAINT, OURS]}),
    "depth": (
        lambda: lines.depth_curves(DEPTHS),
        {"title": "SmoothGrad", "lines": [[0.61, 0.41, 0.21], [0.81] * 3],
         "bands": [[0.2, 0.62], [0.8, 0.82]]}),
    "agreement above that of a head without a choice": (
        lambda: lines.agreement_curves(runs(
            lambda row: {"score": 0.5, "uniform": 0.45, "centred": -0.1}, layer=(1, 2))),
        {"lines": [*[[0.05] * 2] * 2, [0, 0]]}, 1),
    "boxes of one seed, sorted and coloured by the median": (
        lambda: lines.score_boxes(DEPTHS, (1, 2)),
        {"title": "mini-deit, layer 2", "colours": [lines.LOW] * 4, "names": [*"4321"]}, 1),
    "boxes of the last layer": (
        lambda: lines.entropy_boxes(DEPTHS.rename(columns={"score": "entropy"})),
        {"title": "mini-dino, layer 3"}, 1),
    "slopes": (
        lambda: lines.slope_intervals(runs(slope, map=("smoothgrad", "mask"))),
        {"points": [-0.38], "ends": [[-0.41, -0.33]],
         "names": ["mini-deit\nsupervised", "mini-dino\nself-supervised"]}),
    "drift": (
        lambda: lines.drift_curves(runs(
            lambda row: {"difference": row["epoch"] / 10}, epoch=(1, 2), quantity=["attention"])),
        {"title": "Attention maps", "lines": [[0.1, 0.2]] * 2}),
    "masking": (
        lambda: lines.masking_curves(runs(
            lambda row: {"top1_pct": 90 - ORDERS[row["order"]] * row["ratio_pct"]},
            order=ORDERS, ratio_pct=(10, 50))),
        {"lines": [[82, 50], [85, 65], [87, 75]]}),
    "a row far beyond all others": (
        lambda: change_heatmap(table("val a", (1.0, 14.0), (-37.0, -3.0)), "t"),
        {"texts": ["+1.0", "+14.0", "-37.0", "-3.0"], "across": "colours end at ±14.0"}),
    "a row that is not": (
        lambda: change_heatmap(table("val a", (1.0, 14.0), (-20.0, -3.0)), "t"), {"across": ""}),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_each_picture_shows_its_table(name):
    draw, expected, *panel = PICTURES[name]
    found = seen(draw().axes[panel[0] if panel else 0])
    for part, wanted in expected.items():
        assert len(found[part]) == len(wanted), (part, found[part])
        for one, other in zip(found[part], wanted, strict=True):
            words = isinstance(other, str)
            assert one == (other if words else pytest.approx(other, nan_ok=True)), (part, found)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("points", [False, True])
def test_values_and_ends_are_those_of_the_table(across, points):
    shown = table("set pct low_pct high_pct", ("x", 5, 4, 7), ("y", 8, 8, 8))
    style = {"across": across, "points": points, "title": "t", "label": "pct"}
    figure = intervals.intervals(shown, "set", "pct", **style)
    found = seen(figure.axes[0])
    assert found["names"] == ["x", "y"] and list(found["points" if points else "bars"]) == [5, 8]
    assert [list(ends) for ends in found["ends"]] == [[4, 7]], "without length there is no cap"
    assert "pct" in alternative_text(figure) and "t" in alternative_text(figure)


def test_no_change_is_drawn_as_none():
    row = ("$a", "with relevance - original", 0.0, 0.0, 0.0)
    shown = table("dataset change change_pts low_pts high_pts", row)
    axis = intervals.paired_changes(shown, "t").axes[0]
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
    left, right = curves.rate_curves(histories, 3.0, params_of(FINETUNED)()).axes
    assert [line.get_xdata().tolist() for line in right.lines[:3:2]] == [[0, 2], [0, 2]]
    marks = {line.get_marker(): line.get_ydata()[0] for line in right.lines}
    assert marks["o"] == 1.008 and marks["X"] == 3.0
    dotted = [
        [li.get_ydata()[0] for li in ax.lines if li.get_linestyle() == ":"] for ax in (left, right)
    ]
    assert dotted == [[3.0], [1.01]]


@pytest.mark.parametrize("log", [False, True])
def test_no_mark_hides_another_or_leaves_the_panel(log):
    columns = {"x": [1, 10], "val": [0.5, -9.0], "change_pts": [0.5, 1.0]}
    rows = pd.DataFrame(columns | {"low_pts": [0.4, 0.9], "high_pts": [0.6, 1.1]})
    figure = curves.sensitivity_curves(rows, "x", "t", "x", log=log)
    figure.canvas.draw()
    shifted, val = (
        line.get_transform().transform(line.get_xydata())
        for line in figure.axes[0].lines
        if line.get_marker() in "os"
    )
    assert (val[0] - shifted[0]).tolist() == pytest.approx([figure.dpi / 16, 0.0])
    assert figure.axes[0].bbox.containsy(val[1][1])


def test_each_family_has_its_panels_and_the_others_are_faint():
    rows = erased("ga", "rollout", "gae", "random", "new")
    figure = curves.perturbation_curves(rows, "t", "erased tokens (%)", 45.0)
    top = figure.axes[:3]
    titles = [axis.get_legend().get_title().get_text() for axis in top]
    assert titles == ["attention", "attention x gradient", "others"]
    hues = [seen(axis)["hues"] for axis in top]
    assert hues[0][:4] == [*[FAINT] * 3, METHODS["rollout"]]
    assert hues[1][2:4] == [METHODS["gae"], METHODS["ga"]]
    assert top[0].lines[3].get_ydata().tolist() == [95, 70, 45]
    assert set(top[0].lines[-1].get_ydata()) == {45.0}, "the guess"
    assert figure.axes[-1].get_xlabel() == "erased tokens (%)"


def test_models_have_their_colours_and_their_kind_its_line():
    kinds = {"mini-dino": "self-supervised", "x": "supervised", "mini-deit": "supervised"}
    styles = lines.model_styles(pd.DataFrame(kinds.items(), columns=["model", "kind"]))
    assert list(styles) == ["mini-deit", "x", "mini-dino"]
    assert [style["linestyle"] for style in styles.values()] == ["--", "--", "-"]
    grey = sorted(
        np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) for colour in lines.COLOURS.values()
    )
    assert np.diff(grey).min() > 0.03


@pytest.mark.parametrize(("gap", "said"), [(0.5, "apart"), (-0.5, "apart"), (0.05, "mixed")])
def test_a_property_keeps_kinds_apart_where_no_runs_mix(gap, said):
    """Two seeds of a model are 0.1 apart."""
    places = pd.MultiIndex.from_product([KINDS, SEEDS], names=["model", "seed"])
    kinds = pd.Series([KINDS[model] for model, _ in places], places, name="kind")
    values = [gap * (KINDS[model] == "supervised") + 0.1 * seed for model, seed in places]
    (axis,) = lines.separation_dots(pd.DataFrame({"iav_slope": values}, places), kinds).axes
    assert axis.get_title().endswith(f"kinds {said}") and len(axis.lines) == 2


def test_entropy_maps_show_layers_by_epochs_and_their_change():
    rows = runs(
        lambda row: {"entropy": 2 + 0.1 * row["epoch"] * row["layer"]},
        epoch=range(4),
        layer=range(1, 4),
    )
    top, _, change, _ = entropy_maps(rows).axes[:4]
    assert top.get_ylim()[0] > top.get_ylim()[1], "layer 1 on top"
    for axis, start in ((top, 2.0), (change, 0.0)):
        drawn = np.asarray(axis.collections[0].get_array()).reshape(3, 4)
        assert drawn == pytest.approx(start + 0.1 * np.outer([1, 2, 3], range(4)))
    assert change.collections[0].get_clim() == pytest.approx((-0.9, 0.9))

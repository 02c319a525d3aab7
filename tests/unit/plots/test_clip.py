"""Pictures of 12_clip: what stands in them, from small tables."""

from __future__ import annotations

import pandas as pd
import torch

from relevit.evaluate.pointing import Pairs
from relevit.plots import clip as plots_clip

IMAGES = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)


def test_captions_stand_below_their_images():
    figure = plots_clip.captioned_images(IMAGES, ["a red cat on sand", "a dog"], columns=3)
    assert [axis.texts[0].get_text() for axis in figure.axes] == ["a red cat on sand", "a dog"]
    assert all(axis.texts[0].get_position()[1] < 0 for axis in figure.axes)


def test_two_phrases_of_an_image_are_side_by_side():
    maps = {"ga": torch.tensor([[[0.0, 1, 0, 0], [0, 0, 1, 0]], [[1, 0, 0, 0], [0, 0, 0, 1.0]]])}
    pairs = Pairs(IMAGES, torch.zeros(2, 2, 8, 8).bool(), torch.tensor([[2, 0], [3, 1]]))
    figure = plots_clip.phrase_figure(pairs, maps, ["a dog", "a bee", "a cat", "an ant"])
    top, below = figure.axes[:4], figure.axes[4:]
    assert [axis.get_title() for axis in top] == ["a cat", "a dog", "an ant", "a bee"]
    peaks = [divmod(int(axis.images[1].get_array().argmax()), 8) for axis in below]
    corners = [(row // 4, column // 4) for row, column in peaks]
    assert corners == [(0, 1), (1, 0), (0, 0), (1, 1)]


def test_loss_has_a_line_a_seed_and_the_guess():
    history = pd.DataFrame({"epoch": [1, 2], "loss": [3.0, 1.0], "scale": [14.0, 15.0]})
    loss, scale = plots_clip.joining_curves({0: history, 4: history}, 4.2).axes
    assert [line.get_label() for line in loss.lines] == ["seed 0", "seed 4", "guess"]
    assert len(scale.lines) == 2


def test_zero_shot_has_a_bar_a_seed_and_chance_of_each_group():
    rows = [(s, g, 50.0 + s, 40.0, 60.0, c) for s in (0, 1) for g, c in (("seen", 5), ("all", 2))]
    names = ["seed", "classes", "accuracy_pct", "low_pct", "high_pct", "chance_pct"]
    (axis,) = plots_clip.zero_shot_bars(pd.DataFrame(rows, columns=names), "t").axes
    assert sorted(bar.get_height() for bar in axis.patches) == [50, 50, 51, 51]
    assert [line.get_ydata()[0] for line in axis.lines if line.get_linestyle() == ":"] == [5, 2]


def test_pointing_has_the_first_method_on_top():
    rows = [(g, m, v, 1.0) for g in ("seen", "unseen") for m, v in (("ga", 80.0), ("gae", 60.0))]
    names = ["classes", "method", "own_object_pct", "standard_error_pts"]
    axis = plots_clip.pointing_bars(pd.DataFrame(rows, columns=names), "t").axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["gae", "ga"]
    assert [bar.get_width() for bar in axis.patches] == [60, 80, 60, 80]


def test_words_are_stacked_to_the_whole_and_an_empty_map_is_marked():
    rows = [("ga", "class", 70.0), ("ga", "other", 30.0)]
    rows += [("raw", "class", 0.0), ("raw", "other", 0.0)]
    table = pd.DataFrame(rows, columns=["method", "kind", "share_pct"])
    axis = plots_clip.word_bars(table, "t").axes[0]
    assert [text.get_text() for text in axis.texts] == ["no map"]
    assert max(bar.get_x() + bar.get_width() for bar in axis.patches) == 100

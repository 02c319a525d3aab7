"""Rows of images and heatmaps: each picture stands where its name says."""

from __future__ import annotations

import torch

from relevit.data.batch import Batch
from relevit.evaluate.looking import Look
from relevit.evaluate.sis import Subsets
from relevit.plots.images import (
    captioned_images,
    cut_steps,
    heatmap_grid,
    looks_grid,
    phrase_figure,
    subset_grid,
)
from relevit.plots.style import GAIN, LOSS

IMAGES = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)


def test_captions_stand_below_their_images():
    figure = captioned_images(IMAGES, ["a red cat on sand", "a dog"], columns=3)
    assert [axis.texts[0].get_text() for axis in figure.axes] == ["a red cat on sand", "a dog"]
    assert all(axis.texts[0].get_position()[1] < 0 for axis in figure.axes)
    assert figure.get_label() == "Images with their captions: a red cat on sand; a dog"


def test_two_phrases_of_an_image_are_side_by_side():
    maps = {"ga": torch.tensor([[[0.0, 1, 0, 0], [0, 0, 1, 0]], [[1, 0, 0, 0], [0, 0, 0, 1.0]]])}
    pairs = Batch(IMAGES, torch.zeros(2, 2, 8, 8).bool(), torch.tensor([[2, 0], [3, 1]]))
    figure = phrase_figure(pairs, maps, ["a dog", "a bee", "a cat", "an ant"], (2, 2))
    top, below = figure.axes[:4], figure.axes[4:8]
    assert [axis.get_title() for axis in top] == ["a cat", "a dog", "an ant", "a bee"]
    peaks = [divmod(int(axis.images[1].get_array().argmax()), 8) for axis in below]
    corners = [(row // 4, column // 4) for row, column in peaks]
    assert corners == [(0, 1), (1, 0), (0, 0), (1, 1)]


def test_wrong_answers_are_in_italics_and_heat_has_a_scale():
    maps = torch.rand(2, 1, 8, 8)
    figure = heatmap_grid(IMAGES, [("ours", maps)], ["cat 9 %", "dog 8 %"], [GAIN, LOSS])
    titles = [axis.title for axis in figure.axes[:2]]
    assert [title.get_fontstyle() for title in titles] == ["normal", "italic"]
    (scale,) = figure.axes[3].child_axes
    assert [text.get_text() for text in scale.get_yticklabels()] == [
        "lowest",
        "highest\nof its map",
    ]
    assert [text.get_text() for text in figure.axes[1].texts] == ["right", "wrong"]


def test_each_models_answer_stands_above_its_own_map():
    none, heat = torch.zeros(2), {"original": 0.25, "ours": 0.75}
    answers = {"original": (["dog", "cat"], [LOSS, GAIN]), "ours": (["cat", "cat"], [GAIN, GAIN])}
    looks = {
        name: Look(torch.full((2, 1, 8, 8), heat[name]), none.long(), none, none, none, *answer)
        for name, answer in answers.items()
    }
    figure = looks_grid(IMAGES, ["a cat", "a cat"], looks)
    assert [axis.get_title() for axis in figure.axes[:6]] == [
        *("a cat", "a cat"),
        *("dog", "cat"),
        *("cat", "cat"),
    ]
    below = [float(axis.images[1].get_array().mean()) for axis in figure.axes[2:6]]
    assert below == [0.25, 0.25, 0.75, 0.75]
    styles = [axis.title.get_fontstyle() for axis in figure.axes[:6]]
    assert styles == ["normal", "normal", "italic", "normal", "normal", "normal"]
    assert [text.get_text() for text in figure.axes[1].texts] == ["right", "wrong"]


def test_a_cut_tells_object_dropped_and_other():
    pieces = torch.tensor([[0, 1], [2, 2]]).repeat(2, 1, 1)
    figure = cut_steps(IMAGES, [("cosine", torch.rand(2, 2, 2)), ("pieces", pieces)])
    legend = figure.axes[5].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["other", "dropped", "object"]
    assert figure.axes[4].images[0].get_array().tolist() == [[0, 1], [2, 2]]


def test_masks_are_outlined_where_there_are_any_and_ends_are_named():
    masks = torch.zeros(2, 1, 8, 8).bool()
    masks[1, :, 2:5, 2:5] = True
    rows = [("ours", torch.rand(2, 1, 8, 8))]
    figure = heatmap_grid(IMAGES, rows, ends=("0", "1"), masks=masks)
    assert [len(axis.collections) for axis in figure.axes[:4]] == [0, 0, 0, 1]
    (scale,) = figure.axes[3].child_axes
    assert [text.get_text() for text in scale.get_yticklabels()] == ["0", "1"]
    assert [text.get_text() for text in figure.axes[3].texts] == ["white line:\nthe object"]
    assert not heatmap_grid(IMAGES, rows, masks=masks[:1].repeat(2, 1, 1, 1)).axes[3].texts


def test_what_misses_the_threshold_is_not_rounded_up_to_it():
    sure = torch.tensor([89.97, 90.4])
    found, path = sure > 90, torch.zeros(1, 2)
    subsets = Subsets(torch.ones(2, 1, 8, 8).bool(), sure, sure, found, path, torch.zeros(1))
    figure = subset_grid(IMAGES / 255, IMAGES / 255, subsets, ["a", "b"], ["cat"])
    assert [axis.get_title().split("\n")[0] for axis in figure.axes[1::2]] == [
        "cat 89.9 %",
        "cat 90 %",
    ]

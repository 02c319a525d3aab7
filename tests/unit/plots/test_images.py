"""Rows of images and heatmaps: each picture stands where its name says."""

from __future__ import annotations

import torch

from relevit.data.pairs import Pairs
from relevit.plots.images import captioned_images, phrase_figure

IMAGES = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)


def test_captions_stand_below_their_images():
    figure = captioned_images(IMAGES, ["a red cat on sand", "a dog"], columns=3)
    assert [axis.texts[0].get_text() for axis in figure.axes] == ["a red cat on sand", "a dog"]
    assert all(axis.texts[0].get_position()[1] < 0 for axis in figure.axes)


def test_two_phrases_of_an_image_are_side_by_side():
    maps = {"ga": torch.tensor([[[0.0, 1, 0, 0], [0, 0, 1, 0]], [[1, 0, 0, 0], [0, 0, 0, 1.0]]])}
    pairs = Pairs(IMAGES, torch.zeros(2, 2, 8, 8).bool(), torch.tensor([[2, 0], [3, 1]]))
    figure = phrase_figure(pairs, maps, ["a dog", "a bee", "a cat", "an ant"])
    top, below = figure.axes[:4], figure.axes[4:]
    assert [axis.get_title() for axis in top] == ["a cat", "a dog", "an ant", "a bee"]
    peaks = [divmod(int(axis.images[1].get_array().argmax()), 8) for axis in below]
    corners = [(row // 4, column // 4) for row, column in peaks]
    assert corners == [(0, 1), (1, 0), (0, 0), (1, 1)]

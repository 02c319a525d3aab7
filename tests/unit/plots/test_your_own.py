"""Pictures of one's own data: names as they are, and nothing that looks like much."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from relevit.data.own.listing import Listing
from relevit.plots.your_own import map_tile, paired_changes, sample_grid, shortened

LONG = "$5 a very long name, longer than a title is, $9.jpg"


@pytest.mark.parametrize("masked", [True, False])
def test_samples_have_their_names_and_their_whole_picture(tmp_path, masked):
    Image.new("RGB", (60, 20), (200, 200, 200)).save(tmp_path / LONG, "png")
    mask = np.zeros((20, 60), dtype=bool)
    mask[:, 40:] = True
    Image.fromarray(mask).save(tmp_path / "mask.png")
    masks = (tmp_path / "mask.png" if masked else None,)
    listing = Listing("x", ("$a", "b"), (tmp_path / LONG,), torch.tensor([0]), masks, tmp_path)
    figure = sample_grid(listing)
    assert len(figure.axes) == 1 + masked
    above = figure.axes[0]
    assert above.get_title() == f"$a\n{shortened(LONG, 34)}" and not above.title.get_parse_math()
    assert above.images[0].get_array().shape == (20, 60, 3) and len(above.collections) == masked
    assert all(figure.dpi * side >= 300 for side in figure.get_size_inches())
    if masked:
        alone = figure.axes[1].images[0].get_array()[..., 0]
        assert (alone[:, 41:] == 200).all() and (alone[:, :39] == 44).all()


def test_a_name_is_shortened_in_its_middle():
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghijk", 10) == "abcde…hijk" and len(shortened(LONG, 34)) == 34


def test_no_change_is_drawn_as_none():
    row = {"dataset": "$a", "change": "with relevance - original", "change_pts": 0.0}
    axis = paired_changes(pd.DataFrame([row | {"low_pts": 0.0, "high_pts": 0.0}]), "t").axes[0]
    assert axis.get_ylim()[0] <= -1 and axis.get_ylim()[1] >= 1
    assert not axis.get_xticklabels()[0].get_parse_math()


def test_a_tile_is_its_map_and_nothing_else():
    image, heat = torch.zeros(3, 8, 8, dtype=torch.uint8), torch.rand(1, 8, 8)
    (axis,) = map_tile(image, heat, torch.eye(8).bool()[None]).axes
    assert axis.get_position().bounds == (0, 0, 1, 1) and len(axis.images) == 2
    assert len(axis.collections) == 1 and len(map_tile(image).axes[0].images) == 1

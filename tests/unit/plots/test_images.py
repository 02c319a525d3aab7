"""Rows of images and heatmaps: each picture stands where its name says."""

import pytest
import torch

from relevit.data.batch import Batch
from relevit.evaluate.looking import Look
from relevit.evaluate.sis import Subsets
from relevit.masks import AutomaticMasks
from reproduction.plots import images as pictures
from reproduction.plots.style import DPI, GAIN, LOSS, alternative_text

IMAGES = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)


def tiles(figure):
    return [axis for axis in figure.axes if axis.images and axis.get_label() != "<colorbar>"]


@pytest.mark.parametrize(("count", "wide"), [(3, 3), (5, 5), (6, 3), (8, 4), (12, 4)])
def test_rows_of_more_than_five_go_on_below_and_tiles_are_large(count, wide):
    many = torch.arange(count)[:, None, None, None].expand(-1, 3, 8, 8)
    titles = [[str(i) for i in range(count)]] * 2
    figure = pictures.image_grid([("a", many), ("b", 100 + many)], titles)
    drawn = tiles(figure)
    firsts = [int(axis.images[0].get_array()[0, 0, 0]) for axis in drawn]
    starts = range(0, count, wide)
    rows = [list(range(s, min(s + wide, count))) for s in starts]
    assert firsts == [i + up for row in rows for up in (0, 100) for i in row]
    assert [axis.get_title() for axis in drawn] == [str(i % 100) for i in firsts]
    assert all(min(axis.get_window_extent().size) >= 150 for axis in drawn)
    assert figure.dpi == DPI and "Images, by row: a; b." in alternative_text(figure)


def test_titles_have_their_colours_and_what_is_wrong_is_in_italics():
    maps = torch.rand(2, 1, 8, 8)
    masks = torch.zeros(2, 1, 8, 8).bool()
    masks[1, :, 2:5, 2:5] = True
    titles = (["cat 9 %", "dog 8 %"], [GAIN, LOSS])
    figure = pictures.heatmap_grid(IMAGES, [("ours", maps)], *titles, ends=("0", "1"), masks=masks)
    shown = [axis.title for axis in tiles(figure)[:2]]
    assert [title.get_fontstyle() for title in shown] == ["normal", "italic"]
    assert [title.get_color() for title in shown] == [GAIN, LOSS]
    assert [len(axis.collections) for axis in tiles(figure)] == [0, 0, 0, 1], "one has an object"
    assert [text.get_text() for text in figure.axes[-1].get_yticklabels()] == ["0", "1"]
    assert "Colours and lines: right; wrong; the object." in alternative_text(figure)


def test_maps_with_both_signs_diverge_around_zero():
    signed = torch.tensor([[-2.0, 0.0], [1.0, 0.5]])[None, None]
    rows = [("lrp", signed), ("gae", signed.clamp(0, 1))]
    figure = pictures.heatmap_grid(IMAGES[:1, :, :2, :2], rows)
    lrp, gae = (axis.images[1] for axis in tiles(figure)[1:3])
    assert lrp.get_clim() == (-1, 1) and gae.get_clim() == (0, 1)
    assert lrp.get_array().tolist() == [[-1, 0], [0.5, 0.25]]
    against, zero, for_it = (lrp.cmap(lrp.norm(value)) for value in (-1.0, 0.0, 1.0))
    assert against[0] > against[2] and for_it[2] > for_it[0] and zero[3] < 0.05
    assert len(figure.axes) == 3 + 2, "a scale of each kind"


def test_the_best_and_the_worst_masks_have_their_overlap_and_a_cross():
    exact = torch.zeros(3, 1, 8, 8).bool()
    exact[:, :, 2:6, 2:6] = True
    refined = exact.clone()
    refined[1, :, 4:6], refined[2] = False, ~exact[2]
    images = torch.full((3, 3, 8, 8), 100, dtype=torch.uint8)
    found = AutomaticMasks(exact, refined, torch.tensor([True, True, False]))
    batch = Batch(images, exact, torch.tensor([0, 1, 2]))
    figure = pictures.mask_gallery(batch, found, 2)
    titles = [axis.get_title() for axis in tiles(figure)]
    assert titles == ["", "", "100 %", "50 %", "", "", "× 0 %", "50 %"]


def test_one_image_or_those_of_several_sets_stand_with_what_models_see():
    none, heat = torch.zeros(2), torch.full((2, 1, 8, 8), 0.25)
    seen = Look(heat, none.long(), none, none, none, ["dog", "cat"], [LOSS, GAIN])
    one = Batch(IMAGES[:1], torch.zeros(1, 1, 8, 8).bool(), torch.zeros(1).long())
    row = tiles(pictures.looks_row(one, "cat", {"with": seen}))
    titles = ["the image: cat\nthe object fills 0 %", "with: dog\n0 % on the object"]
    assert [axis.get_title() for axis in row] == titles
    drawn = tiles(pictures.parts_grid([one, one], ["a:\ncat", "r:\ncat"], {"with": seen}))
    assert [axis.get_title() for axis in drawn] == ["a:\ncat", "r:\ncat", "dog", "cat"]


def test_two_phrases_of_an_image_are_side_by_side():
    maps = {"ga": torch.tensor([[[0.0, 1, 0, 0], [0, 0, 1, 0]], [[1, 0, 0, 0], [0, 0, 0, 1.0]]])}
    masks = torch.zeros(2, 2, 8, 8).bool()
    masks[0, 1, 2:5, 2:5] = True
    pairs = Batch(IMAGES, masks, torch.tensor([[2, 0], [3, 1]]))
    figure = pictures.phrase_figure(pairs, maps, ["a dog", "a bee", "a cat", "an ant"], (2, 2))
    drawn = tiles(figure)
    assert [axis.get_title() for axis in drawn[:4]] == ["a cat", "a dog", "an ant", "a bee"]
    peaks = [divmod(int(axis.images[1].get_array().argmax()), 8) for axis in drawn[4:]]
    assert [(row // 4, column // 4) for row, column in peaks] == [(0, 1), (1, 0), (0, 0), (1, 1)]
    assert [len(axis.collections) for axis in drawn[4:]] == [0, 1, 0, 0], "what is asked for"


def test_a_scene_stands_above_its_maps_with_its_object_outlined():
    masks = torch.zeros(1, 1, 8, 8).bool()
    masks[:, :, 2:5, 2:5] = True
    one = Batch(IMAGES[:1], masks, torch.zeros(1).long())
    maps = {"gae: 5 %": torch.tensor([[1.0, 0, 0, 0]]), "lrp: 9 %": torch.tensor([[-2.0, 0, 0, 1]])}
    drawn = tiles(pictures.scene_figure(one, IMAGES[:2], ["whole", "without"], maps, (2, 2)))
    assert [axis.get_title() for axis in drawn] == ["whole", "without", *maps]
    assert [len(axis.collections) for axis in drawn] == [0, 0, 1, 1]
    assert [float(axis.images[1].get_array().min()) for axis in drawn[2:]] == [0, -1]


def test_maps_of_methods_keep_their_signs_and_one_without_numbers_stays_dark():
    masks = torch.zeros(2, 1, 8, 8).bool()
    masks[1, :, 2:5, 2:5] = True
    maps = {
        "lrp": torch.tensor([[-2.0, 0, 0, 1], [0, 0, 0, 1]]),
        "head|none": torch.full((2, 4), torch.nan),
    }
    figure = pictures.maps_grid(Batch(IMAGES, masks, torch.tensor([0, 1])), maps, (2, 2))
    _, _, lrp, outlined, dark, _ = tiles(figure)
    assert lrp.images[1].get_clim() == (-1, 1) and not dark.images[1].get_array().any()
    assert (len(lrp.collections), len(outlined.collections)) == (0, 1)
    assert dark.get_ylabel() == "head x\nnone"


def test_a_subset_stands_beside_its_image_and_says_whether_it_is_enough():
    path, mask = torch.zeros(1, 10), torch.zeros(10, 1, 8, 8).bool()
    found = torch.tensor([True, False] + 4 * [True] + 4 * [False])
    shares = torch.linspace(90, 99, 10)
    subsets = Subsets(mask, shares, shares - 50, found, path)
    labels = 2 * ["cow", "ant", "dog", "bee", "cat"]
    alone = torch.zeros(10, 3, 8, 8)
    figure = pictures.subset_grid(alone[:2], ["seal 99 %", "shark 9 %"], alone, labels, subsets)
    titles = [axis.title for axis in tiles(figure)]
    assert [title.get_text().split()[0] for title in titles] == [
        "seal", "cow", "ant", "dog", "bee", "shark", "cow", "ant", "dog", "bee"
    ]  # fmt: skip
    assert titles[2].get_text() == "ant 91.0 %\n41 % of the pixels"
    assert [title.get_color() for title in titles[:3]] == ["black", GAIN, LOSS]


def test_a_cut_tells_object_dropped_and_other():
    pieces = torch.tensor([[0, 1], [2, 2]]).repeat(2, 1, 1)
    steps = [("cosine", torch.rand(2, 2, 2)), ("pieces", pieces), ("mask", pieces == 2)]
    figure = pictures.cut_steps(IMAGES, steps)
    drawn = [axis.images[0].get_array().tolist() for axis in tiles(figure)[4::2]]
    assert drawn == [[[0, 1], [2, 2]], [[0, 0], [2, 2]]]
    assert "Colours and lines: other; dropped; object." in alternative_text(figure)

"""What a run is finetuned on: classes, images and masks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from habitats.cutouts import CUTOUTS
from habitats.drawings import class_split
from habitats.photographs import open_photographs
from habitats.real.classes import split_classes
from relevit.data.batch import Batch
from relevit.masks import AutomaticMasks, save_masks
from replicas.imagenet_s import write_imagenet_s
from reproduction.params.cells import FINETUNED, params_of
from reproduction.params.common import Benchmark
from reproduction.runs.run import finetuned_classes, training_images, validation_masks, with_masks


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project in which the masks are there already."""
    for folder in ("params", "outputs/quick/01_masks"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "notebooks").symlink_to(Path(__file__).parents[3] / "notebooks")
    (tmp_path / "params" / "quick.yaml").touch()
    (tmp_path / "outputs" / "quick" / "01_masks" / "summary.json").write_text('{"parameters": {}}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fewer_classes_are_the_first_of_those_finetuned():
    cfg = params_of(FINETUNED)(seed=4, classes=6, images_per_class=2)
    assert finetuned_classes(cfg, CUTOUTS) == class_split(4)[0][:6]
    assert training_images(cfg, CUTOUTS).labels.tolist() == finetuned_classes(cfg, CUTOUTS) * 2


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_boxes_are_the_smallest_rectangles_around_the_masks(dtype):
    """The last mask is empty, and so is its box; a share of a half is not object."""
    drawn = torch.rand(40, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    drawn = (
        torch.where(drawn > 0.93, drawn, drawn / 2).to(dtype)
        if dtype.is_floating_point
        else (drawn > 0.93)
    )
    drawn[-1] = 0
    few = torch.zeros(40).long()
    batch = Batch(torch.zeros(40, 3, 9, 9).byte(), drawn, few)
    found = with_masks(batch, "boxes").masks
    assert found.dtype == dtype
    for mask, box in zip(drawn[:, 0] > 0.5, found[:, 0], strict=True):
        expected = torch.zeros(9, 9)
        if mask.any():
            (top, left), (bottom, right) = mask.nonzero().amin(0), mask.nonzero().amax(0)
            expected[top : bottom + 1, left : right + 1] = 1
        assert torch.equal(box.float(), expected)


def test_masks_that_do_not_know_the_object_are_as_large_as_those_that_do():
    labels = torch.arange(40).repeat(2)
    drawn = torch.rand(80, 1, 60, 60) > torch.rand(80, 1, 1, 1)
    drawn[:, :, :20] = False
    batch = Batch(torch.zeros(80, 3, 60, 60).byte(), drawn, labels)
    found = {kind: with_masks(batch, kind).masks for kind in ("others", "ellipse", "upside_down")}
    share = float(drawn.float().mean())
    for kind, masks in found.items():
        assert (masks.dtype, masks.shape) == (drawn.dtype, drawn.shape)
        assert float(masks.float().mean()) == pytest.approx(share, abs=0.01), kind
    for i in range(80):
        same = (found["others"][i] == drawn).flatten(1).all(dim=1)
        assert (labels[same] != labels[i]).any(), "of another class"
    ellipse = found["ellipse"][0, 0]
    assert torch.equal(ellipse, ellipse.flip(0)) and torch.equal(ellipse, ellipse.T)
    assert (found["ellipse"] == ellipse).all() and ellipse[30, 30]
    assert torch.equal(found["upside_down"].flip(-2), drawn)


@pytest.mark.parametrize("classes", [2, 6, 40])
def test_a_third_is_one_image_in_three_of_each_class(classes):
    """Six classes: every third image would be all of two classes, and none of four."""
    labels = torch.randperm(40)[:classes].repeat(3)
    blank = torch.zeros(len(labels), 1, 2, 2).bool()
    batch = Batch(blank.expand(-1, 3, -1, -1).byte(), blank, labels)
    outlined = with_masks(batch, "a_third").outlined
    assert sorted(labels[outlined].tolist()) == sorted(labels[:classes].tolist())
    if classes == 40:
        assert torch.equal(outlined, torch.arange(120) % 3 == 0), "as the study has them"
    assert with_masks(batch, "annotated") is batch
    with pytest.raises(ValueError, match=r"masks = 'a_third' .*baselines need masks of all images"):
        params_of(FINETUNED).checked({"method": "rrr", "masks": "a_third"}, "here")


def masks_of(batch, kept):
    whole = torch.zeros_like(batch.masks)
    whole[..., 20:60, 30:80] = True
    return AutomaticMasks(whole, whole, torch.tensor(kept))


def test_automatic_masks_replace_the_exact_ones_and_unfit_ones_are_left_out(project):
    cfg = params_of(FINETUNED)(images_per_class=1, classes=4, validation_maps=8)
    batch = training_images(cfg, CUTOUTS)
    shown = CUTOUTS.draw("validation", range(8))
    kept = [True, False, True, True]
    folder = project / "outputs" / "quick" / "01_masks"
    masks = {
        0: (masks_of(batch, kept), batch.images),
        "validation": (masks_of(shown, [True] * 8), shown.images),
    }
    save_masks(folder, masks)
    automatic = cfg.model_copy(update={"masks": "tokencut"})
    found = training_images(automatic, CUTOUTS)
    assert torch.equal(found.images, batch.images[torch.tensor(kept)])
    assert torch.equal(found.masks, masks[0][0].refined[:3])
    assert validation_masks(cfg, CUTOUTS) is None
    assert len(validation_masks(automatic, CUTOUTS).kept) == 8
    none = AutomaticMasks(masks[0][0].coarse, masks[0][0].refined, torch.zeros(4).bool())
    save_masks(folder, masks | {0: (none, batch.images)})
    with pytest.raises(ValueError, match="kept 0 of 4 masks of the training images of seed 0"):
        training_images(automatic, CUTOUTS)
    with pytest.raises(ValueError, match="01_masks"):
        training_images(automatic.model_copy(update={"images_per_class": 2}), CUTOUTS)


def test_photographs_of_another_seed_have_the_masks_that_01_masks_made_for_seed_0(project):
    """Its validation images are the first ones of their classes, as all of seed 0 are (B2)."""
    chosen = [split_classes(2, seed)[0] for seed in (None, 1)]
    write_imagenet_s(project, per_class=2, classes=sorted({wnid for c in chosen for wnid in c}))
    params = Benchmark(data="imagenet", data_root=str(project), finetuned_classes=2)
    bench = open_photographs(params)
    cfg = params_of(FINETUNED)(
        model="vit-b-cut", images_per_class=2, classes=2, validation_maps=8, benchmark=params
    )
    folder, stored = project / "outputs" / "quick" / "01_masks", {}
    for of, batch in (
        (0, training_images(cfg, bench)),
        ("validation", bench.draw("validation", range(8))),
    ):
        marked = AutomaticMasks(batch.masks, batch.masks, torch.ones(len(batch)).bool())
        stored[of] = (marked, batch.images)
    save_masks(folder, stored)
    other = cfg.model_copy(update={"masks": "tokencut", "seed": 1})
    shown = bench.draw("validation", range(8), seed=1)
    assert not torch.equal(shown.images, stored["validation"][1])
    assert torch.equal(validation_masks(other, bench).refined, shown.masks)

"""Automatic masks from images to file and back, and what is refused on the way."""

from __future__ import annotations

import pytest
import torch

from habitats.cutouts import CUTOUTS
from relevit.masks import (
    MASKS,
    AutomaticMasks,
    automatic_masks,
    feature_model,
    feature_spec,
    key_features,
    load_masks,
    masks_of,
    save_masks,
)
from relevit.models.checkpoints import save_weights
from relevit.models.loading import load_model
from relevit.models.registry import model_spec
from relevit.models.spec import IMAGENET
from relevit.protocols import options

PARTS = ("coarse", "refined", "kept")


@pytest.fixture(scope="module")
def batch():
    return CUTOUTS.draw("finetune", range(3), size=56)


@pytest.fixture(scope="module")
def masks(batch):
    """What images would get: all found, the last one not kept."""
    kept = torch.tensor([True, True, False])
    return AutomaticMasks(batch.masks, batch.masks.flip(-1), kept)


@pytest.fixture
def folder(tmp_path, batch, masks):
    save_masks(tmp_path, {0: (masks, batch.images), "validation": (masks, batch.images)})
    return tmp_path


@pytest.mark.parametrize("of", [0, "validation"])
def test_masks_come_back(folder, batch, masks, of):
    found = load_masks(folder, of, batch.images)
    for part in PARTS:
        assert torch.equal(getattr(found, part), getattr(masks, part))
        assert getattr(found, part).dtype == torch.bool


def test_masks_are_found_by_their_images(batch, masks):
    def part(rows):
        return AutomaticMasks(*(getattr(masks, name)[rows] for name in PARTS))

    known = [(part(rows), batch.images[rows]) for rows in (slice(1, 3), slice(1))]
    order = [2, 0, 2]
    found = masks_of(batch.images[order], known, "some")
    for name in PARTS:
        assert torch.equal(getattr(found, name), getattr(masks, name)[order])
    with pytest.raises(ValueError, match=r"masks: 2 of 3 images have no mask among some; let 01_m"):
        masks_of(batch.images, known[1:], "some")


def test_masks_that_are_not_there_or_damaged_are_named(folder, tmp_path_factory, batch):
    images = batch.images
    for of, shown, text in (
        (7, None, r"no masks of seed 7, only of \['0', 'validation'\]; add"),
        (0, images[:2], "of other images than the 2 of seed 0 asked for; run 01_"),
        ("validation", images.flip(0), "of other images than the 3 of the validation images"),
    ):
        with pytest.raises(ValueError, match=text):
            load_masks(folder, of, shown)
    (folder / MASKS).write_bytes((folder / MASKS).read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"masks\.safetensors is cut short or damaged"):
        load_masks(folder, 0)
    with pytest.raises(FileNotFoundError, match=r"masks\.safetensors is missing; check its name"):
        load_masks(tmp_path_factory.mktemp("empty"), 0)


# From end to end


def test_masks_of_images(batch):
    model = feature_model("tiny-mae", 84)
    found = automatic_masks(
        model, model_spec("tiny-mae"), batch.images, **options("published", "refine")
    )
    assert found.coarse.shape == found.refined.shape == (3, 1, 56, 56)
    assert len(found) == 3 and found.kept.dtype == torch.bool
    area = found.refined[found.kept].float().mean(dim=(1, 2, 3))
    assert bool(((area > 0) & (area < 1)).all())
    # 6 x 6 patches, brought to 56 pixels by the nearest one (B18).
    small = found.coarse[:, :, 4::9, 4::9][:, :, :6, :6].float()
    assert torch.equal(torch.nn.functional.interpolate(small, 56) > 0, found.coarse)


def test_features_of_a_papers_model_are_those_of_a_file(tmp_path):
    model = load_model("vit-b-cut", "random", seed=5)
    save_weights(tmp_path / "weights.safetensors", model, "vit-b-cut")
    found = feature_model("vit-b-cut", 224, weights=tmp_path / "weights.safetensors")
    images = torch.rand(1, 3, 224, 224)
    assert torch.equal(key_features(found, images), key_features(model.eval(), images))


def test_features_have_the_pixel_statistics_of_their_pretraining():
    """TokenCut shows DINO pictures as DINO was trained; the rest of the suite does not (B5)."""
    half = model_spec("dino-b", pixels="half")
    assert feature_spec("dino-b").mean == IMAGENET["mean"] != half.mean
    for name in ("tiny-mae", "dinov2-s"):
        assert feature_spec(name) == model_spec(name)

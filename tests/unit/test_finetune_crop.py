"""What training sees of a photograph: whole and squeezed, then cropped at random (B4)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from relevit import benchmark, runs
from relevit.benchmark import CUTOUTS, imagenet
from relevit.config import FinetuneParams, PipelineParams
from relevit.data.batch import Batch
from relevit.data.real.image_set import ImageSet
from relevit.finetune import CROP_MARGIN, augment, check_masks, finetune
from relevit.settings import FinetuneSettings

from .micro_finetuning import SPEC, micro_model, pictures, validate

WIDE = (400, 300)  # width and height
MODEL = 224  # pixels
LABELS = (5, 7)


def photograph(place):
    """Noise, and as much red as says which it is."""
    pixels = np.random.default_rng(place).integers(256, size=(*WIDE[::-1], 3), dtype=np.uint8)
    pixels[..., 0] = 50 * place
    return Image.fromarray(pixels)


def outline(place):
    mask = np.zeros(WIDE[::-1], dtype=bool)
    mask[:, 60 * place : 100 + 60 * place] = True  # the first touches the left edge
    return mask


@pytest.fixture
def photographs(monkeypatch):
    """Four photographs of two classes, as ImageNet-S has them."""
    found = ImageSet(
        "photographs", ("a", "b", "c", "d"), torch.tensor(2 * LABELS), photograph, masks=outline
    )
    monkeypatch.setattr(benchmark, "_opened", lambda sets, name: replace(found, view=sets.view))
    params = PipelineParams(preset="paper", seeds=[0], data="imagenet", data_root="none")
    return imagenet(params, "vit-b")


def test_whole_photographs_are_squeezed_to_256_pixels(photographs):
    batch = photographs.to_crop([5, 7, 5], 0)
    assert batch.images.shape == (3, 3, 256, 256) and batch.masks.shape == (3, 1, 256, 256)
    assert batch.labels.tolist() == [5, 7, 5]
    for row, place in enumerate((0, 1, 2)):
        square = photograph(place).resize((256, 256), Image.Resampling.BILINEAR)
        assert torch.equal(batch.images[row], torch.from_numpy(np.array(square)).permute(2, 0, 1))
        share = batch.masks[row].float().mean().item()
        assert share == pytest.approx(outline(place).mean(), abs=1 / 256), "nothing is cut off"


def test_they_are_those_of_the_view_that_notebooks_show(photographs):
    for seed in (0, 3, 4):
        shown = photographs.draw("finetune", range(4), labels=[7, 5, 5, 7], seed=seed, size=MODEL)
        trained = photographs.to_crop([7, 5, 5, 7], seed)
        assert shown.images.shape[-1] == MODEL and torch.equal(shown.labels, trained.labels)
        which = shown.images[:, 0, 0, 0]
        assert torch.equal(which, trained.images[:, 0, 0, 0]) and len(set(which.tolist())) == 4


def positions(count=3000):
    """What `augment` did to pictures whose pixels say where they are."""
    side = torch.arange(256, dtype=torch.uint8)
    picture = torch.stack([side[:, None].expand(256, 256), side.expand(256, 256),
                           torch.zeros(256, 256, dtype=torch.uint8)])  # fmt: skip
    mask = (picture[:1] + picture[1:2].int()) % 3 == 0
    few = torch.zeros(1).long()
    batch = Batch(picture[None], mask[None], few, few)
    random = np.random.default_rng(0)
    crops = [augment(batch, random, MODEL) for _ in range(count)]
    return picture, mask, [(images[0], masks[0]) for images, masks in crops]


def test_crop_is_a_window_of_224_pixels_anywhere_and_half_are_mirrored():
    picture, mask, crops = positions()
    tops, lefts, mirrored = set(), set(), 0
    for image, cut in crops:
        assert image.shape == (3, MODEL, MODEL) and cut.shape == (1, MODEL, MODEL)
        flipped = int(image[1, 0, 0]) > int(image[1, 0, -1])
        if flipped:
            image, cut = image.flip(-1), cut.flip(-1)
        top, left = int(image[0, 0, 0]), int(image[1, 0, 0])
        window = slice(top, top + MODEL), slice(left, left + MODEL)
        assert torch.equal(image, picture[:, *window]), "no pixel is invented"
        assert torch.equal(cut, mask[:, *window]), "the mask moves with the image"
        tops.add(top)
        lefts.add(left)
        mirrored += flipped
    assert tops == lefts == set(range(256 - MODEL + 1)), "33 places each way"
    assert 0.45 < mirrored / len(crops) < 0.55


def test_images_of_the_models_size_are_mirrored_outwards_as_ever():
    """Cutouts keep their bytes: an independent way to the same crops, and a fixed digest."""
    batch = pictures("finetune", 10)
    images, masks = augment(batch, np.random.default_rng(3), SPEC.image_size)
    random, margin = np.random.default_rng(3), CROP_MARGIN * SPEC.image_size // 112
    for i in range(10):
        top, left = random.integers(2 * margin + 1, size=2)
        flip = -1 if random.random() < 0.5 else 1
        for found, source in ((images[i], batch.images[i]), (masks[i], batch.masks[i])):
            around = ((0, 0), (margin, margin), (margin, margin))
            wide = np.pad(source.numpy(), around, mode="reflect")
            side = SPEC.image_size
            crop = wide[:, top : top + side, left : left + side][..., ::flip]
            assert np.array_equal(found.numpy(), crop)
    both = images.numpy().tobytes() + masks.numpy().tobytes()
    assert hashlib.sha256(both).hexdigest()[:16] == "96ccea9b9d9ff4a7"


def test_only_photographs_with_annotated_masks_are_cropped_out_of_larger_ones(
    photographs, monkeypatch
):
    shown = SimpleNamespace(name="the view")
    monkeypatch.setattr(runs, "benchmark", lambda preset: photographs)
    monkeypatch.setattr(runs, "finetuned_classes", lambda cfg: list(LABELS))
    monkeypatch.setattr(runs, "training_images", lambda cfg: shown)
    cfg = FinetuneParams(images_per_class=2, model="vit-b")
    for protocol in ("published", "described"):
        found = runs.images_to_crop(cfg.model_copy(update={"protocol": protocol}))
        assert found.labels.tolist() == [5, 7, 5, 7] and found.images.shape[-1] == 256
    assert runs.images_to_crop(cfg.model_copy(update={"masks": "tokencut"})) is shown
    monkeypatch.setattr(runs, "benchmark", lambda preset: CUTOUTS)
    assert runs.images_to_crop(cfg) is shown


def test_object_may_fill_a_photograph_but_not_be_missing(tmp_path):
    full = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    check_masks(full, may_be_full=True)
    with pytest.raises(ValueError, match="mask 0 has no object"):
        check_masks(~full, may_be_full=True)
    small = pictures("finetune", 4)
    large = replace(
        small,
        images=small.images.repeat_interleave(2, 2).repeat_interleave(2, 3),
        masks=torch.ones(4, 1, 56, 56, dtype=torch.bool),
    )
    settings = FinetuneSettings(lr=1.0e-3, epochs=1, batch_size=4)
    history = finetune(micro_model(), SPEC, large, validate, settings, tmp_path, inputs={})
    assert history[1]["train_loss_background"] == 0.0

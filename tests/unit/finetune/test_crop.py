"""What training sees of a photograph: whole and squeezed, then cropped at random (B4)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from habitats import photographs as module
from habitats.cutouts import CUTOUTS
from habitats.photographs import open_photographs
from habitats.real.classes import SHORT_NAMES
from relevit.data.batch import Batch
from relevit.data.image_set import picture_set
from relevit.finetune.loop import CROP_MARGIN, augment
from reproduction import runs
from reproduction.params.cells import FINETUNED, params_of
from reproduction.params.common import Benchmark
from reproduction.runs import run

from ..micro_finetuning import SPEC, pictures

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

    def opened(sets, name, seed=0):
        labels, ids = 2 * LABELS, ("a", "b", "c", "d")
        return picture_set(
            "photographs", SHORT_NAMES, labels, ids, photograph, sets.view, masks=outline
        )

    monkeypatch.setattr(module, "_opened", opened)
    return open_photographs(Benchmark(data="imagenet", data_root="none"))


def test_whole_photographs_are_squeezed_to_256_pixels(photographs):
    batch = photographs.to_crop([5, 7, 5], 0, MODEL, "described")
    assert batch.images.shape == (3, 3, 256, 256) and batch.masks.shape == (3, 1, 256, 256)
    assert batch.labels.tolist() == [5, 7, 5]
    for row, place in enumerate((0, 1, 2)):
        square = photograph(place).resize((256, 256), Image.Resampling.BILINEAR)
        assert torch.equal(batch.images[row], torch.from_numpy(np.array(square)).permute(2, 0, 1))
        share = batch.masks[row].float().mean().item()
        assert share == pytest.approx(outline(place).mean(), abs=1 / 256), "nothing is cut off"


def fractions(masks):
    return (masks > 0) & (masks < 1)


def test_published_masks_are_fractions_along_the_edge_alone(photographs):
    """As torch resizes tensors without antialiasing, columns of 400 to 256 pixels (A7)."""
    soft, sharp = (photographs.to_crop([5, 7], 0, MODEL, p) for p in ("published", "described"))
    assert sharp.masks.dtype == torch.bool and torch.equal(soft.images, sharp.images)
    assert torch.equal(soft.masks > 0.5, sharp.masks)
    centres = (np.arange(256) + 0.5) * 400 / 256 - 0.5  # of the new columns, in the old ones
    for place, mask in enumerate(soft.masks):
        line = np.interp(centres, np.arange(400), outline(place)[0].astype(float))
        assert np.allclose(mask[0].numpy(), line, atol=1e-4)
        # Antialiasing makes more; of the first the edge is at 64.0.
        assert fractions(mask[0]).sum(dim=1).unique().tolist() == [2 * place]
    images, masks = augment(soft, np.random.default_rng(2), MODEL)
    same, cut = augment(sharp, np.random.default_rng(2), MODEL)
    assert torch.equal(images, same) and torch.equal(masks > 0.5, cut) and fractions(masks).any()


def test_crop_is_a_window_of_224_pixels_anywhere_and_half_are_mirrored():
    """Of a picture whose pixels say where they are; no pixel is invented."""
    side = torch.arange(256, dtype=torch.uint8)
    rows, columns = torch.meshgrid(side, side, indexing="ij")
    picture = torch.stack([rows, columns, torch.zeros_like(rows)])
    mask = (picture[:1] + picture[1:2].int()) % 3 == 0
    batch, random = (
        Batch(picture[None], mask[None], torch.zeros(1).long()),
        np.random.default_rng(0),
    )
    tops, lefts, mirrored = set(), set(), 0
    for _ in range(500):
        both = [part[0] for part in augment(batch, random, MODEL)]
        flipped = int(both[0][1, 0, 0]) > int(both[0][1, 0, -1])
        image, cut = (part.flip(-1) for part in both) if flipped else both
        top, left = int(image[0, 0, 0]), int(image[1, 0, 0])
        window = slice(top, top + MODEL), slice(left, left + MODEL)
        assert torch.equal(image, picture[:, *window]) and torch.equal(cut, mask[:, *window])
        tops.add(top)
        lefts.add(left)
        mirrored += flipped
    assert tops == lefts == set(range(256 - MODEL + 1)), "33 places each way"
    assert 0.4 < mirrored / 500 < 0.6


def test_images_of_the_models_size_are_mirrored_outwards_as_ever():
    """Cutouts keep their bytes: an independent way to the same crops."""
    batch, side = pictures("finetune", 10), SPEC.image_size
    before = batch.images.clone()
    images, masks = augment(batch, np.random.default_rng(3), side)
    random, margin = np.random.default_rng(3), CROP_MARGIN * side // 112
    for i in range(10):
        top, left = random.integers(2 * margin + 1, size=2)
        flip = -1 if random.random() < 0.5 else 1
        for found, source in ((images[i], batch.images[i]), (masks[i], batch.masks[i])):
            wide = np.pad(source.numpy(), ((0, 0), (margin,) * 2, (margin,) * 2), mode="reflect")
            crop = wide[:, top : top + side, left : left + side][..., ::flip]
            assert np.array_equal(found.numpy(), crop)
    assert torch.equal(batch.images, before), "the batch is left alone"


def test_only_photographs_with_annotated_masks_are_cropped_out_of_larger_ones(
    photographs, monkeypatch
):
    shown = photographs.draw("finetune", [0])
    monkeypatch.setattr(run, "finetuned_classes", lambda cfg, bench: list(LABELS))
    monkeypatch.setattr(run, "training_images", lambda cfg, bench: shown)
    cfg = params_of(FINETUNED)(images_per_class=2, model="vit-b")
    for protocol in ("published", "described"):
        found = runs.images_to_crop(cfg.model_copy(update={"protocol": protocol}), photographs)
        assert found.labels.tolist() == [5, 7, 5, 7] and found.images.shape[-1] == 256
        assert bool(fractions(found.masks).any()) == (protocol == "published")
    automatic = cfg.model_copy(update={"masks": "tokencut"})
    assert runs.images_to_crop(automatic, photographs) is shown
    monkeypatch.undo()
    drawn = params_of(FINETUNED)(images_per_class=1, classes=2)
    found = runs.images_to_crop(drawn, CUTOUTS)
    assert torch.equal(found.images, runs.training_images(drawn, CUTOUTS).images)


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Where a run with some parameters starts, without its model."""

    def asked(cfg, bench):
        if bench is not CUTOUTS:
            monkeypatch.setattr(run, "finetuned_classes", lambda cfg, bench: list(LABELS))
        monkeypatch.setattr(run, "load_model", lambda *args, **options: nn.Identity())
        monkeypatch.setattr(run, "file_fingerprint", lambda path: "weights")
        return runs.start_of(cfg.model_copy(update={"device": "cpu"}), bench, tmp_path)

    return asked


@pytest.mark.parametrize("protocol", ["published", "described"])
def test_a_run_trains_and_is_validated_on_the_masks_of_its_protocol(photographs, started, protocol):
    cfg = params_of(FINETUNED)(images_per_class=2, model="vit-b", protocol=protocol)
    seen = started(cfg, photographs)
    soft = protocol == "published"
    for part in (seen.train, seen.validation):
        assert bool(fractions(part.masks).any()) == soft
    assert ("edges" in seen.inputs) == soft, "a run with other masks is another run"


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("drawn", [False, True])
def test_a_run_is_validated_on_the_images_of_its_seed_and_says_so(
    photographs, started, monkeypatch, seed, drawn
):
    """Drawings for validation are the same ones for all runs, which keep their identity."""
    model, bench = ("tiny", CUTOUTS) if drawn else ("vit-b", photographs)
    draw, asked = type(bench).draw, {}

    def noted(self, name, *args, **how):
        asked[name] = how["seed"]
        return draw(self, name, *args, **how)

    monkeypatch.setattr(type(bench), "draw", noted)
    how = {"validation_images": 40, "validation_maps": 8, "images_per_class": 1}
    seen = started(params_of(FINETUNED)(**how, seed=seed, model=model), bench)
    own = 0 if drawn else seed
    assert (asked["validation"], seen.inputs.get("validation_seed", 0)) == (own, own)
    assert ("validation_seed" in seen.inputs) == (own > 0)

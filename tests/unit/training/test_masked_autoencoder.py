"""Pretraining by masking, by hand on a 2-layer ViT, and the model that came out of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import timm
import torch

from relevit.data import cutouts
from relevit.data.cutouts import drawn
from relevit.data.foregrounds import CLASSES
from relevit.evaluate.predictions import predict
from relevit.models.loading import ModelSpec, load_model, model_spec, shipped_weights
from relevit.training.masked_autoencoder import (
    Decoder,
    PretrainSettings,
    build_autoencoder,
    draw_masks,
    encode_visible,
    masked_loss,
    patch_targets,
    pretrain,
)

pytestmark = pytest.mark.usefixtures("no_network")

KINDS = ("plain", "average", "registers", "average_and_registers")
SIDE = 7  # pixels of a patch, as the models of build_vit have it
PATCHES = 16

OPTIONS = {"patch_size": SIDE, "embed_dim": 16, "depth": 2, "num_heads": 2, "global_pool": "avg"}
HALF = (0.5, 0.5, 0.5)
MICRO = ModelSpec("micro", "vit_tiny_patch16_224", 28, HALF, HALF, OPTIONS)
SETTINGS = PretrainSettings(lr=3.0e-3, images=80, epochs=2, batch_size=16, decoder_width=16)


@pytest.fixture
def masked():
    return draw_masks(np.random.default_rng(5), 3, PATCHES, 0.75)


def micro_model(seed=0):
    torch.manual_seed(seed)
    return timm.create_model(MICRO.timm_name, img_size=28, num_classes=40, **OPTIONS)


def run(folder, settings=SETTINGS, model=None, **callbacks):
    model = micro_model() if model is None else model
    count = settings.images * settings.epochs
    images = {
        "train": drawn("train", count, seed=settings.seed, size=28),
        "validation": drawn("validation", 24, size=28),
    }
    return pretrain(model, MICRO, settings, folder, **images, **callbacks)


def on_pixels(masked):
    """The mask of the patches as one of the pixels, [batch, 1, 28, 28]."""
    grid = masked.view(-1, 1, 4, 4)
    return grid.repeat_interleave(SIDE, dim=2).repeat_interleave(SIDE, dim=3)


# Masks


@pytest.mark.parametrize(("share", "hidden"), [(0.75, 12), (0.5, 8), (0.7, 11), (0.05, 1)])
def test_each_image_hides_equally_many_patches(share, hidden):
    masks = draw_masks(np.random.default_rng(0), 50, PATCHES, share)
    assert masks.dtype == torch.bool and tuple(masks.shape) == (50, PATCHES)
    assert set(masks.sum(dim=1).tolist()) == {hidden}


def test_each_patch_is_hidden_alike_and_images_differ():
    masks = draw_masks(np.random.default_rng(0), 4000, PATCHES, 0.75)
    assert (masks.float().mean(dim=0) - 0.75).abs().max() < 0.03  # 4 standard deviations
    assert len(masks[:100].unique(dim=0)) > 90


def test_masks_follow_from_the_generator():
    one, two, other = (draw_masks(np.random.default_rng(s), 4, PATCHES, 0.75) for s in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, other)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.99, 1.0])
def test_hiding_all_or_nothing_is_an_error(share):
    text = rf"masked_autoencoder: mask_share {share} hides (0|16) of 16 patches; it must leave some"
    with pytest.raises(ValueError, match=text):
        draw_masks(np.random.default_rng(0), 2, PATCHES, share)


# Encoder


@pytest.mark.parametrize("kind", KINDS)
def test_encoder_never_sees_a_masked_patch(build_vit, images, masked, kind):
    model = build_vit(kind)
    encoded = encode_visible(model, images, masked)
    assert encoded.shape[1] == model.num_prefix_tokens + 4
    noise = 100 * torch.ones_like(images)
    assert torch.equal(encode_visible(model, images + noise * on_pixels(masked), masked), encoded)
    assert not torch.equal(encode_visible(model, images + noise, masked), encoded)


@pytest.mark.parametrize("kind", KINDS)
def test_each_visible_pixel_and_no_other_reaches_the_encoder(build_vit, images, masked, kind):
    images = images.clone().requires_grad_()
    encode_visible(build_vit(kind), images, masked).square().sum().backward()
    reached = images.grad.abs().amax(dim=1, keepdim=True) > 0
    assert torch.equal(reached, ~on_pixels(masked))


@pytest.mark.parametrize("kind", KINDS)
def test_with_nothing_hidden_it_is_the_model_itself(build_vit, images, kind):
    model = build_vit(kind)
    nothing = torch.zeros(len(images), PATCHES, dtype=torch.bool)
    expected = model.forward_features(images)
    torch.testing.assert_close(encode_visible(model, images, nothing), expected, rtol=0, atol=0)


def test_unequal_masks_are_an_error(build_vit, images, masked):
    masked[1] = True
    with pytest.raises(ValueError, match=r"between 0 and 4 patches are visible; hide equally many"):
        encode_visible(build_vit(), images, masked)


# Decoder


def test_tokens_return_to_their_patches(masked):
    """Without blocks each prediction follows from one token and its place."""
    torch.manual_seed(0)
    decoder = Decoder((4, 4), encoded=6, pixels=9, width=8, depth=0)
    encoded = torch.randn(3, 1 + 4, 6)
    predicted = decoder(encoded, masked)
    assert tuple(predicted.shape) == (3, PATCHES, 9)
    for image in range(3):
        visible = iter(encoded[image, 1:])  # the first is the class token
        for patch in range(PATCHES):
            hidden = masked[image, patch]
            token = decoder.mask_token[0, 0] if hidden else decoder.embed(next(visible))
            expected = decoder.predict(decoder.norm(token + decoder.position[0, patch]))
            torch.testing.assert_close(predicted[image, patch], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_autoencoder_fits_each_kind_of_model(build_vit, images, masked, kind):
    model = build_autoencoder(build_vit(kind).float(), SETTINGS)
    predicted = model(images.float(), masked)
    assert tuple(predicted.shape) == (3, PATCHES, 3 * SIDE**2)
    predicted.sum().backward()
    without = {name for name, weights in model.named_parameters() if weights.grad is None}
    assert {name.split(".")[1] for name in without} <= {"head", "fc_norm"}


# Loss


def test_targets_are_the_patches_each_scaled_by_itself(images):
    targets = patch_targets(images, SIDE)
    assert tuple(targets.shape) == (3, PATCHES, 3 * SIDE**2)
    patch = images[2, :, SIDE : 2 * SIDE, 3 * SIDE :].flatten()  # second row, last column
    expected = (patch - patch.mean()) / (patch.var() + 1e-6).sqrt()
    torch.testing.assert_close(targets[2, 7], expected)
    torch.testing.assert_close(patch_targets(3 * images + 1, SIDE), targets, rtol=0, atol=1e-5)


def test_an_even_patch_is_no_division_by_zero():
    assert torch.equal(patch_targets(torch.ones(1, 3, 28, 28), SIDE), torch.zeros(1, PATCHES, 147))


def test_loss_by_hand():
    predicted, targets = torch.tensor([[[1.0, 3.0], [9.0, 9.0]]]), torch.zeros(1, 2, 2)
    masked = torch.tensor([[True, False]])
    assert masked_loss(predicted, targets, masked) == 5.0


def test_loss_is_on_masked_patches_only(masked):
    random = torch.Generator().manual_seed(2)
    predicted = torch.randn(3, PATCHES, 5, generator=random, requires_grad=True)
    targets = torch.randn(3, PATCHES, 5, generator=random)
    loss = masked_loss(predicted, targets, masked)
    loss.backward()
    assert torch.equal(predicted.grad.abs().sum(dim=2) > 0, masked)
    assert masked_loss(predicted + 9.0 * ~masked[:, :, None], targets, masked) == loss


# Pretraining


def test_pretraining_reduces_the_loss(tmp_path):
    """Below 1.0, which predicting each patch's mean would give."""
    history = run(tmp_path, replace(SETTINGS, images=320, epochs=4))
    assert [row["epoch"] for row in history] == [0, 1, 2, 3, 4]
    assert history[0]["validation_loss"] > 1.0
    assert history[-1]["validation_loss"] < 0.9
    assert history[-1]["train_loss"] < history[1]["train_loss"]
    assert len(history[1]["curve"]) == 20


def test_trains_the_encoder_and_leaves_its_head(tmp_path):
    before, model = micro_model().state_dict(), micro_model()
    run(tmp_path, model=model)
    same = {name for name, value in model.state_dict().items() if torch.equal(value, before[name])}
    assert same == {"head.weight", "head.bias", "fc_norm.weight", "fc_norm.bias"}


def test_learning_rate_rises_and_falls_and_spares_some_the_decay(tmp_path, monkeypatch):
    seen, step = [], torch.optim.AdamW.step

    def spy(self):
        seen.append([(g["lr"], g["weight_decay"], len(g["params"])) for g in self.param_groups])
        step(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    model = micro_model()
    run(tmp_path, replace(SETTINGS, images=320, epochs=1), model=model)  # 20 steps, 2 of them warm
    spared, decayed = seen[0]
    assert (spared[1], decayed[1]) == (0.0, 0.05)
    # Weights of the patches, 4 in each of 3 blocks, 2 of the decoder, the head.
    assert decayed[2] == 1 + 4 * 3 + 2 + 1
    rates = [groups[1][0] for groups in seen]
    assert len(rates) == 20
    assert rates[:3] == pytest.approx([SETTINGS.lr / 2, SETTINGS.lr, SETTINGS.lr], rel=0.02)
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert 0 < rates[-1] < 0.02 * SETTINGS.lr


# The shipped model


def log_of(suffix):
    path = shipped_weights("tiny-mae")
    return [
        json.loads(line)
        for line in Path(str(path).replace(".safetensors", suffix)).open(encoding="utf-8")
    ]


def test_shipped_model_is_small_and_knows_the_classes():
    assert shipped_weights("tiny-mae").stat().st_size < 6e6
    spec, model = model_spec("tiny-mae"), load_model("tiny-mae")
    shown = cutouts.draw("validation", range(5 * len(CLASSES)), size=spec.image_size)
    right_pct = 100 * (predict(model, spec, shown.split(50))["label_rank"] == 0).mean()
    assert right_pct > 90  # chance is 2.5
    # The log's is on 400 images, of which these are the first half.
    assert right_pct == pytest.approx(log_of(".jsonl")[-1]["validation_top1_pct"], abs=3)


def test_shipped_logs_tell_of_both_trainings():
    pretraining, training = log_of("-pretraining.jsonl"), log_of(".jsonl")
    assert pretraining[-1]["validation_loss"] < 0.6 < 1 < pretraining[0]["validation_loss"]
    assert training[0]["validation_top1_pct"] < 10  # the head is new
    assert all(row["epoch"] == i for log in (pretraining, training) for i, row in enumerate(log))

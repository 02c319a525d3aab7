"""Plain training of a classifier, on small pictures whose colour is their class."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import timm
import torch

from relevit.data.labelled import Labelled
from relevit.models.checkpoints import load_weights
from relevit.models.loading import ModelSpec
from relevit.training import classifier
from relevit.training.classifier import TrainSettings, mix, top1_pct, train_classifier
from relevit.training.epochs import CHECKPOINT, epoch_file

HALF = (0.5, 0.5, 0.5)
OPTIONS = {"patch_size": 7, "embed_dim": 16, "depth": 2, "num_heads": 2}
MICRO = ModelSpec("micro", "vit_tiny_patch16_224", 28, HALF, HALF, OPTIONS)
CLASSES = ("red", "green", "blue")
SETTINGS = TrainSettings(lr=1.0e-3, head_lr=5.0e-3, images=24, epochs=2, batch_size=8)
RESULT = ("weights.safetensors", "log.jsonl")


def pictures(name="train", count=48, seed=0):
    """Noise that is brighter in the plane of the class's colour."""
    random = np.random.default_rng([seed, len(name)])
    labels = torch.from_numpy(random.permutation(np.arange(count) % 3))
    images = torch.from_numpy(random.integers(160, size=(count, 3, 28, 28), dtype=np.uint8))
    images[torch.arange(count), labels] += 95
    return Labelled(name, CLASSES, labels, lambda wanted: images[list(wanted)])


def micro_model(seed=0):
    torch.manual_seed(seed)
    return timm.create_model(MICRO.timm_name, img_size=28, num_classes=3, **OPTIONS)


def run(folder, settings=SETTINGS, *, model=None, train=None, **named):
    model = micro_model() if model is None else model
    train = pictures() if train is None else train
    named = {"validation": pictures("validation", 21), "identity": {"kind": "test"}} | named
    return train_classifier(model, MICRO, settings, folder, train=train, **named)


def result(folder):
    return {name: (folder / name).read_bytes() for name in RESULT}


def rates_of(monkeypatch):
    """What each step's learning rates were, body and head."""
    seen, step = [], torch.optim.AdamW.step

    def spy(self):
        seen.append([group["lr"] for group in self.param_groups])
        step(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    return seen


# Learning


def test_learns_and_logs_what_it_did(tmp_path):
    steps, rows = [], []
    history = run(
        tmp_path,
        replace(SETTINGS, images=48, epochs=4),
        on_epoch=rows.append,
        on_step=lambda step, count, loss: steps.append((step, count)),
    )
    assert history == rows == [json.loads(line) for line in (tmp_path / "log.jsonl").open()]
    assert set(history[0]) == {"epoch", "validation_top1_pct"}
    assert set(history[1]) == {"epoch", "train_loss", "curve", "validation_top1_pct"}
    assert steps == [(step, 6) for step in range(1, 7)] * 4
    assert history[-1]["validation_top1_pct"] == 100 > history[0]["validation_top1_pct"]
    assert history[-1]["train_loss"] < 0.6 < 0.9 < history[1]["train_loss"]
    assert history[1]["train_loss"] == pytest.approx(np.mean(history[1]["curve"]))


@pytest.mark.parametrize("warmup", [0.0, 0.25])
def test_rates_rise_and_fall_as_a_cosine_to_zero(warmup):
    settings = replace(SETTINGS, warmup=warmup)
    warm = max(1, round(20 * warmup))
    shares = [settings.rate_share(step, 20) for step in range(20)]
    assert shares[:warm] == pytest.approx([(step + 1) / warm for step in range(warm)])
    assert shares[warm] == 1.0
    assert settings.rate_share(10 + warm / 2, 20) == pytest.approx(0.5)  # halfway down
    assert shares[warm:] == sorted(shares[warm:], reverse=True) and 0 < shares[-1] < 0.03
    assert settings.rate_share(20, 20) == pytest.approx(0, abs=1e-12)


def test_body_and_head_have_rates_of_their_own(tmp_path, monkeypatch):
    seen = rates_of(monkeypatch)
    run(tmp_path)
    assert len(seen) == 6
    shares = [SETTINGS.rate_share(step, 6) for step in range(6)]
    assert seen == [pytest.approx([1.0e-3 * share, 5.0e-3 * share]) for share in shares]


def test_a_head_alone_can_be_trained(tmp_path):
    before, model = micro_model().state_dict(), micro_model()
    run(tmp_path, replace(SETTINGS, lr=0.0), model=model)
    after = model.state_dict()
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert changed == {"head.weight", "head.bias"}


# Images


@pytest.mark.parametrize(("fresh", "shown"), [(True, 2 * 24), (False, 24)])
def test_fresh_images_each_epoch_or_the_same_again(tmp_path, fresh, shown):
    asked, train = [], pictures()

    def read(wanted):
        asked.extend(wanted)
        return train.read(wanted)

    run(tmp_path, replace(SETTINGS, fresh=fresh), train=replace(train, read=read))
    first, second = asked[:24], asked[24:]
    assert sorted(first) == list(range(24)) != first
    assert sorted(second) == list(range(shown - 24, shown))
    assert [place - (shown - 24) for place in second] != first, "another order in each epoch"


@pytest.mark.parametrize(("fresh", "asked"), [(True, 72), (False, 36)])
def test_too_few_images_are_an_error_before_any_work(tmp_path, fresh, asked):
    settings = replace(SETTINGS, images=36, fresh=fresh)
    if not fresh:
        assert run(tmp_path / "enough", settings, train=pictures(count=36))
    text = rf"train_classifier: {asked} training images asked for, and train has 35; lower images"
    with pytest.raises(ValueError, match=text):
        run(tmp_path / "few", settings, train=pictures(count=35))
    assert not (tmp_path / "few").exists()


# Bytes


@pytest.mark.parametrize("mixing", [False, True])
def test_same_seed_same_bytes(tmp_path, mixing):
    settings = replace(SETTINGS, mixing=mixing, fresh=True)
    run(tmp_path / "one", settings)
    model = micro_model()
    torch.manual_seed(99)
    state = torch.random.get_rng_state()
    run(tmp_path / "two", settings, model=model)
    assert torch.equal(torch.random.get_rng_state(), state)
    run(tmp_path / "other", replace(settings, seed=1))
    assert result(tmp_path / "one") == result(tmp_path / "two")
    assert result(tmp_path / "one") != result(tmp_path / "other")


@pytest.mark.parametrize("mixing", [False, True])
def test_stopped_and_resumed_same_bytes(tmp_path, mixing):
    def stop(row):
        if row["epoch"] == 1:
            raise KeyboardInterrupt

    settings = replace(SETTINGS, mixing=mixing)
    run(tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", settings, on_epoch=stop)
    assert (tmp_path / "stopped" / CHECKPOINT).is_dir()
    steps, model = [], micro_model(seed=7)
    run(tmp_path / "stopped", settings, model=model, on_step=lambda *step: steps.append(step))
    assert len(steps) == 3, "only the second epoch"
    assert result(tmp_path / "stopped") == result(tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "kind", "count"),
    [({}, "test", 0), ({}, "other", 6), ({"lr": 2.0e-3}, "test", 6), ({"mixing": True}, "test", 6)],
)
def test_other_settings_or_another_identity_are_another_run(tmp_path, change, kind, count):
    run(tmp_path)
    steps, identity = [], {"kind": kind}
    settings = replace(SETTINGS, **change)
    run(tmp_path, settings, identity=identity, on_step=lambda *step: steps.append(step))
    assert len(steps) == count


def test_every_epoch_is_kept_on_request(tmp_path):
    model = micro_model()
    run(tmp_path, model=model, keep_epochs=True)
    start, last = micro_model(seed=5), micro_model(seed=5)
    load_weights(epoch_file(tmp_path, 0), start, "micro")
    load_weights(epoch_file(tmp_path, 2), last, "micro")
    for kept, expected in ((start, micro_model()), (last, model)):
        pairs = zip(kept.parameters(), expected.parameters(), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


def test_bfloat16_learns_too_and_keeps_float32_weights(tmp_path):
    model = micro_model()
    history = run(tmp_path, replace(SETTINGS, precision="bfloat16"), model=model)
    assert all(np.isfinite(row["train_loss"]) for row in history[1:])
    assert {weights.dtype for weights in model.parameters()} == {torch.float32}


# Top-1


def test_top1_by_hand(monkeypatch):
    """A model that answers with the brightest plane, on pictures with one wrong label of eight."""
    monkeypatch.setattr(classifier, "BATCH", 3)
    images = pictures(count=8)
    wrong = images.labels.clone()
    wrong[5] = (wrong[5] + 1) % 3
    assert top1_pct(Brightest(), MICRO, images) == 100.0
    assert top1_pct(Brightest(), MICRO, replace(images, labels=wrong)) == 87.5


class Brightest(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, pixels):
        return self.scale * pixels.mean(dim=(2, 3))


# Mixing


def mixed(seed, count=4, labels=None):
    """Constant images 1, 2, 3, ... of classes 0, 1, 2, ..., as they are shown."""
    images = torch.arange(1.0, count + 1).view(-1, 1, 1, 1).expand(-1, 3, 28, 28).clone()
    labels = torch.arange(count) if labels is None else labels
    return mix(images, labels, 5, np.random.default_rng(seed))


def test_soft_labels_are_smoothed_shares():
    for seed in range(20):
        images, soft = mixed(seed)
        assert images.shape == (4, 3, 28, 28) and soft.shape == (4, 5)
        torch.testing.assert_close(soft.sum(dim=1), torch.ones(4))
        assert (soft >= 0.1 / 5 - 1e-6).all() and (soft <= 0.9 + 0.1 / 5 + 1e-6).all()
        assert ((soft > 0.1 / 5 + 1e-6).sum(dim=1) <= 2).all(), "of two images each"


def test_labels_are_the_shares_of_the_two_images():
    """An image's mean, where nothing is erased, tells how much of which image it holds."""
    kinds = set()
    for seed in range(30):
        images, soft = mixed(seed)
        shares = (soft - 0.1 / 5) / 0.9
        for image, share in zip(images, shares, strict=True):
            values = image.unique()
            if (image == 0).any():
                continue  # erased
            kinds.add("mixup" if len(values) == 1 else "cutmix")
            expected = (share[:4] * torch.arange(1.0, 5.0)).sum()
            torch.testing.assert_close(image.mean(), expected, rtol=1e-4, atol=1e-4)
    assert kinds == {"mixup", "cutmix"}


def test_mixup_and_cutmix_are_half_of_the_batches_each_and_a_quarter_is_erased():
    cut, erased = 0, 0
    for seed in range(400):
        images, _ = mixed(seed)
        erased += int((images == 0).flatten(1).any(dim=1).sum())
        seen = images.masked_fill(images == 0, 9)
        cut += any(len(image[image < 9].unique()) > 1 for image in seen)
    # A box of CutMix is sometimes empty, or covers the image.
    assert 0.38 < cut / 400 < 0.56
    assert 0.21 < erased / 1600 < 0.29  # 3.7 standard deviations


def test_mixing_follows_its_generator_and_leaves_torchs_alone():
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first, again, other = mixed(1), mixed(1), mixed(2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


def test_a_single_image_is_mixed_with_itself():
    """The last batch of an epoch may hold no other."""
    images, soft = mixed(3, count=1)
    assert soft[0].argmax() == 0 and soft[0, 0] == pytest.approx(0.92)
    assert set(images.unique().tolist()) <= {0.0, 1.0}


def test_mixed_images_are_trained_on_with_soft_labels(tmp_path, monkeypatch):
    seen, loss = [], classifier.cross_entropy
    monkeypatch.setattr(
        classifier,
        "cross_entropy",
        lambda logits, target: seen.append(target) or loss(logits, target),
    )
    run(tmp_path, replace(SETTINGS, mixing=True))
    assert [tuple(target.shape) for target in seen] == [(8, 3)] * 6
    assert not torch.equal(seen[0], seen[3]), "other mixtures in each epoch"

"""Plain training of a classifier, on small pictures whose colour is their class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import timm
import torch

from relevit.finetune import epochs
from relevit.models.spec import ModelSpec
from reproduction.params.cells import params_of
from reproduction.training.classifier import TrainSettings, top1_pct, train_classifier

from ..in_memory import in_memory

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
    return in_memory(name, CLASSES, labels, images)


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


# Resume


def test_stopped_and_resumed_same_bytes_whatever_torchs_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(epochs, "CHECKPOINT_S", 0.0)

    def stop(row):
        if row["epoch"] == 1:
            raise KeyboardInterrupt

    run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", on_epoch=stop)
    rows, model = [], micro_model(seed=7)
    torch.manual_seed(99)
    run(tmp_path / "stopped", model=model, on_epoch=rows.append)
    assert [row["epoch"] for row in rows] == [2]
    assert result(tmp_path / "stopped") == result(tmp_path / "whole")
    for change, kind in (({}, "other"), ({"seed": 1}, "test")):  # another run
        run(tmp_path / "stopped", replace(SETTINGS, **change), identity={"kind": kind})
        assert result(tmp_path / "stopped") != result(tmp_path / "whole")


@pytest.mark.parametrize("warmup", [0.0, 0.25])
def test_rates_rise_and_fall_as_a_cosine_to_zero(warmup):
    settings = replace(SETTINGS, warmup=warmup)
    warm = max(1, round(20 * warmup))
    shares = [settings.rate_share(epoch, step, 10) for epoch in (1, 2) for step in range(10)]
    assert shares[:warm] == pytest.approx([(step + 1) / warm for step in range(warm)])
    assert shares[warm] == 1.0
    assert settings.rate_share(1, 10 + warm / 2, 10) == pytest.approx(0.5)  # halfway down
    assert shares[warm:] == sorted(shares[warm:], reverse=True) and 0 < shares[-1] < 0.03
    assert settings.rate_share(2, 10, 10) == pytest.approx(0, abs=1e-12)


def test_top1_by_hand():
    """A model that answers with the brightest plane, on pictures with one wrong label of eight."""
    images = pictures(count=8)
    wrong = images.labels.clone()
    wrong[5] = (wrong[5] + 1) % 3
    mislabelled = in_memory("train", CLASSES, wrong, images.read(range(8)).images)
    assert top1_pct(Brightest(), MICRO, images, "float32") == 100.0
    assert top1_pct(Brightest(), MICRO, mislabelled, "float32") == 87.5


class Brightest(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, pixels):
        return self.scale * pixels.mean(dim=(2, 3))


def test_a_head_alone_can_be_trained(tmp_path):
    before, model = micro_model().state_dict(), micro_model()
    run(tmp_path, replace(SETTINGS, lr=0.0), model=model)
    after = model.state_dict()
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert changed == {"head.weight", "head.bias"}


def test_settings_take_what_the_parameters_name_alike():
    cpu, cfg = torch.device("cpu"), params_of("00_start")(epochs=3, seed=4)
    found = TrainSettings.from_params(cfg.model_copy(update={"precision": "bfloat16"}), cpu)
    shared = ("lr", "head_lr", "epochs", "batch_size", "weight_decay", "seed")
    assert [getattr(found, name) for name in shared] == [getattr(cfg, name) for name in shared]
    assert (found.precision, found.warmup, found.fresh) == ("bfloat16", 0.1, False)
    others = TrainSettings.from_params(cfg, cpu, seed=9, fresh=True)
    assert (others.seed, others.fresh) == (9, True)

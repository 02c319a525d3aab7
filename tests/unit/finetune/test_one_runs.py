"""What a run of 02_finetune is made from: variants, weights, rate, images and masks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

from relevit.config import FinetuneParams
from relevit.data import cutouts
from relevit.data.foregrounds import class_split
from relevit.finetune import runs
from relevit.finetune.runs import (
    VARIANTS,
    finetuned_classes,
    kept_epoch,
    origin_weights,
    preset_params,
    rate,
    training_images,
    variant,
)
from relevit.finetune.settings import resolved
from relevit.finetune.sweep import sweep_runs
from relevit.masks import AutomaticMasks, save_masks
from relevit.models.loading import shipped_weights

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project in which 00_original, the rates and the masks are there already."""
    (tmp_path / "notebooks").mkdir()
    params = tmp_path / "params" / "quick"
    params.mkdir(parents=True)
    for name, values in (
        ("00_original", {"model": "dinov2-s", "source": "train"}),
        ("02_finetune", {"model": "dinov2-s", "epochs": 7}),
    ):
        (params / f"{name}.yaml").write_text(yaml.safe_dump({"preset": "quick", **values}))
    chosen = {"relevance-published": 3.0e-5, "rrr-described": None}
    lowest = {"relevance-published": 1.0e-5, "rrr-described": 2.0e-5}
    searched = {"compared_model": "tiny"}
    for stage, summary in (
        ("00_original", {}),
        ("01_masks", {}),
        ("02_learning_rate", {"chosen_lr": 2.0e-6}),
        ("02_baselines", {"chosen": chosen, "lowest": lowest, "parameters": searched}),
    ):
        folder = tmp_path / "outputs" / "quick" / stage
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps(summary))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_variants_differ_from_the_method_in_what_they_name():
    base = FinetuneParams(epochs=9)
    assert variant(base, "full") == base
    for name, changed in VARIANTS.items():
        found = variant(base, name, seed=3).model_dump()
        assert found == base.model_dump() | changed | {"seed": 3}
    assert len({json.dumps(changed) for changed in VARIANTS.values()}) == len(VARIANTS)


def test_unknown_variant_is_refused():
    with pytest.raises(ValueError, match=r"'no_backgruond' is unknown; use some of .*no_"):
        variant(FinetuneParams(), "no_backgruond")


def test_wrong_change_is_refused():
    with pytest.raises(ValueError, match="variant full: images_per_class = 0"):
        variant(FinetuneParams(), "full", images_per_class=0)


def test_parameters_are_those_of_the_preset(project):
    found = preset_params(FinetuneParams(device="cpu"), model="tiny")
    assert (found.epochs, found.model, found.device) == (7, "tiny", "cpu")


def test_own_model_starts_from_its_original_and_others_from_shipped_weights(project):
    cfg = FinetuneParams(model="dinov2-s")
    own = project / "outputs" / "quick" / "00_original" / "weights.safetensors"
    assert origin_weights(cfg) == own
    assert origin_weights(cfg, "tiny") == shipped_weights("tiny")


def test_rate_is_the_one_asked_for_or_that_of_the_search_for_this_model_and_method(project):
    own = FinetuneParams(model="dinov2-s")
    assert rate(own.model_copy(update={"lr": 0.5})) == 0.5
    assert rate(own) == 2.0e-6
    assert rate(FinetuneParams(model="tiny")) == 3.0e-5
    nothing_passed = FinetuneParams(model="tiny", method="rrr", protocol="described")
    assert rate(nothing_passed) == 2.0e-5, "the lowest rate tried"
    with pytest.raises(ValueError, match="no rate for relevance-described on tiny"):
        rate(FinetuneParams(model="tiny", protocol="described"))
    with pytest.raises(ValueError, match="no rate for relevance-published on tiny-mae"):
        rate(FinetuneParams(model="tiny-mae"))


def test_sweep_of_the_paper_has_the_papers_settings_of_each_model():
    """T5-T7 by hand, and the temperatures of A8; the baselines were not run on large models."""
    ours = {
        "vit-b": 3.0e-6,
        "vit-l": 9.0e-7,
        "ar-s": 2.0e-6,
        "ar-b": 6.0e-7,
        "ar-l": 9.0e-7,
        "deit-s": 1.0e-6,
        "deit-b": 8.0e-7,
    }
    rates = {
        "relevance": ours,
        "rrr": {"ar-s": 1.0e-5, "ar-b": 5.0e-7, "deit-s": 1.0e-5, "deit-b": 5.0e-6},
        "gradmask": {"ar-s": 5.0e-4, "ar-b": 1.0e-5, "deit-s": 5.0e-3, "deit-b": 1.0e-3},
    }
    others = {"rrr": 2.0e-6, "gradmask": 2.0e-4}
    base = FinetuneParams.from_file(ROOT / "params" / "paper" / "02_finetune.yaml").model_dump()
    for run in sweep_runs("paper"):
        cfg = FinetuneParams.checked(base | run._asdict(), run.name)
        if (run.model, run.method) == ("vit-b", "relevance"):
            continue  # the preset's own: its rate is searched for
        lr = rate(cfg)
        assert lr == rates[run.method].get(run.model, others.get(run.method)), run.name
        settings = resolved(cfg, lr, "float32")
        warm = {"deit-b": 0.65, "deit-s": 0.55} if run.method == "relevance" else {}
        assert settings.temperature == warm.get(run.model, 1.0), run.name
        assert (settings.epochs, settings.batch_size) == (50, 8), run.name


def test_fewer_classes_are_the_first_of_those_finetuned():
    cfg = FinetuneParams(seed=4, classes=6, images_per_class=2)
    assert finetuned_classes(cfg) == class_split(4)[0][:6]
    assert training_images(cfg).labels.tolist() == finetuned_classes(cfg) * 2


def masks_of(batch, kept):
    whole = torch.zeros_like(batch.masks)
    whole[..., 20:60, 30:80] = True
    return AutomaticMasks(whole, whole, torch.tensor(kept))


def test_automatic_masks_replace_the_exact_ones_and_unfit_ones_are_left_out(project):
    cfg = FinetuneParams(images_per_class=1, classes=4, validation_maps=8)
    batch = training_images(cfg)
    shown = cutouts.draw("validation", range(8))
    kept = [True, False, True, True]
    folder = project / "outputs" / "quick" / "01_masks"
    masks = {
        0: (masks_of(batch, kept), batch.images),
        "validation": (masks_of(shown, [True] * 8), shown.images),
    }
    save_masks(folder, masks)
    automatic = cfg.model_copy(update={"masks": "tokencut"})
    found = training_images(automatic)
    assert torch.equal(found.images, batch.images[torch.tensor(kept)])
    assert torch.equal(found.masks, masks[0][0].refined[:3])
    assert runs._validation_masks(cfg) is None
    assert len(runs._validation_masks(automatic).kept) == 8
    none = AutomaticMasks(masks[0][0].coarse, masks[0][0].refined, torch.zeros(4).bool())
    save_masks(folder, masks | {0: (none, batch.images)})
    with pytest.raises(ValueError, match="kept 0 of 4 masks of the training images of seed 0"):
        training_images(automatic)
    with pytest.raises(ValueError, match="01_masks"):
        training_images(automatic.model_copy(update={"images_per_class": 2}))


def test_kept_epoch_is_the_last_or_the_best():
    losses = [9.0, 3.0, 1.0, 1.0, 2.0]  # before training first; of equals the latest
    history = [{"epoch": i, "validation_loss_total": x} for i, x in enumerate(losses)]
    assert kept_epoch(history, "last") == 4
    assert kept_epoch(history, "lowest_validation_loss") == 3

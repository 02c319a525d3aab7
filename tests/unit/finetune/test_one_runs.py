"""What a run of 02_finetune is made from: variants, weights, rate, images and masks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

from relevit.base.stages import read_pipeline, read_stage
from relevit.config import BaselinesParams, BenchmarkParams, FinetuneParams
from relevit.data.cutouts import CUTOUTS
from relevit.data.drawings import class_split
from relevit.data.photographs import imagenet
from relevit.data.real.classes import split_classes
from relevit.finetune import runs
from relevit.finetune.runs import finetuned_classes, origin_weights, rate, training_images
from relevit.finetune.settings import resolved
from relevit.masks import AutomaticMasks, save_masks
from relevit.models.registry import shipped_weights
from relevit.pipeline.sweep import sweep_runs
from replicas.imagenet_s import write_imagenet_s

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project in which 00_original, the rates and the masks are there already."""
    (tmp_path / "notebooks").mkdir()
    params = tmp_path / "params" / "quick"
    params.mkdir(parents=True)
    for name, values in (("common", {"model": "dinov2-s"}), ("02_finetune", {"epochs": 7})):
        (params / f"{name}.yaml").write_text(yaml.safe_dump(values))
    own = {"parameters": {"model": "dinov2-s"}}
    chosen = {"tiny relevance-published": 3.0e-5, "tiny rrr-described": None}
    lowest = {"tiny relevance-published": 1.0e-5, "tiny rrr-described": 2.0e-5}
    for stage, summary in (
        ("00_original", own),
        ("01_masks", {}),
        ("02_learning_rate", own | {"chosen_lr": 2.0e-6}),
        ("02_baselines", {"chosen": chosen, "lowest": lowest, "parameters": {}}),
    ):
        folder = tmp_path / "outputs" / "quick" / stage
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps(summary))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_parameters_of_another_stage_are_its_file_s_and_shared_ones_the_notebook_s(project):
    cfg = BaselinesParams(device="cpu", model="tiny-mae")
    found = read_stage(cfg, FinetuneParams)
    assert (found.epochs, found.model, found.device) == (7, "tiny-mae", "cpu")
    assert read_stage(cfg, FinetuneParams, model="tiny").model == "tiny"
    with pytest.raises(ValueError, match=r"02_finetune\.yaml: epochs = 0"):
        read_stage(cfg, FinetuneParams, epochs=0)


def test_own_model_starts_from_its_original_and_others_from_shipped_weights(project):
    cfg = FinetuneParams(model="dinov2-s")
    own = project / "outputs" / "quick" / "00_original" / "weights.safetensors"
    assert origin_weights(cfg) == own
    assert origin_weights(cfg, "tiny") == shipped_weights("tiny", "habitats")


def test_rate_is_the_one_asked_for_or_that_of_the_search_for_this_model_and_method(project):
    own = FinetuneParams(model="dinov2-s")
    assert rate(own.model_copy(update={"lr": 0.5})) == 0.5
    assert rate(own) == 2.0e-6
    assert rate(FinetuneParams(model="tiny")) == 3.0e-5
    nothing_passed = FinetuneParams(model="tiny", method="rrr", protocol="described")
    assert rate(nothing_passed) == 2.0e-5, "the lowest rate tried"
    with pytest.raises(ValueError, match="no rate for tiny relevance-described, only for tiny rel"):
        rate(FinetuneParams(model="tiny", protocol="described"))
    with pytest.raises(ValueError, match="no rate for tiny-mae relevance-published"):
        rate(FinetuneParams(model="tiny-mae"))


def test_sweep_of_the_paper_has_the_papers_settings_of_each_model(monkeypatch):
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
    searched = {"parameters": {"model": "vit-b"}, "chosen_lr": 1.0}
    monkeypatch.setattr(runs, "need_stage", lambda cfg, stage: stage)
    monkeypatch.setattr(runs, "read_summary", lambda stage: searched)
    base = FinetuneParams.from_preset(ROOT / "params" / "paper").model_dump()
    for run in sweep_runs(read_pipeline("paper")):
        cfg = FinetuneParams.checked(base | run._asdict(), run.name)
        lr = rate(cfg)
        if (run.model, run.method) == ("vit-b", "relevance"):
            assert lr == 1.0, "the preset's own: its rate is searched for"
            continue
        assert lr == rates[run.method].get(run.model, others.get(run.method)), run.name
        settings = resolved(cfg, lr, "float32")
        warm = {"deit-b": 0.65, "deit-s": 0.55} if run.method == "relevance" else {}
        assert settings.temperature == warm.get(run.model, 1.0), run.name
        assert (settings.epochs, settings.batch_size) == (50, 8), run.name


def test_fewer_classes_are_the_first_of_those_finetuned():
    cfg = FinetuneParams(seed=4, classes=6, images_per_class=2)
    assert finetuned_classes(cfg, CUTOUTS) == class_split(4)[0][:6]
    assert training_images(cfg, CUTOUTS).labels.tolist() == finetuned_classes(cfg, CUTOUTS) * 2


def masks_of(batch, kept):
    whole = torch.zeros_like(batch.masks)
    whole[..., 20:60, 30:80] = True
    return AutomaticMasks(whole, whole, torch.tensor(kept))


def test_automatic_masks_replace_the_exact_ones_and_unfit_ones_are_left_out(project):
    cfg = FinetuneParams(images_per_class=1, classes=4, validation_maps=8)
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
    assert runs.validation_masks(cfg, CUTOUTS) is None
    assert len(runs.validation_masks(automatic, CUTOUTS).kept) == 8
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
    params = BenchmarkParams(data="imagenet", data_root=str(project), finetuned_classes=2)
    bench = imagenet(params)
    cfg = FinetuneParams(
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
    assert torch.equal(runs.validation_masks(other, bench).refined, shown.masks)

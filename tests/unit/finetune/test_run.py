"""Runs of one start: what each is made from, and what is seen of the validation images."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from habitats.cutouts import CUTOUTS
from relevit.finetune.run import Start
from relevit.finetune.settings import FinetuneSettings
from relevit.masks import AutomaticMasks

from ..micro_finetuning import SETTINGS, SPEC, micro_model, pictures, weights


@pytest.fixture
def start():
    shown = pictures("validation", 6)
    return Start(micro_model(), SPEC, pictures("finetune", 8), shown, 6, 4, {"origin": "micro"})


def test_runs_of_one_start_are_those_of_starts_of_their_own(start, tmp_path):
    """It is left as it was, and so a run does not know which others were made before."""
    before = weights(start.network).clone()
    arms = [SETTINGS.changed(epochs=1, lr=lr) for lr in (1e-3, 1e-2)]
    together = [start.finetuned(arm, tmp_path / f"{arm.lr}")[0] for arm in arms]
    assert torch.equal(weights(start.network), before)
    alone = replace(start, network=micro_model()).finetuned(arms[1], tmp_path / "alone")[0]
    assert torch.equal(weights(alone), weights(together[1]))
    assert not torch.equal(weights(alone), weights(together[0]))


def test_epochs_are_looked_at_where_they_are_asked_for_or_choose_the_weights(start, tmp_path):
    for keep, seen in (("last", [True, False, False]), ("lowest_validation_loss", [True] * 3)):
        arm = SETTINGS.changed(epochs=2, keep=keep)
        _, history = start.finetuned(arm, tmp_path / keep, validated=(0,))
        assert ["validation_top1_pct" in row for row in history] == seen


def test_a_start_from_elsewhere_is_another_run(start, tmp_path):
    arm, other = SETTINGS.changed(epochs=1), replace(start, inputs={"origin": "elsewhere"})
    start.finetuned(arm, tmp_path)
    made = (tmp_path / "weights.safetensors").stat().st_mtime_ns
    start.finetuned(arm, tmp_path)
    assert (tmp_path / "weights.safetensors").stat().st_mtime_ns == made, "read, not made"
    other.finetuned(arm, tmp_path)
    assert (tmp_path / "weights.safetensors").stat().st_mtime_ns != made


def test_of_automatic_masks_those_that_are_kept_count(start):
    found = start.validation.masks[:4].roll(1, 0).bool()
    automatic = AutomaticMasks(found, found, torch.tensor([True, False, True, True]))
    of_kept = replace(start.validation, masks=start.validation.masks.clone())
    of_kept.masks[:4] = found
    of_kept = of_kept.select([0, 2, 3])
    masked = replace(start, masks=automatic).figures(start.network, SETTINGS)
    alone = replace(start, validation=of_kept, maps=3).figures(start.network, SETTINGS)
    for term in ("background", "foreground"):
        assert masked[f"loss_{term}"] == pytest.approx(alone[f"loss_{term}"], rel=1e-5)
    plain = start.figures(start.network, SETTINGS)
    assert masked["top1_pct"] == plain["top1_pct"], "of all images"


def test_figures_are_of_all_images_whatever_the_batches(build_vit):
    model = build_vit(num_classes=40).float()
    shown = CUTOUTS.draw("validation", range(60), seed=2, size=28)
    start = Start(model, SPEC, shown, shown, 60, 7, {})
    found = [start.figures(model, FinetuneSettings(lr=1.0, batch_size=size)) for size in (1, 7, 50)]
    terms = ("background", "foreground", "relevance", "classification", "total")
    names = {"top1_pct", "confidence_loss", "label_loss", *(f"loss_{term}" for term in terms)}
    logits = model(SPEC.normalise(shown.images)).detach().double()
    answers, losses = logits.argmax(dim=1), torch.nn.functional.cross_entropy
    wanted = {
        "top1_pct": 100 * (answers == shown.labels).double().mean().item(),
        "confidence_loss": losses(logits, answers).item(),
        "label_loss": losses(logits, shown.labels).item(),  # of all, not of the maps
    }
    for one in found:
        each = one.pop("class_losses")
        assert sum(each) / 60 == pytest.approx(wanted["confidence_loss"], rel=1e-4)
        assert one.keys() == names and one == pytest.approx(found[0], rel=1e-5)
        assert one == pytest.approx(one | wanted, rel=1e-4)


def test_a_smaller_set_gives_figures_of_what_there_is(build_vit):
    shown = CUTOUTS.draw("validation", range(5), size=28)
    model, settings = build_vit(num_classes=40).float(), FinetuneSettings(lr=1.0, batch_size=4)
    found, wanted = (
        Start(model, SPEC, shown, shown, images, maps, {}).figures(model, settings)
        for images, maps in ((60, 7), (5, 5))
    )
    assert found == wanted and len(found["class_losses"]) == 5

"""What finetuning sees of the validation images."""

from __future__ import annotations

import pytest
import torch

from habitats.cutouts import CUTOUTS
from relevit.finetune.run import Start
from relevit.finetune.settings import FinetuneSettings
from relevit.models.spec import ModelSpec

SPEC = ModelSpec("micro", "none", 28, mean=(0.5,) * 3, std=(0.5,) * 3)


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

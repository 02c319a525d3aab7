"""What finetuning sees of the validation images."""

from __future__ import annotations

import pytest
import torch

from habitats.cutouts import CUTOUTS
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.validation import validation_figures
from relevit.models.spec import ModelSpec


def test_validation_figures_do_not_depend_on_the_batches(build_vit):
    spec = ModelSpec("micro", "none", 28, mean=(0.5,) * 3, std=(0.5,) * 3)
    model = build_vit(num_classes=40).float()
    figures = validation_figures(
        spec, images=60, maps=7, precision="float32", seed=2, draw=CUTOUTS.draw
    )
    found = [figures(model, FinetuneSettings(lr=1.0, batch_size=size)) for size in (1, 3, 7, 50)]
    assert set(found[0]) == {"top1_pct", "confidence_loss", "label_loss", "class_losses"} | {
        f"loss_{n}" for n in ("background", "foreground", "relevance", "classification", "total")
    }
    each = [one.pop("class_losses") for one in found]
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-5)
    shown = CUTOUTS.draw("validation", range(60), seed=2, size=28)
    logits = model(spec.normalise(shown.images)).detach().double()
    assert [sum(one) / 60 for one in each] == pytest.approx(
        [found[0]["confidence_loss"]] * 4, rel=1e-4
    )
    right = logits.argmax(dim=1) == shown.labels
    assert found[0]["top1_pct"] == pytest.approx(100 * right.double().mean().item())
    confidence = torch.nn.functional.cross_entropy(logits, logits.argmax(dim=1)).item()
    assert found[0]["confidence_loss"] == pytest.approx(confidence, rel=1e-4)
    labels = torch.nn.functional.cross_entropy(logits, shown.labels).item()
    assert found[0]["label_loss"] == pytest.approx(labels, rel=1e-4), "of all, not of the maps"


def test_a_smaller_set_gives_figures_of_what_there_is(build_vit):
    def draw(name, indices, **options):
        return CUTOUTS.draw(name, list(indices)[:5], **options)

    spec = ModelSpec("micro", "none", 28, mean=(0.5,) * 3, std=(0.5,) * 3)
    model, settings = build_vit(num_classes=40).float(), FinetuneSettings(lr=1.0, batch_size=4)
    how = {"precision": "float32", "draw": draw}
    found = validation_figures(spec, images=60, maps=7, **how)(model, settings)
    assert len(found["class_losses"]) == 5
    assert found == validation_figures(spec, images=5, maps=5, **how)(model, settings)

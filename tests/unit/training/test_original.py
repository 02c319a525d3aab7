"""The original: trained on the images of its benchmark, or shipped with those it has seen."""

from __future__ import annotations

import pytest
import torch

from habitats.benchmark import open_benchmark
from relevit.choices.words import SHIPPED
from relevit.data.image_set import ImageSet
from relevit.models.registry import shipped_weights
from reproduction.measures.sets import load_classifier
from reproduction.params.cells import params_of
from reproduction.params.common import Benchmark
from reproduction.training import original
from reproduction.training.original import make_original

CPU = torch.device("cpu")
HABITATS = Benchmark()


def test_shipped_weights_have_seen_one_habitats_alone(tmp_path):
    cfg = params_of("00_start")(benchmark=HABITATS.model_copy(update={"home_share": 0.5}))
    with pytest.raises(ValueError, match=r"learned from Habitats with home_share 0\.95, opacity"):
        make_original(cfg, open_benchmark(cfg), tmp_path, CPU)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", SHIPPED["habitats"])
def test_shipped_models_have_learned_their_images(name):
    """Some 30 of 40 for the small ones, which meet hidden animals."""
    cfg = params_of("00_start")(model=name)
    bench, weights = open_benchmark(cfg), shipped_weights(name, cfg.benchmark.learned)
    classifier = load_classifier(bench, name, weights)
    seen = bench.draw("validation", range(40), size=112)
    assert (classifier.predict([seen])["label_rank"] == 0).mean() > 0.6


def test_trained_originals_of_other_images_are_other_runs(tmp_path, monkeypatch):
    identities = []

    def train(*args, identity, **others):
        identities.append(identity)
        return []

    monkeypatch.setattr(original, "train_classifier", train)
    monkeypatch.setattr(ImageSet, "kept", lambda images: images)  # drawn when they are needed
    for params in (HABITATS, HABITATS.model_copy(update={"home_share": 0.5})):
        cfg = params_of("00_start")(
            benchmark=params, model="tiny", source="train", training_images=40
        )
        make_original(cfg, open_benchmark(cfg), tmp_path, CPU)
    assert [identity.get("images_of") for identity in identities] == [
        "habitats animals home 0.95 opacity 0.2",
        "habitats animals home 0.5 opacity 0.2",
    ]

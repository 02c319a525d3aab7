"""The original: trained on the images of its benchmark, or shipped with those it has seen."""

from __future__ import annotations

import json

import pytest
import torch

from relevit.config import BenchmarkParams, OriginalParams
from relevit.data.benchmark import CUTOUTS, open_benchmark
from relevit.models.checkpoints import read_tensors
from relevit.training.original import make_original

CPU = torch.device("cpu")
HABITATS = BenchmarkParams(data="habitats")


def test_shipped_weights_are_copied_with_their_log(tmp_path):
    _, history = make_original(OriginalParams(), CUTOUTS, tmp_path, CPU)
    assert (tmp_path / "weights.safetensors").is_file()
    assert [json.loads(line) for line in (tmp_path / "log.jsonl").open()] == history


def test_shipped_weights_have_not_seen_habitats(tmp_path):
    cfg = OriginalParams(benchmark=HABITATS)
    with pytest.raises(ValueError, match="shipped models have learned from Cutouts; give source"):
        make_original(cfg, open_benchmark(cfg), tmp_path, CPU)
    assert list(tmp_path.iterdir()) == []


def test_trained_originals_of_other_images_are_other_runs(tmp_path):
    few = {"source": "train", "images": 40, "precision": "float32"}
    identities = []
    for params in (HABITATS, HABITATS.model_copy(update={"home_share": 0.5}), BenchmarkParams()):
        cfg = OriginalParams(benchmark=params, **few)
        make_original(cfg, open_benchmark(cfg), tmp_path, CPU)
        identities.append(json.loads(read_tensors(tmp_path / "weights.safetensors")[1]["identity"]))
    images = [identity.get("images_of") for identity in identities]
    assert images == [
        "habitats animals home 0.95 opacity 0.2",
        "habitats animals home 0.5 opacity 0.2",
        None,
    ]

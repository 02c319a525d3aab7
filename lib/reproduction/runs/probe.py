"""What the features of a backbone know by themselves: a new head alone, answered as a run is."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from habitats.benchmark import Benchmark
from relevit.evaluate.frozen_features import linear_probe
from relevit.models import checkpoints
from reproduction.measures.accuracies import beside_original
from reproduction.measures.sets import answer_sets, load_classifier
from reproduction.params.cells import Params
from reproduction.runs.runs import Row, answers
from reproduction.training.original import untrained


def probed(cfg: Params, bench: Benchmark, original: Row, folder: Path) -> pd.DataFrame:
    """The preset's model as it comes, under a head fitted to `probe_images`, on the nine sets.

    Rows as of `outcomes.score`, beside those of the finetuned `original`; method `linear_probe`
    (RobustViT, supplement L). Weights and answers are kept in `folder`.
    """
    spec = bench.spec(cfg.model)
    seen = bench.draw("train", range(cfg.probe_images))
    probe = linear_probe(untrained(cfg.model, device=cfg.device), spec, seen)
    path = folder / "linear_probe.safetensors"
    checkpoints.save_weights(path, probe, cfg.model)
    classifier = load_classifier(bench, cfg.model, path, device=cfg.device)
    found = answer_sets(classifier, path, folder / "linear_probe", bench, cfg.images_per_set)
    named = {"model": cfg.model, "method": "linear_probe", "protocol": "", "masks": "", "seed": 0}
    return beside_original(found, answers(original)).assign(**named)

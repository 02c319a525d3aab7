"""The search for the baselines' learning rates: what is run, what is kept, what is chosen."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from relevit.config import BaselinesParams
from relevit.finetune import baseline_rates
from relevit.finetune.baseline_rates import ARMS, arm_params, choose_rates, try_rates
from relevit.finetune.baselines import rate_factor

CFG = BaselinesParams(rates=[2.0e-5, 1.0e-5], epochs=2, images_per_class=3, seed=1)


def history(lr):
    """Two epochs; the second is kept. Accuracy falls with the rate."""
    names = (
        "validation_top1_pct",
        "validation_confidence_loss",
        "validation_loss_total",
        "validation_loss_background",
    )
    rows = [(90.0, 0.5, 9.0, 4.0), (90.0, 0.5, 3.0, 3.0), (90.0 - 1e5 * lr, 0.5, 2.0, 2.0)]
    return [{"epoch": n, **dict(zip(names, row, strict=True))} for n, row in enumerate(rows)]


@pytest.fixture
def asked(monkeypatch):
    """The runs that would be made, which take no time here."""
    runs = []

    def run(params, lr, origin, folder):
        runs.append((params, lr, origin.name, folder.name))
        if params.method == "rrr" and params.protocol == "described" and lr > 1.5e-5:
            raise FloatingPointError("training: train_loss_total is nan")
        return None, history(lr)

    monkeypatch.setattr(baseline_rates, "finetune_at", run)
    monkeypatch.setattr(baseline_rates, "origin_weights", lambda cfg, name: Path(f"{name}.weights"))
    return runs


def test_every_method_at_every_rate_in_a_folder_of_its_own(asked, tmp_path):
    seen = []
    table = try_rates(CFG, tmp_path, seen.append)
    assert len(table) == len(asked) == len(seen) == 2 * len(ARMS)
    assert len({folder for *_, folder in asked}) == len(asked)
    for params, lr, origin, _ in asked:
        scale = rate_factor(params.method, params.protocol)
        assert lr / scale == pytest.approx(1e-5) or lr / scale == pytest.approx(2e-5)
        assert origin == "tiny.weights"
    assert list(table["rate"]) == [1e-5, 2e-5] * len(ARMS)
    first = table.iloc[0]
    assert (first["background_before"], first["background_after"]) == (4.0, 2.0)  # kept epoch
    assert first["drop_pts"] == pytest.approx(1.0)


def test_run_that_diverged_is_a_row(asked, tmp_path):
    table = try_rates(CFG, tmp_path).query("method == 'rrr' and protocol == 'described'")
    last = table.iloc[-1]
    assert last["drop_pts"] == math.inf and last["rising"]
    assert math.isnan(last["background_after"]) and math.isnan(last["background_before"])
    assert choose_rates(table, limit_pts=2.0) == {"rrr-described": 1e-5}


def test_runs_are_those_of_the_preset_but_shorter():
    params = arm_params(CFG.model_copy(update={"validation_images": 120}), "rrr", "described")
    assert (params.model, params.method, params.protocol) == ("tiny", "rrr", "described")
    assert (params.epochs, params.images_per_class, params.seed) == (2, 3, 1)
    assert (params.validation_images, params.validation_maps) == (120, CFG.validation_maps)
    # The weights are left to the paper's tables.
    assert params.weight_background is None and params.weight_classification is None


def test_highest_rate_that_passes_or_none():
    rows = [
        ("relevance", "published", 1e-5, 0.0, False),
        ("relevance", "published", 2e-5, 1.0, False),
        ("relevance", "published", 4e-5, 1.1, False),
        ("rrr", "described", 1e-5, 0.0, True),
        ("rrr", "described", 2e-5, 3.0, False),
    ]
    table = pd.DataFrame(rows, columns=["method", "protocol", "lr", "drop_pts", "rising"])
    assert choose_rates(table, 1.0) == {"relevance-published": 2e-5, "rrr-described": None}


def test_model_without_shipped_weights_is_an_error(tmp_path):
    cfg = CFG.model_copy(update={"compared_model": "dinov2-s"})
    with pytest.raises(ValueError, match="no weights of 'dinov2-s' come with the package"):
        try_rates(cfg, tmp_path)

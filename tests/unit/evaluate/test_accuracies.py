"""Accuracies of many runs beside the original's."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from torch import nn

from relevit.config import FinetuneParams
from relevit.data.benchmark import CUTOUTS
from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.evaluate import accuracies
from relevit.evaluate.accuracies import beside_original, changes, score_variants
from relevit.evaluate.predictions import Classifier


def answers(ranks, dataset="val"):
    return pd.DataFrame(
        {"dataset": dataset, "index": range(len(ranks)), "label": 3, "label_rank": ranks}
    )


def test_accuracies_are_compared_on_the_same_images():
    ours = answers([0, 0, 4, 7])
    original = answers([0, 1, 1, 9, 0, 0])  # has seen two more, which must not count
    (row,) = beside_original(ours, original).to_dict("records")
    assert row == {
        "dataset": "val",
        "images": 4,
        "top1_pct": 50.0,
        "top5_pct": 75.0,
        "original_top1_pct": 25.0,
        "original_top5_pct": 75.0,
    }


def test_original_that_has_seen_fewer_images_is_refused():
    with pytest.raises(ValueError, match="answered 2 of the run's 3 images"):
        beside_original(answers([0, 0, 0]), answers([0, 0]))


def run_rows(seed, gain):
    return pd.DataFrame(
        {
            "variant": "full",
            "seed": seed,
            "dataset": list(TEST_SETS),
            "top1_pct": [50.0 + (gain if s in SHIFTED_SETS else -1) for s in TEST_SETS],
            "original_top1_pct": 50.0,
        }
    )


def test_changes_average_the_shifted_sets_and_spread_over_runs():
    table = pd.concat([run_rows(0, 1.0), run_rows(1, 3.0)])
    row = changes(table, ["variant"]).loc["full"]
    assert row["val"] == row["v2"] == -1
    assert row["a"] == row["shifted_average"] == 2
    assert row["shifted_average_std"] == pytest.approx(math.sqrt(2))
    assert math.isnan(changes(run_rows(0, 1.0), ["variant"]).loc["full", "shifted_average_std"])


def test_kept_answers_are_those_of_weights_format_and_rules(tmp_path, monkeypatch):
    """How large a measured margin is changes no answer; other processes may measure another."""
    found = []
    monkeypatch.setattr(accuracies, "load_model", lambda *args: None)
    monkeypatch.setattr(accuracies, "evaluate_sets", lambda *a, **o: found.append(o["identity"]))
    for name, number_format, count in (
        ("tiny", ("bfloat16", 0.25), 5),
        ("tiny", ("bfloat16", 0.26), 5),
        ("tiny", ("bfloat16", 0.0), 5),
        ("tiny", ("float32", 0.0), 5),
        ("tiny", ("bfloat16", 0.25), 6),
        ("tiny-mae", ("bfloat16", 0.25), 5),
    ):
        classifier = Classifier(nn.Linear(1, 1), CUTOUTS.spec(name), number_format[0])
        classifier.answers.margin = number_format[1]
        monkeypatch.setattr(accuracies, "make_classifier", lambda *a, c=classifier, **o: c)
        accuracies.nine_sets(name, None, tmp_path, images_per_set=count, device="cpu")
    assert found[0] == found[1] and len(set(found)) == len(found) - 1


def test_variant_that_diverges_leaves_its_reason_and_the_others_go_on(tmp_path, monkeypatch):
    rates = []

    def finetune_at(params, lr, origin, folder):
        rates.append(lr)
        if params.seed == 1:
            raise FloatingPointError("training: loss is nan")

    def nine_sets(name, weights, folder, **options):
        assert weights.parent == folder.parent
        return answers([0, 1])

    monkeypatch.setattr(accuracies, "finetune_at", finetune_at)
    monkeypatch.setattr(accuracies, "nine_sets", nine_sets)
    variants = {("full", s): FinetuneParams(seed=s, lr=(s + 1) * 1.0e-3) for s in (0, 1, 2)}
    steps = []
    table, lost = score_variants(
        variants,
        ("variant", "seed"),
        lambda p: p.lr,
        tmp_path,
        tmp_path,
        answers([1, 1]),
        images_per_set=2,
        on_run=lambda: steps.append(1),
    )
    assert table[["variant", "seed"]].to_numpy().tolist() == [["full", 0], ["full", 2]]
    assert list(table["lr"]) == [1.0e-3, 3.0e-3]
    assert table["top1_pct"].dtype == float
    assert lost == {("full", 1): "training: loss is nan"}
    assert len(steps) == len(rates) == 3


def test_where_all_diverge_the_table_is_empty_and_has_its_columns(tmp_path, monkeypatch):
    def finetune_at(*args):
        raise FloatingPointError("training: loss is nan")

    monkeypatch.setattr(accuracies, "finetune_at", finetune_at)
    table, lost = score_variants(
        {("full",): FinetuneParams()},
        ("variant",),
        1.0,
        tmp_path,
        tmp_path,
        answers([0]),
        images_per_set=1,
    )
    assert table.empty and list(lost) == [("full",)]
    assert list(table) == ["variant", *accuracies.COLUMNS, "lr"]


def test_runs_that_cannot_be_told_apart_are_refused():
    table = pd.concat([run_rows(0, 1.0), run_rows(0, 3.0)])
    with pytest.raises(ValueError, match="occur twice"):
        changes(table, ["variant"])

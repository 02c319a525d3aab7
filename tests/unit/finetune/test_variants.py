"""Variants of the method: what each changes, and what a table of several holds."""

from __future__ import annotations

import json
from typing import get_args

import pandas as pd
import pytest

from relevit.config import FinetuneParams
from relevit.config.words import Variant
from relevit.data.cutouts import CUTOUTS
from relevit.evaluate.accuracies import COLUMNS
from relevit.finetune import variants as module
from relevit.finetune.variants import VARIANTS, score_variants, variant


def answers(ranks):
    return pd.DataFrame(
        {"dataset": "val", "index": range(len(ranks)), "label": 3, "label_rank": ranks}
    )


def test_variants_differ_from_the_method_in_what_they_name():
    base = FinetuneParams(epochs=9)
    assert variant(base, "full") == base
    for name, changed in VARIANTS.items():
        found = variant(base, name, seed=3).model_dump()
        options = base.options.model_dump() | changed.get("options", {})
        assert found == base.model_dump() | changed | {"seed": 3, "options": options}
    assert len({json.dumps(changed) for changed in VARIANTS.values()}) == len(VARIANTS)
    assert get_args(Variant) == tuple(VARIANTS)


def test_unknown_variant_is_refused():
    with pytest.raises(ValueError, match=r"'no_backgruond' is unknown; use some of .*no_"):
        variant(FinetuneParams(), "no_backgruond")


def test_wrong_change_is_refused():
    with pytest.raises(ValueError, match="variant full: images_per_class = 0"):
        variant(FinetuneParams(), "full", images_per_class=0)


def test_variant_that_diverges_leaves_its_reason_and_the_others_go_on(tmp_path, monkeypatch):
    rates = []

    def finetune_at(params, bench, lr, origin, folder, validated):
        rates.append(lr)
        if params.seed == 1:
            raise FloatingPointError("training: loss is nan")

    def answer_sets(classifier, weights, folder, bench, images_per_set):
        assert classifier == ("tiny", weights) and weights.parent == folder.parent
        return answers([0, 1])

    monkeypatch.setattr(module, "finetune_at", finetune_at)
    monkeypatch.setattr(
        module, "load_classifier", lambda bench, name, weights, **_: (name, weights)
    )
    monkeypatch.setattr(module, "answer_sets", answer_sets)
    base = FinetuneParams(model="tiny")
    variants = {("full", s): variant(base, "full", seed=s, lr=(s + 1) * 1.0e-3) for s in (0, 1, 2)}
    steps = []
    table, lost = score_variants(
        variants,
        ("variant", "seed"),
        tmp_path,
        tmp_path,
        answers([1, 1]),
        CUTOUTS,
        images_per_set=2,
        on_run=lambda: steps.append(1),
    )
    assert table[["variant", "seed"]].to_numpy().tolist() == [["full", 0], ["full", 2]]
    assert list(table["lr"]) == [1.0e-3, 3.0e-3]
    assert table["top1_pct"].dtype == float
    assert lost == {("full", 1): "training: loss is nan"}
    assert len(steps) == len(rates) == 3


def test_where_all_diverge_the_table_is_empty_and_has_its_columns(tmp_path, monkeypatch):
    def finetune_at(*args, **options):
        raise FloatingPointError("training: loss is nan")

    monkeypatch.setattr(module, "finetune_at", finetune_at)
    table, lost = score_variants(
        {("full",): FinetuneParams(lr=1.0)},
        ("variant",),
        tmp_path,
        tmp_path,
        answers([0]),
        CUTOUTS,
        images_per_set=1,
    )
    assert table.empty and list(lost) == [("full",)]
    assert list(table) == ["variant", *COLUMNS, "lr"]

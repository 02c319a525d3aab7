"""Variants of the method: what each changes, and what a table of several holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from relevit.config import AblationsParams, FinetuneParams
from relevit.config.words import Variant
from relevit.data.cutouts import SHIFTED_SETS
from relevit.data.habitats import habitats
from relevit.evaluate.accuracies import COLUMNS
from relevit.finetune import variants as module
from relevit.finetune.controls import OWN
from relevit.finetune.cures import ORIGINAL, Cure, of_study
from relevit.finetune.runs import FailedError, Row
from relevit.finetune.variants import VARIANTS, ablations, compared, score, twin, variant

MAPS = {
    "gae": {},
    "readout_last2": {"explanation": "readout", "trained_blocks": 2},
    "label": {"weight_relevance": 0.0},
    "label_last2": {"weight_relevance": 0.0, "trained_blocks": 2},
    "swap_last2": {"weight_relevance": 0.0, "trained_blocks": 2, "augmentation": "swap"},
}


def answered(ranks, name="val"):
    return pd.DataFrame(
        {"dataset": name, "index": range(len(ranks)), "label": 3, "label_rank": ranks}
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


@pytest.fixture
def here(tmp_path, monkeypatch):
    for folder in ("notebooks", "params"):
        (tmp_path / folder).mkdir()
    (tmp_path / "params" / "quick.yaml").write_text("02_finetune: {images_per_class: 3}\n")
    monkeypatch.chdir(tmp_path)


def test_a_run_that_two_sections_ask_for_is_one(here):
    cfg = AblationsParams(variants=["full", "only_classification"], variant_seeds=[0, 1])
    groups = ablations(cfg)
    names = {group: {key: row.name for key, row in rows.items()} for group, rows in groups.items()}
    full = names["variants"]["full", 1]
    assert names["counts"][3, 40, 1] == full == names["rates"][1.0, 1]
    own = FinetuneParams(model="tiny", images_per_class=3, seed=1)
    assert Row(own).name == full, "the preset's own run, where its model is the compared one"
    assert names["maps"][Cure("gae", "annotated", 3, OWN, 1)] == full
    assert len({n for each in names.values() for n in each.values()}) == 2 * (2 + 2 + 1 + 2) + 1


def test_settings_are_of_all_rows_but_the_maps(here):
    cfg = AblationsParams(base_settings={"trained_blocks": 2, "lr": 1.0e-5}, maps={"gae": {}})
    groups = ablations(cfg)
    maps = groups.pop("maps")
    others = [row.params for rows in groups.values() for row in rows.values()]
    assert {(each.trained_blocks, each.lr) for each in others} == {(2, 1.0e-5)}
    assert {(row.params.trained_blocks, row.params.lr) for row in maps.values()} == {(None, None)}
    assert {row.held_out for row in maps.values()} == {cfg.looked_at}
    assert not any(row.held_out for rows in groups.values() for row in rows.values())


def test_maps_are_rows_beside_their_labels_and_their_swap(here):
    cfg = AblationsParams(maps=MAPS, map_settings={"weight_background": 1.0})
    found = ablations(cfg)["maps"]
    assert [key.arm for key in found] == [ORIGINAL, *MAPS]
    for key, row in found.items():
        if key.arm != ORIGINAL:
            changes = {"weight_background": 1.0} | MAPS[key.arm]
            assert row.params == found[key].params.model_copy(update=changes)
    labels = {arm: twin(cfg, arm) for arm in MAPS}
    blocks = {arm: "label_last2" if "last2" in arm else "label" for arm in MAPS}
    assert labels == blocks
    swaps = {arm: twin(cfg, arm, augmentation="swap") for arm in ("gae", "readout_last2")}
    assert swaps == {"gae": None, "readout_last2": "swap_last2"}
    with pytest.raises(ValueError, match=r"quick\.yaml: 05_ablations: map 'odd': speed = 3 is no"):
        ablations(AblationsParams(maps={"odd": {"speed": 3}}))


def test_a_map_is_held_against_labels_and_swap_on_its_blocks_and_against_gae_on_all():
    known = {ORIGINAL: 20, **dict(zip(MAPS, (24, 30, 18, 16, 22), strict=True))}
    seen = [
        pd.DataFrame({"dataset": name, "index": range(40), "label": range(40)}).assign(
            **Cure(arm, "annotated", 3, OWN, 0)._asdict(), right=lambda t, k=right: t["index"] < k
        )
        for arm, right in known.items()
        for name in ("val", *SHIFTED_SETS)
    ]
    figures = pd.DataFrame([Cure(arm, "annotated", 3, OWN, 0)._asdict() for arm in known])
    cfg = AblationsParams(maps=MAPS)
    found = compared(cfg, pd.concat(seen), figures.assign(lr=1.0), habitats())
    columns = ["change_pts", "over_label_pts", "over_swap_pts", "over_gae_pts"]
    assert found.loc["readout_last2", columns].tolist() == [25, 35, 20, 15]
    assert found.loc["gae", columns[:2]].tolist() == [10, 15]
    assert found.loc["gae", columns[2:]].isna().all(), "no swap of all blocks, and no rival"


def test_the_study_of_maps_is_that_of_the_preset(monkeypatch):
    root = Path(__file__).parents[3]
    monkeypatch.chdir(root)
    asked = ablations(AblationsParams.from_preset(root / "params" / "study.yaml"))["maps"]
    table = of_study("maps")
    rates = {key.arm: row.params.lr for key, row in asked.items() if key.arm != ORIGINAL}
    assert dict(zip(table["arm"], table["lr"], strict=True)) == rates
    assert all(table["seeds"] == len({key.seed for key in asked}))


def test_variant_that_diverged_leaves_its_reason(here, monkeypatch):
    def read(row):
        if row.params.seed == 1:
            raise FailedError("training: loss is nan")
        return {"lr": row.params.lr}

    monkeypatch.setattr(module, "read", read)
    monkeypatch.setattr(module, "answers", lambda row: answered([0, 1], "a"))
    rows = {("full", s): Row(FinetuneParams(lr=1.0e-3, seed=s)) for s in (0, 1, 2)}
    table, shifted, lost = score(rows, ("variant", "seed"), answered([1, 1], "a"))
    assert shifted[["variant", "change_pts", "seeds"]].to_numpy().tolist() == [["full", 50.0, 2]]
    assert table[["variant", "seed"]].drop_duplicates().to_numpy().tolist() == [
        ["full", 0],
        ["full", 2],
    ]
    assert lost == {("full", 1): "training: loss is nan"} and table["top1_pct"].dtype == float
    failed = {("full", 1): rows["full", 1]}
    table, shifted, lost = score(failed, ("variant", "seed"), answered([0]))
    assert table.empty and shifted.empty and list(table) == ["variant", "seed", *COLUMNS, "lr"]

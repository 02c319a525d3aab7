"""Cures: which runs there are along arms and axes, and what tells them apart."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch

from relevit.config import CuresParams
from relevit.config.words import MAP_LOSSES
from relevit.data.cutouts import SHIFTED_SETS
from relevit.data.habitats import habitats
from relevit.finetune import cures as library
from relevit.finetune.controls import OWN
from relevit.finetune.cures import ORIGINAL, Cure, compared, cures, needs_masks, step_price, worst
from relevit.finetune.runs import needs, once, original_images

from ..micro_finetuning import SETTINGS, SPEC, micro_model, pictures

ARMS = {
    "label": {"weight_relevance": 0.0},
    "relevance": {},
    "swap": {"weight_relevance": 0.0, "augmentation": "swap"},
    "head": {"weight_relevance": 0.0, "trained_blocks": 0},
    **{name: {"method": name} for name in MAP_LOSSES[1:]},
}
FOLLOWED = ["label", "relevance", "swap"]
ROOT = Path(__file__).parents[3]
PRESET = """
common: {model: tiny, seeds: [0, 1]}
02_finetune: {epochs: 1, images_per_class: 3, lr: 1.0e-4, class_term: confidence}
"""

pytestmark = pytest.mark.usefixtures("project_of_one_preset")


def params(**others) -> CuresParams:
    given = {"model": "tiny", "arms": ARMS, "arm_seeds": [0, 1], "followed": FOLLOWED}
    return CuresParams(**given | {"arm_settings": {"class_term": "label"}} | others)


def test_an_arm_differs_from_the_control_in_what_it_is_named_for_alone():
    found = cures(params(arm_seeds=[1]))
    assert [key.arm for key in found] == [ORIGINAL, *ARMS]
    assert {(key.masks, key.world, key.seed) for key in found} == {("annotated", OWN, 1)}
    control, rows = None, {key.arm: row for key, row in found.items()}
    control = rows["label"].params
    assert (control.class_term, control.lr, control.seed) == ("label", 1.0e-4, 1)
    for arm, changes in ARMS.items():
        expected = control.model_copy(update={"weight_relevance": None} | changes)
        assert rows[arm].params == expected
    assert len({row.name for row in rows.values()}) == len(rows)
    assert cures(params(arms={}, followed=[])) == {}


def test_axes_follow_some_arms_and_ask_for_no_run_twice():
    axes = {"prices": ["annotated", "boxes"], "counts": [3, 10], "worlds": [{"home_share": 0.5}]}
    found = cures(params(**axes))
    own = cures(params())
    assert {key: found[key] for key in own} == own
    rest = [key for key in found if key not in own]
    of_a_seed = [
        *((arm, "boxes", 3, OWN) for arm in ("relevance", "swap")),  # label looks at no mask
        *((arm, "annotated", 10, OWN) for arm in FOLLOWED),
        (ORIGINAL, "annotated", 0, "home 0.5"),
        *((arm, "annotated", 3, "home 0.5") for arm in FOLLOWED),
    ]
    assert [tuple(key) for key in rest] == [(*key, seed) for seed in (0, 1) for key in of_a_seed]
    for key, row in found.items():
        if key.arm != ORIGINAL:
            assert (row.params.masks, row.params.images_per_class) == key[1:3]
    # The preset's own original is one, whatever the seed; another world has one a seed.
    assert len(once(found.values())) == len(found) - 1
    origins = {need.name for key in rest[-3:] for need in needs(found[key])}
    assert origins == {found[rest[-4]].name}
    assert not any(needs_masks(found[key].params) for key in found if key.arm in ("label", "head"))


def test_an_original_of_another_length_is_one_for_all_seeds():
    """As the preset's own is; and its images are those it says, not those of 00_start."""
    found = cures(params(worlds=[{"original_images": 1200}, {"home_share": 1}]))
    originals = {key: row for key, row in found.items() if key.arm == ORIGINAL}
    assert [key.world for key in originals] == [OWN, "original 1200", "home 1"] * 2
    assert len(once(originals.values())) == 1 + 1 + 2
    longer = [row for key, row in found.items() if key.world == "original 1200"]
    origins = {need.name for row in longer for need in needs(row)}
    assert origins == {row.name for row in longer if row.original}
    assert {original_images(row.params) for row in longer} == {1200}
    with pytest.raises(ValueError, match=r"worlds\.0\.speed"):
        params(worlds=[{"speed": 3}])


def test_worst_class_and_home_are_of_each_run_and_their_mean_over_seeds():
    """Of 40 labels, seed 0 knows all but label 7, seed 1 all but half of label 3's images."""
    rows = [
        (
            seed,
            name,
            2 * label + i,
            label,
            (label, seed) != (7, 0) and (label, seed, i) != (3, 1, 0),
        )
        for seed in (0, 1)
        for name in ("val", *SHIFTED_SETS)
        for label in range(40)
        for i in range(2)
    ]
    seen = pd.DataFrame(rows, columns=["seed", "dataset", "index", "label", "right"])
    found = worst(seen, habitats())
    assert found == pytest.approx({"worst_class_pct": 25, "worst_home_pct": 85})


def test_wrong_arms_are_refused_where_they_are_read():
    with pytest.raises(ValueError, match=r"quick\.yaml: 04_cures: arm 'odd': speed = 3 is no"):
        cures(params(arms=ARMS | {"odd": {"speed": 3}}))


def test_arms_are_held_against_the_original_and_against_relevance_of_their_own_kind():
    """Of 40 images a set each run knows so many; relevance with boxes is another rival."""
    known = {
        (ORIGINAL, "annotated"): 20,
        ("label", "annotated"): 16,
        ("relevance", "annotated"): 24,
        ("relevance", "boxes"): 22,
        ("swap", "boxes"): 32,
    }
    parts, figures = [], []
    for (arm, masks), right in known.items():
        for seed in (0, 1):
            key = Cure(arm, masks, 0 if arm == ORIGINAL else 3, OWN, seed)._asdict()
            figures.append(key | {"lr": 1.0, "on_object_pct": right + seed})
            for name in ("val", *SHIFTED_SETS):
                seen = {"dataset": name, "index": range(40), "label": range(40)}
                more = seed if name == "val" else 0
                parts.append(
                    pd.DataFrame(seen | key).assign(right=lambda t, k=right + more: t["index"] < k)
                )
    found = compared(pd.concat(parts), pd.DataFrame(figures), habitats())
    found = found.set_index(["arm", "masks"])
    columns = ["change_pts", "lead_pts", "seeds_better", "val_pts", "on_object_pct"]
    assert found.loc[("label", "annotated"), columns].tolist() == [-10, -20, 0, -10, 16.5]
    assert found.loc[("swap", "boxes"), columns].tolist() == [30, 25, 2, 30, 32.5]
    assert found.loc[[("relevance", "annotated"), ("relevance", "boxes")], "lead_pts"].isna().all()


def test_a_step_with_maps_keeps_more_than_labels_and_a_head_alone_less():
    model, train = micro_model(), pictures("train", 8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    free = SETTINGS.weights | {"relevance": 0.0}
    kept = [
        step_price(model, SPEC, train, SETTINGS.changed(**changes), 1)["memory_mib"]
        for changes in ({"weights": free, "trained_blocks": 0}, {"weights": free}, {})
    ]
    assert 0 < kept[0] < kept[1] < kept[2]
    assert step_price(model, SPEC, train, SETTINGS, 1)["memory_mib"] == kept[2]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())


def test_the_study_that_is_shown_is_that_of_the_preset(monkeypatch):
    monkeypatch.chdir(ROOT)
    asked = cures(CuresParams.from_preset(ROOT / "params" / "study.yaml"))
    table = library.of_study()
    rows = {tuple(row) for row in table[library.KEYS[:-1]].itertuples(index=False)}
    assert rows == {tuple(key)[:-1] for key in asked if key.arm != ORIGINAL}
    rates = {key.arm: row.params.lr for key, row in asked.items()}
    assert all(table["lr"] == table["arm"].map(rates))

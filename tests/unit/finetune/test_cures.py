"""Cures: which runs there are along arms and axes, and what tells them apart."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit.config import CuresParams
from relevit.config.words import MAP_LOSSES
from relevit.data.cutouts import SHIFTED_SETS
from relevit.data.habitats import habitats
from relevit.finetune.cures import ORIGINAL, OWN, cures, needs_masks, worst
from relevit.finetune.runs import needs, once

ARMS = {
    "label": {"weight_relevance": 0.0},
    "relevance": {},
    "swap": {"weight_relevance": 0.0, "augmentation": "swap"},
    "head": {"weight_relevance": 0.0, "trained_blocks": 0},
    **{name: {"method": name} for name in MAP_LOSSES[1:]},
}
FOLLOWED = ["label", "relevance", "swap"]
PRESET = """
common: {model: tiny, seeds: [0, 1]}
02_finetune: {epochs: 1, images_per_class: 3, lr: 1.0e-4, class_term: confidence}
"""


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    for folder in ("notebooks", "params"):
        (tmp_path / folder).mkdir()
    (tmp_path / "params" / "quick.yaml").write_text(PRESET)
    monkeypatch.chdir(tmp_path)


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
    axes = {"prices": ["annotated", "boxes"], "counts": [3, 10], "home_shares": [0.5]}
    found = cures(params(axis_seeds=[0], **axes))
    own = cures(params())
    assert {key: found[key] for key in own} == own
    rest = [key for key in found if key not in own]
    assert [tuple(key) for key in rest] == [
        *((arm, "boxes", 3, OWN, 0) for arm in ("relevance", "swap")),  # label looks at no mask
        *((arm, "annotated", 10, OWN, 0) for arm in FOLLOWED),
        (ORIGINAL, "annotated", 0, "home 0.5", 0),
        *((arm, "annotated", 3, "home 0.5", 0) for arm in FOLLOWED),
    ]
    for key, row in found.items():
        if key.arm != ORIGINAL:
            assert (row.params.masks, row.params.images_per_class) == key[1:3]
    # The preset's own original is one, whatever the seed; another world has one a seed.
    assert len(once(found.values())) == len(found) - 1
    origins = {need.name for key in rest[-3:] for need in needs(found[key])}
    assert origins == {found[rest[-4]].name}
    assert not any(needs_masks(found[key].params) for key in found if key.arm in ("label", "head"))


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

"""Why the method works: what is put beside what, on answers that are known."""

import numpy as np
import pandas as pd
import pytest

from reproduction.params.cells import params_of
from reproduction.params.preset import read_preset
from reproduction.runs import grids, mechanism
from reproduction.runs.mechanism import EXACT, LOSSES, MASKS, MEDIATORS, PREDICTED, contrasts
from reproduction.runs.run import needs
from reproduction.stages import preset_file


def test_every_contrast_was_predicted_is_balanced_and_has_its_runs():
    asked = grids.of(params_of("04_cures").from_preset(preset_file("why")))
    made = set(asked[["arm", "masks"]].itertuples(index=False, name=None))
    predicted = pd.read_csv(PREDICTED)["question"]
    for each in contrasts():
        assert len(each.more) == len(each.less) and {*each.more, *each.less} <= made
        assert each.question in predicted.tolist()
    assert asked.groupby(["arm", "masks"])["seed"].nunique().eq(5).all()
    originals = asked[asked["arm"] == "original"]["run"]
    assert len({run.name for run in originals}) == 5
    rows = grids.of_preset(read_preset(preset_file("why")))
    assert all(need.name in rows for row in rows.values() for need in needs(row))


@pytest.mark.parametrize("lead", [4.0, 0.0])
def test_what_the_gradient_gains_is_told_from_what_a_mediator_explains(lead):
    rng, rows = np.random.default_rng(0), []
    for seed in range(5):
        for arm in LOSSES:
            for tail in ("", EXACT):
                for masks in MASKS:
                    on = rng.normal()
                    gap = rng.normal() + 3 * (tail == EXACT)
                    adds = lead * (tail == "") + 2 * on - gap + LOSSES.index(arm)
                    values = dict(zip(MEDIATORS, (on, gap, 1.0), strict=True))
                    row = {"arm": arm + tail, "masks": masks, "seed": seed, "adds_pts": adds}
                    rows.append(row | values | {"published": tail == ""})
    held = mechanism.held_fixed(pd.DataFrame(rows)).set_index("held")
    both = held.loc[" and ".join(MEDIATORS[:2])]
    assert both["gradient_pts"] == pytest.approx(lead)
    assert held.loc["nothing", "gradient_pts"] == pytest.approx(lead + 3, abs=2)
    assert held.loc["background_gap_pts", "slope"] == pytest.approx(-1, abs=0.5)

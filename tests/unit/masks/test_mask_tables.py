"""How good masks are: seeds together, other images by their name."""

from __future__ import annotations

import torch

from relevit.data.batch import Batch
from relevit.masks import AutomaticMasks
from reproduction.measures.mask_tables import mask_qualities, mask_table


def test_seeds_are_one_row_of_the_table_and_others_stand_by_name():
    exact = torch.zeros(2, 1, 8, 8, dtype=torch.bool)
    exact[:, 0, 2:6, 2:6] = True
    half = exact.clone()
    half[:, 0, 4:6] = False
    batch = Batch(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), exact, torch.tensor([0, 1]))
    both, one = torch.tensor([True, True]), torch.tensor([True, False])
    found = {
        3: AutomaticMasks(half, exact, one),
        5: AutomaticMasks(half, half, both),
        "val": AutomaticMasks(exact, exact, both),
    }
    rows = mask_qualities(found, dict.fromkeys(found, batch))
    assert list(rows) == ["images", "seed", "index", "stage", "iou_pct", "located", "kept"]
    assert rows["seed"].tolist() == [3] * 8 + [5] * 8 + [0] * 8
    table = mask_table(rows)
    stages = ["coarse", "refined", "ellipse", "whole image"]
    assert list(table.index) == [(name, each) for name in ("training", "val") for each in stages]
    told = table.loc["training", "overlap (%)"]
    assert told["coarse"] == "50.0 (50.0 to 50.0)" and told["refined"].startswith("75.0 (")
    assert told["whole image"] == "25.0 (25.0 to 25.0)", "the share that the object fills"
    assert table.loc["training", "count"].tolist() == [4] * 4
    kept = table.loc["training", "kept (%)"]
    assert kept["refined"].startswith("75.0 (") and kept["ellipse"] == ""
    assert table.loc[("training", "refined"), "overlap of the kept (%)"].startswith("66.7 (")
    assert set(table.loc[("val", "refined")][["overlap (%)", "overlap of the kept (%)"]]) == {
        "100.0 (34.2 to 100.0)"
    }, "Wilson's: two of two"

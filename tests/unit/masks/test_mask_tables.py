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
    assert rows["seed"].tolist() == [3] * 4 + [5] * 4 + [0] * 4
    table = mask_table(rows)
    assert table.loc["training", "overlap (%)"].to_dict() == {"coarse": 50, "refined": 75}
    assert table.loc["training", "kept (%)"].tolist() == [75, 75]
    assert table.loc[("training", "refined"), "overlap of the kept (%)"] == 200 / 3
    assert table.loc["val"].to_numpy().tolist() == [[100] * 4] * 2

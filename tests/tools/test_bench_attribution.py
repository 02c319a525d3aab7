"""The benchmark of attribution methods: the published order of work and ours agree."""

from __future__ import annotations

import json

import pytest

from relevit.attribution import METHODS

from .conftest import TINY

NAMES = ("token_wise", "head_wise", "transformer_attribution")


@pytest.fixture
def case(bench):
    """A tiny model in float64 with three images, by which the published order is held to ours."""
    args = bench.parse([*TINY, "--device=cpu", "--batch=3"])
    table = next(table for table in bench.TABLES if table.task == NAMES[-1])
    model, batch = bench.build(table, args)
    return model.double(), tuple(x.double() if x.is_floating_point() else x for x in batch)


def test_tables_and_agreement_come_out(bench, capsys, tmp_path):
    path = tmp_path / "bench.json"
    options = (*TINY, "--device=cpu", "--no-memory", "--clock=cpu", f"--json={path}")
    assert bench.main([*options, "--tasks", *NAMES]) == 0
    text, rows = capsys.readouterr().out, json.loads(path.read_text())
    for title in ("token_wise, vit_b, batch 1", "transformer_attribution, vit_b, batch 4"):
        assert title in text
    assert [list(row["seconds"]) for row in rows] == [
        ["published", "ours", "floor"],
        ["published", "ours", "floor"],
        ["published", "one by one", "ours"],
    ]
    assert text.count("target >= 3.4") == 2 and text.count("target >= 2.0") == 1
    assert text.count("  ours / floor: ") == 2 and "none" not in text
    assert text.count(": agree\n") == 3 and "DIFFER" not in text
    assert all(value < 1e-4 for row in rows for value in row["differences"].values())


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_gives_the_map_of_each_image(bench, case, name):
    model, batch = case
    found = {variant: run(model, *batch) for variant, run in bench.TASKS[name].items()}
    found.pop("floor", None)
    ours = METHODS[name](model, batch[0], batch[2])
    assert ours.shape[0] == 3 and ours.abs().max() > 0
    for variant, numbers in found.items():
        (maps,) = numbers["map"]
        # LRP amplifies the rounding that the published order adds to its denominators.
        limit = 1e-5 if name == "transformer_attribution" else 1e-9
        gap = (maps - ours).abs().amax(dim=1) / ours.abs().amax(dim=1)
        assert gap.max() < limit, variant

"""The benchmark of attribution methods: the published order of work and ours agree."""

from __future__ import annotations

import importlib
import json

import pytest
import torch

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


@pytest.mark.parametrize("name", NAMES)
def test_model_is_left_as_it_was(bench, case, name):
    model, batch = case
    for run in bench.TASKS[name].values():
        run(model, *batch)
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_floor_makes_a_forward_pass_for_every_point(bench, case):
    model, (images, masks, labels) = case
    (logits,) = bench.TASKS["token_wise"]["floor"](model, images, masks, labels)["logits"]
    torch.testing.assert_close(logits[::20], model(images))
    assert len(logits) == 60


def test_path_table(bench, capsys, monkeypatch, tmp_path):
    """More points err less, and the 200 published ones are no truth themselves."""
    path = tmp_path / "bench.json"
    bench_path = importlib.import_module("bench_path")
    monkeypatch.setattr(bench_path, "IMAGES", 2)
    assert bench.main(["--device=cpu", "--tasks", "path", f"--json={path}"]) == 0
    assert capsys.readouterr().out.count("target <= 6: ") == 3
    (row,) = json.loads(path.read_text())
    errors = {(e["sum"], e["against"]): e["mean"] for e in row["errors"] if e["of"] == "feedback"}
    assert errors["200 Riemann", "200 Riemann"] == 0
    few, published, many, own = (
        errors[name, "64 Gauss"] for name in ("2 Gauss", "20 Riemann", "8 Gauss", "200 Riemann")
    )
    assert few > published > 5 * own > 0 and few > 2 * many
    assert len(row["enough"]) == 24
    assert all(e["passes"] is None or 2 <= e["passes"] <= 8 for e in row["enough"])

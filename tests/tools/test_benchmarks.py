"""The benchmarks of maps and steps: both orders of work agree, a wrong one is found."""

import json

import pytest

from relevit.attribution import METHODS

from .conftest import TINY

OPTIONS = (*TINY, "--device=cpu", "--clock=cpu")
NAMES = ("token_wise", "head_wise")
TASKS = {
    "relevance": (("relevance",), 2),
    "step": (("step",), 1),
    "attribution": (NAMES, 2),
    "maps": (("maps",), 4),
}


@pytest.mark.parametrize("task", TASKS)
def test_tables_and_agreement_come_out(bench, capsys, tmp_path, task):
    path, (asked, count) = tmp_path / "bench.json", TASKS[task]
    assert bench.main([*OPTIONS, f"--json={path}", "--tasks", *asked]) == 0
    text, rows = capsys.readouterr().out, json.loads(path.read_text())
    assert len(rows) == count and "DIFFER" not in text and "target" in text
    for row in rows:
        differences = row.get("differences", {})
        assert all(value < row.get("limit", 1e-4) for value in differences.values())
        assert row["seconds"]


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_gives_the_map_of_each_image(bench, name):
    args = bench.parse([*OPTIONS, "--batch=3"])
    model, batch = bench.build(next(t for t in bench.TABLES if t.task == "step"), args)
    model = model.double()
    batch = tuple(x.double() if x.is_floating_point() else x for x in batch)
    found = {variant: run(model, *batch) for variant, run in bench.TASKS[name].items()}
    found.pop("floor", None)
    ours = METHODS[name](model, batch[0], batch[2])
    assert ours.shape[0] == 3 and ours.abs().max() > 0
    for variant, numbers in found.items():
        (maps,) = numbers["map"]
        gap = (maps - ours).abs().amax(dim=1) / ours.abs().amax(dim=1)
        assert gap.max() < 1e-9, variant


@pytest.mark.parametrize("factor", [1.001, float("nan")])
def test_wrong_number_makes_the_exit_code_1(bench, capsys, monkeypatch, factor):
    right = bench.TASKS["relevance"]["ours"]

    def wrong(*args):
        (relevance,) = right(*args)["relevance"]
        relevance[0, relevance[0].argmax()] *= factor
        return {"relevance": [relevance]}

    monkeypatch.setitem(bench.TASKS["relevance"], "ours", wrong)
    assert bench.main([*OPTIONS, "--models=vit_l", "--tasks", "relevance"]) == 1
    assert "DIFFER" in capsys.readouterr().out


@pytest.mark.gpu
def test_ours_is_faster_on_cuda(bench, tmp_path):
    path = tmp_path / "bench.json"
    asked = ("--tasks", "relevance", "step", "--models", "vit_b", "--repeats=5")
    assert bench.main(["--device=cuda", *asked, f"--json={path}"]) == 0
    for row in json.loads(path.read_text()):
        name, ratio, *_ = row["ratios"][0]
        assert name == "published / ours" and ratio > 1

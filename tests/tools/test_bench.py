"""The benchmark of maps and steps: its tables come out, and numbers that differ are found."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from .conftest import SCRIPT, TINY

TASKS = ("--tasks", "relevance", "step", "evaluation")


def run_bench(*options: str) -> str:
    command = [sys.executable, str(SCRIPT), *options]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_tables_and_agreement_come_out(tmp_path):
    path = tmp_path / "bench.json"
    text = run_bench(*TINY, *TASKS, "--device=cpu", "--no-memory", f"--json={path}")
    for title in ("relevance, vit_b, batch 2", "relevance, vit_l, batch 1", "step, vit_b, batch 4"):
        assert title in text
    assert text.count("  published / ours: ") == 3 and text.count("  ours / floor: ") == 1
    assert "target >= 3.5" in text and "target <= 1.1" in text
    assert text.count(": agree\n") == 8 and "DIFFER" not in text
    rows = [row for row in json.loads(path.read_text()) if row["task"] != "evaluation"]
    assert [list(row["seconds"]) for row in rows] == [
        ["published", "ours"],
        ["published", "ours"],
        ["published", "ours", "floor"],
    ]
    assert all(len(values) == 2 for row in rows for values in row["seconds"].values())
    assert all(value < 1e-4 for row in rows for value in row["differences"].values())


@pytest.mark.parametrize("factor", [1.001, float("nan")])
def test_wrong_number_makes_the_exit_code_1(bench, capsys, monkeypatch, factor):
    right = bench.TASKS["relevance"]["ours"]

    def wrong(*args):
        (relevance,) = right(*args)["relevance"]
        relevance[0, 3] *= factor
        relevance[0, relevance[0].argmax()] *= factor
        return {"relevance": [relevance]}

    monkeypatch.setitem(bench.TASKS["relevance"], "ours", wrong)
    assert bench.main([*TINY, "--device=cpu", "--models=vit_l", *TASKS, "--no-memory"]) == 1
    assert "DIFFER" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({"map": 1e-5, "loss": 1e-4}, True),
        ({"map": 1e-5, "loss": 2e-4}, False),
        ({"map": float("nan")}, False),
        ({"map": float("inf")}, False),
        ({}, False),
    ],
)
def test_agreement(bench, found, verdict):
    assert bench.agree(found) is verdict


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_ours_is_faster_on_cuda(tmp_path):
    path = tmp_path / "bench.json"
    run_bench("--device=cuda", *TASKS, "--models", "vit_b", "--repeats=5", f"--json={path}")
    rows = [row for row in json.loads(path.read_text()) if row["task"] != "evaluation"]
    assert [row["task"] for row in rows] == ["relevance", "step"]
    for row in rows:
        name, ratio, *_ = row["ratios"][0]
        assert name == "published / ours" and ratio > 1
        assert row["memory_mib"]["ours"] < row["memory_mib"]["published"]

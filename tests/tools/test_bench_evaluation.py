"""The benchmark of evaluation: timm's answers are ours, and wrong ones are found."""

from __future__ import annotations

import importlib
import json

import pytest

from .conftest import TINY

OPTIONS = (
    *TINY,
    "--device=cpu",
    "--tasks",
    "evaluation",
    "--evaluation-model=vit_tiny_patch16_224",
)


@pytest.fixture
def module(bench, monkeypatch):
    module = importlib.import_module("bench_evaluation")
    for name in (module, bench):
        monkeypatch.setattr(name, "fast_bfloat16", lambda device: True)
    return module


def test_times_and_agreement_come_out(bench, module, capsys, tmp_path):
    path = tmp_path / "bench.json"
    assert bench.main([*OPTIONS, f"--json={path}"]) == 0
    text, row = capsys.readouterr().out, json.loads(path.read_text())[-1]
    assert "evaluation, vit_tiny_patch16_224, batch 6" in text
    assert "timm / float32" in text and "target >= 1.0" in text and "target >= 2.5" in text
    assert "confidences of timm and float32 differ" in text and "the same" in text
    assert list(row["seconds"]) == ["timm", "float32", "bfloat16"] and row["batch"] == 4
    assert all(len(values) == 2 for values in row["seconds"].values())
    assert row["changed_pct"]["float32"] == 0
    assert row["differences"]["confidence"] < row["limit"] == 1e-4

"""The benchmark of SmoothGrad: both orders of work agree, and a wrong one is found."""

from __future__ import annotations

import json

from .conftest import TINY

OPTIONS = (*TINY, "--device=cpu", "--clock=cpu", "--tasks", "smoothgrad")


def test_times_and_agreement_come_out(bench, capsys, tmp_path):
    path = tmp_path / "bench.json"
    assert bench.main([*OPTIONS, f"--json={path}"]) == 0
    text, (row,) = capsys.readouterr().out, json.loads(path.read_text())
    assert "smoothgrad, 4 images, 20 draws" in text and "target <= 360: met" in text
    assert row["total_s"] == 4 * row["seconds"]["mini-dino"] > 0
    assert row["differences"]["map"] < row["limit"]

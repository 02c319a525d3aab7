"""The benchmark of automatic masks: both solves agree, and a wrong one is found."""

from __future__ import annotations

import importlib
import json

import torch

from .conftest import TINY

OPTIONS = (*TINY, "--device=cpu", "--clock=cpu", "--tasks", "tokencut")


def test_tables_and_agreement_come_out(bench, capsys, tmp_path):
    path = tmp_path / "bench.json"
    assert bench.main([*OPTIONS, f"--json={path}"]) == 0
    text, rows = capsys.readouterr().out, json.loads(path.read_text())
    for title in ("tokencut, 100 tokens, batch 4", "tokencut, 144 tokens, batch 1", "112 px"):
        assert title in text
    assert text.count("published / ours: ") == 2 and text.count("target >= 1.0") == 2
    assert text.count(": agree\n") == 4 and "DIFFER" not in text
    assert [list(row["seconds"]) for row in rows] == [["published", "ours"]] * 2 + [
        ["112 px", "224 px"]
    ]
    assert all(value > 0 for value in rows[-1]["milliseconds_an_image"].values())


def test_wrong_partition_makes_the_exit_code_1(bench, capsys, monkeypatch):
    module = importlib.import_module("bench_tokencut")
    right = module.second_eigenpairs

    def wrong(edges):
        vectors, values = right(edges)
        return vectors.roll(1, dims=1), values

    monkeypatch.setattr(module, "second_eigenpairs", wrong)
    assert bench.main([*OPTIONS]) == 1
    assert "DIFFER" in capsys.readouterr().out


def test_sign_of_a_vector_does_not_matter(bench):
    module = importlib.import_module("bench_tokencut")
    vectors = torch.tensor([[0.1, -0.7, 0.2, 0.1]]).double()
    one, other = module.numbers(vectors), module.numbers(-vectors)
    assert all(torch.equal(one[name][0], other[name][0]) for name in one)

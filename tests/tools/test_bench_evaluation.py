"""The benchmark of evaluation: timm's answers are ours, and wrong ones are found."""

from __future__ import annotations

import importlib
import json

import pytest
import torch

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


def test_bfloat16_is_left_out_where_it_is_slow(bench, module, capsys, monkeypatch):
    monkeypatch.setattr(module, "fast_bfloat16", lambda device: False)
    (row,) = module.measure(bench.parse([*OPTIONS]))
    assert list(row["seconds"]) == ["timm", "float32"] and set(row["changed_pct"]) == {"float32"}
    assert len(row["ratios"]) == 1


def test_other_pictures_make_the_exit_code_1(bench, module, capsys, monkeypatch):
    """A picture that is cut in another way is not the same contest."""
    view = module.View
    monkeypatch.setattr(module, "View", lambda **how: view(**how | {"resize": how["crop"]}))
    assert bench.main([*OPTIONS]) == 1
    assert "DIFFER" in capsys.readouterr().out


def test_both_read_all_pictures_in_the_same_order(bench, module, tmp_path):
    root = module.write_pictures(tmp_path, 11)
    model = torch.nn.Module()
    model.patch_embed = torch.nn.Module()
    model.patch_embed.img_size, model.pretrained_cfg = (32, 32), {"crop_pct": 0.9}
    ours = module.Contest(root, model, 4, 0)._pictures()
    reader = module.create_dataset("", str(root), split="validation").reader
    assert [reader.filename(place, basename=True) for place in range(11)] == list(ours.ids)
    assert [label for _, label in reader.samples] == ours.labels.tolist()
    assert ours.labels.unique().tolist() == list(range(module.CLASSES))

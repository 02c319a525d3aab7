"""The notes for the paper preset list what the catalogue of data sets says."""

import importlib

from .conftest import SCRIPT


def test_notes_have_the_catalogue(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    notes = (SCRIPT.parents[1] / "docs" / "paper_preset.md").read_text("utf-8")
    table = importlib.import_module("data_sets").markdown()
    assert table in notes, "put there what python tools/data_sets.py says"

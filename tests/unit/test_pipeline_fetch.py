"""What a pipeline fetches before it starts."""

from __future__ import annotations

import pytest

from relevit import dinov2, extras, pipeline
from relevit.paths import project_root
from relevit.text import minilm, movie_reviews


@pytest.fixture
def fetched(monkeypatch):
    called = []
    for module, name in (
        (dinov2, "load_dinov2"), (minilm, "minilm_folder"), (movie_reviews, "fetch_reviews"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, lambda name=name: called.append(name))
    return called


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("quick", []),
        ("rehearsal", []),
        ("workshop", ["load_dinov2", "minilm_folder", "fetch_reviews"]),
    ],
)
def test_a_preset_fetches_what_its_stages_need_and_no_more(fetched, preset, expected):
    pipeline._fetch(project_root() / "params" / preset)
    assert fetched == expected


def test_missing_packages_are_named_before_any_stage_runs(fetched, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    message = "tokenizers and transformers not installed.*make setup.*pip install relevit"
    with pytest.raises(RuntimeError, match=message):
        pipeline._fetch(project_root() / "params" / "workshop")
    assert fetched == []

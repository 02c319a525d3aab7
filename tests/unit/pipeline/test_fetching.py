"""What a pipeline fetches, and looks at, before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from relevit.base.files import project_root
from relevit.config.preset import Preset, read_preset
from relevit.models import dinov2
from relevit.pipeline.fetching import fetch
from relevit.text import minilm, pretrained
from relevit.text.clip import from_transformers
from relevit.text.corpora import movie_reviews
from replicas.text import write_eraser_movies, write_newsgroups

ROOT = Path(__file__).parents[3]


@pytest.fixture
def fetched(monkeypatch):
    called = []
    for module, name in (
        (dinov2, "load_dinov2"),
        (minilm, "minilm_folder"),
        (movie_reviews, "fetch_reviews"),
        (pretrained, "bert_folder"),
        (from_transformers, "clip_folder"),
    ):
        monkeypatch.setattr(
            module, name, lambda *at, name=name: called.append(" ".join((name, *at)))
        )
    return called


def named(preset: str) -> Path:
    params = project_root() / "params" / f"{preset}.yaml"
    return params if params.is_file() else ROOT / "tests" / "replicas" / f"{preset}.yaml"


def preset_with(folder: Path, preset: str, corpus_root: str) -> Preset:
    """A preset with its texts in another folder."""
    values = yaml.safe_load(named(preset).read_text())
    values["09_text"]["corpus_root"] = corpus_root
    (folder / f"{preset}.yaml").write_text(yaml.safe_dump(values))
    return read_preset(folder / f"{preset}.yaml")


@pytest.mark.parametrize(
    ("preset", "expected"),
    [("quick", []), ("workshop", ["load_dinov2", "minilm_folder", "fetch_reviews"])],
)
def test_a_preset_fetches_what_its_stages_need_and_no_more(fetched, preset, expected):
    fetch(read_preset(named(preset)))
    assert fetched == expected


def test_texts_on_disk_are_read_before_any_stage_runs(fetched, tmp_path):
    preset = preset_with(tmp_path, "rehearsal", corpus_root=str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=r"09_text: corpus_root = .*train.jsonl is missing; unpack"
    ):
        fetch(preset)
    write_eraser_movies(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"20news-bydate-train is missing"):
        fetch(preset)
    write_newsgroups(tmp_path)
    fetch(preset)
    next((tmp_path / "movies" / "docs").iterdir()).unlink()
    with pytest.raises(FileNotFoundError, match=r"movies/docs/.* is missing; unpack movies.tar.gz"):
        fetch(preset)
    assert fetched == []  # its models are random


def test_the_paper_preset_gets_its_models_before_any_stage_runs(fetched, tmp_path):
    write_eraser_movies(tmp_path)
    write_newsgroups(tmp_path, per_group=300)
    fetch(preset_with(tmp_path, "paper", corpus_root=str(tmp_path)))
    assert fetched == ["bert_folder ", "clip_folder "]

"""What a pipeline fetches, and looks at, before it starts."""

from pathlib import Path

import pytest
import yaml

from habitats.corpora import movie_reviews
from relevit.models import dinov2, loading
from relevit.text import minilm
from relevit.text.clip import from_transformers
from replicas.text import write_eraser_movies, write_newsgroups
from reproduction.language import pretrained
from reproduction.params.preset import read_preset
from reproduction.pipeline.fetching import fetch

PARAMS = Path(__file__).parents[3] / "params"


@pytest.fixture
def fetched(monkeypatch):
    called = []
    for module, name in (
        (loading, "load_model"),
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


@pytest.mark.parametrize(
    ("preset", "expected"),
    [("quick", []), ("workshop", ["load_dinov2", "minilm_folder", "fetch_reviews"])],
)
def test_a_preset_fetches_what_its_stages_need_and_no_more(fetched, preset, expected):
    fetch(read_preset(PARAMS / f"{preset}.yaml"))
    assert fetched == expected


def test_texts_on_disk_are_read_and_models_fetched_before_any_stage_runs(fetched, tmp_path):
    values = yaml.safe_load((PARAMS / "paper.yaml").read_text())
    values["09_text"]["corpus_root"] = str(tmp_path)
    (tmp_path / "paper.yaml").write_text(yaml.safe_dump(values))
    preset = read_preset(tmp_path / "paper.yaml")
    with pytest.raises(FileNotFoundError, match=r"09_text: corpus_root = .*jsonl is missing"):
        fetch(preset)
    write_eraser_movies(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"20news-bydate-train is missing"):
        fetch(preset)
    assert not [name for name in fetched if not name.startswith("load_model")]
    write_newsgroups(tmp_path, per_group=300)
    fetched.clear()
    fetch(preset)
    assert fetched[-2:] == ["bert_folder ", "clip_folder "]
    models = ("vit-b", "vit-l", *("ar-s", "ar-b", "ar-l", "deit-s", "deit-b"), "dino-b", "mae-b")
    assert {f"load_model {name}" for name in models} <= {*fetched}, "jobs of a cluster are offline"

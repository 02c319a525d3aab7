"""What the report shows of texts and CLIP: numbers in their places, notes for what is absent."""

from __future__ import annotations

import pytest

from relevit.base import errors, stages
from relevit.claims import text as report_text
from relevit.config import ReportParams

from ..text_tables import made_text, text_rationales


@pytest.fixture
def tables():
    return made_text()


def test_text_overview(tables):
    shown = report_text.text_overview(tables)
    assert shown.loc[("movie_reviews", "ga")].tolist() == [
        "50.0 ± 0.5",
        "50.0 ± 0.5",
        "50.0 ± 0.5",
        "50.0 ± 0.5",
        "51.5 ± 0.5",
        "50.0",
    ]
    assert shown.loc[("movie_reviews", "transformer_attribution"), "positive first half"] == (
        "80.0 ± 0.5"
    )
    assert shown.loc[("newsgroups", "ga"), "F1"] == "–"  # it has no rationales
    methods = shown.loc["movie_reviews"].index.tolist()
    assert methods[0] == "raw_attention" and methods[-1] == "token_wise"


def test_clip_stands_below_table_3(tables):
    shown = report_text.clip_overview(tables)
    assert shown.index.get_level_values("model").unique().tolist() == [
        "CLIP (paper)",
        "dinov2-minilm",
    ]
    assert shown.loc[("CLIP (paper)", "ga"), ("label", "negative")] == "37.1"
    assert shown.loc[("dinov2-minilm", "ga"), ("label", "positive")] == "50.0 ± 0.5"
    assert (shown.loc[(slice(None), "rollout"), "label"] == "–").all(axis=None)


def test_phrases_over_seeds(tables):
    shown = report_text.phrases_overview(tables)
    unseen = shown.loc[("dinov2-minilm", "unseen")]
    assert unseen[["zero-shot", "chance"]].tolist() == ["30.0 ± 1.0", "5.0"]
    assert unseen["points: token_wise"] == "85.0 ± 0.0"
    assert shown.loc[("dinov2-minilm", "all"), "zero-shot"] == "–"


def test_a_missing_table_leaves_its_part_out(tables):
    assert report_text.not_shown(tables, "11_text") == ""
    del tables["text_perturbation"], tables["clip_perturbation"], tables["clip_zero_shot"]
    assert report_text.text_overview(tables).columns.tolist()[0] == "F1"
    assert report_text.clip_overview(tables).empty
    assert "zero-shot" not in report_text.phrases_overview(tables)
    assert report_text.not_shown(tables, "12_clip").startswith(
        "**Not all of `12_clip` is shown**: no table clip_perturbation and no clip_zero_shot: run"
    )
    parts = ("text_overview", "accuracy_overview", "clip_overview", "phrases_overview")
    assert all(getattr(report_text, name)({}).empty for name in parts)
    tables["text_rationales"] = text_rationales().drop(columns="f1_pct")
    assert "table text_rationales lacks ['f1_pct']" in report_text.not_shown(tables, "11_text")
    assert report_text.text_overview(tables).empty


def test_without_the_extra_the_report_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    monkeypatch.setattr(stages, "need_stage", lambda cfg, notebook: tmp_path / notebook)
    text = report_text.not_shown({}, "11_text")
    assert text.endswith("It needs tokenizers and transformers: pip install relevit[text].")
    cfg = ReportParams(output_root=str(tmp_path / "outputs"))
    assert stages.possible_stage(cfg, "10_knn") == tmp_path / "10_knn"
    assert stages.possible_stage(cfg, "11_text") == tmp_path / "outputs" / "quick" / "11_text"
    assert not list((tmp_path / "outputs" / "quick" / "11_text").iterdir())  # it was not run
    monkeypatch.setattr(errors, "find_spec", lambda name: True)
    assert stages.possible_stage(cfg, "11_text") == tmp_path / "11_text"


def test_shaded_texts(tmp_path):
    assert "11_text has not written shaded.html" in report_text.shaded_texts(tmp_path)
    (tmp_path / "shaded.html").write_text("<div>naïve</div>", encoding="utf-8")
    assert report_text.shaded_texts(tmp_path) == "<div>naïve</div>"

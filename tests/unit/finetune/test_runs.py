"""Rows: named after what makes them, made once, read with what they were asked."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from habitats import kept
from relevit.base.files import file_fingerprint
from relevit.finetune.settings import resolved
from relevit.models.registry import shipped_weights
from reproduction.params.cells import FINETUNED, Params, params_of
from reproduction.runs import grids, pictures, run
from reproduction.runs.run import (
    FailedError,
    Row,
    answers,
    judged,
    make,
    make_missing,
    once,
    origin_weights,
    rate,
    read,
    searched,
    weights_of,
)

ROOT = Path(__file__).parents[3]
PRESET = """
common: {model: tiny, seeds: [0]}
00_start: {source: shipped}
pipeline:
  sweep:
    - {models: [tiny], methods: [relevance, rrr], protocols: [described], seeds: [0]}
    - {models: [tiny-mae, vit-b], seeds: [0, 1]}
02_finetune:
  rates: [1.0e-6, 2.0e-6]
  limit_pts: 100.0
  rate_images: 40
  images_per_class: 1
  classes: 2
  epochs: 1
  validation_images: 40
  validation_maps: 8
04a_cures: {rates: [1.0e-5, 2.0e-5]}
"""
SUMMARY = """{"parameters": {"model": "tiny"}}"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project whose original is there: the shipped weights."""
    for folder in ("params", "outputs/quick/00_start"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    (tmp_path / "params" / "quick.yaml").write_text(PRESET)
    stage = tmp_path / "outputs" / "quick" / "00_start"
    (stage / "summary.json").write_text(SUMMARY)
    (stage / "weights.safetensors").symlink_to(shipped_weights("tiny", "habitats"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own(project) -> Params:
    return params_of(FINETUNED).from_preset(project / "params" / "quick.yaml")


def test_a_run_is_named_after_what_makes_it(own):
    name = Row(own).name
    assert name.startswith("tiny.classes_2.images_1.epochs_1.seed0-")
    same = own.model_copy(update={"device": "cpu"})
    assert Row(same, images_per_set=80).name == name
    for changed, word in (
        ({"lr": 1.0e-5}, "lr_1e-05"),
        ({"keep": "lowest_validation_loss"}, "seed0"),
        ({"weight_relevance": 0.0}, "relevance_0"),
        ({"method": "rrr", "protocol": "described"}, "rrr.described"),
    ):
        other = Row(own.model_copy(update=changed)).name
        assert word in other and other != name
    assert Row(own, original=True).name.startswith("original.tiny.seed0-")


def test_a_record_has_all_that_numbers_follow_from_and_no_place(project, own):
    """One row a thing that changes: the run is another; where it is made changes nothing."""
    path, name = project / "params" / "quick.yaml", Row(own).name
    (project / "params" / "other.yaml").write_text(PRESET)
    for same in ({"preset": "other"}, {"device": "cpu"}, {"output_root": "elsewhere"}):
        assert Row(own.model_copy(update=same)).name == name, same
    moved = own.benchmark.model_copy(update={"data_root": "elsewhere"})
    assert Row(own.model_copy(update={"benchmark": moved})).name == name, "drawings are drawn"
    real = moved.model_copy(update={"data": "imagenet"})  # of whose files nothing else is known
    given = own.model_copy(update={"benchmark": real, "lr": 1.0e-6})
    other = given.model_copy(update={"benchmark": real.model_copy(update={"data_root": "x"})})
    assert Row(given).name != Row(other).name
    for before, after in (  # in the preset's file: the rule's rates and limit, the original
        ("2.0e-6]", "4.0e-6]"),
        ("limit_pts: 100.0", "limit_pts: 50.0"),
        ("rate_images: 40", "rate_images: 48"),
        ("source: shipped", "source: train"),
    ):
        path.write_text(PRESET.replace(before, after))
        assert Row(own).name != name, after
        given = own.model_copy(update={"lr": 1.0e-6})
        changed = Row(given).name
        path.write_text(PRESET)
        assert (Row(given).name == changed) == (after != "source: train"), after


def test_rows_of_the_same_run_are_one_that_is_asked_all(own):
    rows = [Row(own, images_per_set=80), Row(own, looked_at=8, validated=(0,))]
    (both,) = once(rows).values()
    assert (both.images_per_set, both.looked_at, both.validated) == (80, 8, (0,))
    assert both.with_asked(Row(own, validated=None)).validated is None
    assert both.more_than(rows[0].asked) and not rows[0].more_than(both.asked)


def test_own_model_starts_from_its_original_and_others_from_shipped_weights(project, own):
    stage = project / "outputs" / "quick" / "00_start"
    assert origin_weights(own) == stage / "weights.safetensors"
    assert origin_weights(own, "tiny-mae") == shipped_weights("tiny-mae", "habitats")


@pytest.mark.parametrize("asked", [{"images_per_set": 52, "challenge": 40}, {"looked_at": 33}])
def test_what_runs_draw_is_known_before(own, monkeypatch, tmp_path, asked):
    """All that a run on drawings and its original ask for is drawn by then."""
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "images"))
    images = own.benchmark.model_copy(update={"data": "habitats"})
    changed = {"lr": 1.0e-6, "images_per_class": 17, "benchmark": images, "seed": 1}
    params = own.model_copy(update=changed)
    rows = [Row(params, **asked), Row(params, original=True, **asked)]
    before = pictures.parts(rows)
    for part in before:
        pictures.draw(part)
    files = sorted((tmp_path / "images").iterdir())
    assert len(files) == len(before), "each is another"
    for row in rows:
        make(row)
        assert read(row)["failed"] == ""
    assert sorted((tmp_path / "images").iterdir()) == files
    assert pictures.parts(rows) == []


def test_rate_is_the_one_asked_for_or_that_of_the_search(own, monkeypatch):
    drops = {1.0e-6: 0.0, 2.0e-6: 1.0, 1.0e-5: 101.0, 2.0e-5: 101.0}
    table = lambda rows: run.pd.DataFrame(  # noqa: E731
        [{"lr": r.params.lr, "drop_pts": drops[r.params.lr], "rising": False} for r in rows]
    )
    monkeypatch.setattr(run, "judged", table)
    assert searched(own.model_copy(update={"lr": 0.5})) == []
    assert rate(own.model_copy(update={"lr": 0.5})) == 0.5
    assert rate(own) == 2.0e-6, "the highest that passes"
    assert rate(own.model_copy(update={"lr_factor": 10.0})) == pytest.approx(2.0e-5)
    tried = searched(own.model_copy(update={"lr_factor": 10.0}), [1.0e-6])
    assert [rate(row.params) for row in tried] == [1.0e-6], "the factor comes after the rule"
    given = own.model_copy(update={"lr": 3.0e-6, "lr_factor": 10.0})
    assert rate(given) == pytest.approx(3.0e-5)
    nothing_passes = own.model_copy(update={"method": "rrr", "protocol": "described"})
    assert rate(nothing_passes) == 1.0e-5, "the lowest rate tried"


def test_rates_are_searched_for_what_is_swept(own, monkeypatch):
    """Not for ours on the preset's own model, and of the papers' models for the compared one."""
    search = params_of("04a_cures").from_preset(Path("params/quick.yaml"))
    found = [("tiny", "rrr", "described"), ("tiny-mae", "relevance", "published")]
    assert run.searched_arms(search) == found
    with_paper = search.model_copy(update={"compared_model": "vit-b"})
    assert run.searched_arms(with_paper) == [*found, ("vit-b", "relevance", "published")]


def test_a_notebook_with_a_rule_asks_for_the_same_run_as_the_preset(project, own):
    """Its own parameters share the run's section, and are no part of the run's name."""
    notebook = params_of("02_finetune").from_preset(project / "params" / "quick.yaml")
    assert notebook.rates == [1.0e-6, 2.0e-6]
    assert notebook.run == own and Row(notebook.run).name == Row(own).name


def test_sweep_of_the_paper_has_the_papers_settings_of_each_model():
    """T5-T7 by hand, and the temperatures of A8; the baselines were not run on large models."""
    ours = {
        "vit-b": 3.0e-6,
        "vit-l": 9.0e-7,
        "ar-s": 2.0e-6,
        "ar-b": 6.0e-7,
        "ar-l": 9.0e-7,
        "deit-s": 1.0e-6,
        "deit-b": 8.0e-7,
    }
    rates = {
        "relevance": ours,
        "rrr": {"ar-s": 1.0e-5, "ar-b": 5.0e-7, "deit-s": 1.0e-5, "deit-b": 5.0e-6},
        "gradmask": {"ar-s": 5.0e-4, "ar-b": 1.0e-5, "deit-s": 5.0e-3, "deit-b": 1.0e-3},
    }
    others = {"rrr": 2.0e-6, "gradmask": 2.0e-4}
    asked = grids.of(params_of("04a_cures").from_preset(ROOT / "params" / "paper.yaml"))
    swept = asked[(asked["part"] == "sweep") & (asked["arm"] != "original")]["run"]
    assert len(swept) == 42 + 168
    for row in swept:
        params = row.params
        if (params.model, params.method) == ("vit-b", "relevance"):
            assert len(searched(params)) > 1, "the preset's own: its rate is searched for"
            continue
        lr = rate(params)
        assert lr == rates[params.method].get(params.model, others.get(params.method)), row.name
        settings = resolved(params, lr, "float32")
        warm = {"deit-b": 0.65, "deit-s": 0.55} if params.method == "relevance" else {}
        assert settings.temperature == warm.get(params.model, 1.0), row.name
        assert (settings.epochs, settings.batch_size) == (50, 8), row.name


def test_a_run_is_made_with_what_it_needs_and_read_with_what_it_was_asked(project, own):
    row = Row(own, images_per_set=40)
    with pytest.raises(
        FileNotFoundError, match=r"is not made yet; .* reproduction\.pipeline quick"
    ):
        read(row)
    make_missing([row])
    assert read(row)["lr"] == 2.0e-6, "of the two runs of the search, which are made first"
    assert weights_of(row) == row.folder / "weights.safetensors"
    assert answers(row).groupby("dataset").size().eq(40).all()
    assert len(answers(replace(row, images_per_set=10))) == 9 * 10
    with pytest.raises(FileNotFoundError, match="was asked less when it was made"):
        read(replace(row, images_per_set=80))
    before = file_fingerprint(weights_of(row))
    make(replace(row, looked_at=8))
    assert file_fingerprint(weights_of(row)) == before
    shared = replace(row, looked_at=8)
    assert "on_object_libra_pct" not in read(shared)["figures"]
    make(replace(shared, held_out=8))
    assert read(shared)["figures"]["on_object_libra_pct"] > 0
    origin = project / "outputs" / "quick" / "00_start" / "weights.safetensors"
    other = weights_of(searched(own)[0])
    origin.unlink()
    origin.symlink_to(other)
    with pytest.raises(FileNotFoundError, match="was made from another original"):
        read(row)


def test_a_made_run_stays_as_it_is_on_a_device_of_another_number_format(project, own, monkeypatch):
    row = Row(own)
    make_missing([row])
    made, weights = read(row), weights_of(row)
    before = file_fingerprint(weights)
    other = "float32" if made["precision"] == "bfloat16" else "bfloat16"
    monkeypatch.setattr(run, "choose_precision", lambda choice, device: other)
    given = own, run.open_benchmark(own), made["lr"], run.origin_weights(own), row.folder
    run.finetune_at(*given)
    assert file_fingerprint(weights) == before
    (row.folder / run.MADE).unlink()
    run.finetune_at(*given)
    assert file_fingerprint(weights) != before


def test_a_run_at_another_rate_than_the_rule_s_is_made_anew(project, own):
    row = Row(own)
    make_missing([row])
    (project / "params" / "quick.yaml").write_text(PRESET.replace("2.0e-6]", "4.0e-6]"))
    row = Row(own)
    with pytest.raises(FileNotFoundError, match="is not made yet"):
        read(row)
    make_missing([row])
    assert read(row)["lr"] == 4.0e-6


def test_a_run_that_fails_says_so_and_stops_no_other(own, monkeypatch):
    row, other = (Row(own.model_copy(update={"lr": lr})) for lr in (1.0e-6, 2.0e-6))

    def diverges(params, *args, **options):
        if params.lr == 1.0e-6:
            raise FloatingPointError("training: loss is nan")
        raise RuntimeError("no memory\nis left")

    monkeypatch.setattr(run, "finetune_at", diverges)
    for each, reason in ((row, "diverged: training: loss is nan"), (other, "no memory is left")):
        make(each)
        with pytest.raises(FailedError, match=f"has failed: {reason}"):
            read(each)
    table = judged([row])
    assert table.loc[0, "drop_pts"] == math.inf and table.loc[0, "rising"]
    with pytest.raises(FailedError, match="no memory"):
        judged([other])

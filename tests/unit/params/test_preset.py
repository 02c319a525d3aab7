"""What the stages of a preset share: read from its own files, and refused anywhere else."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from relevit.base.files import project_root
from reproduction.params.cells import params_of, preset_sections
from reproduction.params.common import Benchmark
from reproduction.params.preset import Pipeline, read_preset
from reproduction.runs import grids


@pytest.fixture
def preset(tmp_path):
    """`preset(text)` writes a preset's file with these sections; without, one with two stages."""

    def write(text: str = "") -> Path:
        path = tmp_path / "mine.yaml"
        common = "common: {model: dinov2-s, benchmark: {ways: 200}, seeds: [3]}\n"
        path.write_text(text or f"{common}03_robustness: {{images_per_set: 40}}\n")
        return path

    return write


def test_stage_has_what_is_shared_and_its_own(preset):
    shared = {"preset": "mine", "model": "dinov2-s", "benchmark": Benchmark(ways=200)}
    assert params_of("00_start").from_preset(preset()) == params_of("00_start")(**shared)
    expected = params_of("03_robustness")(**shared, seeds=[3], images_per_set=40)
    assert params_of("03_robustness").from_preset(preset()) == expected
    found = Pipeline.from_preset(preset("common: {seeds: [3]}\npipeline: {disk_mb: 7}\n"))
    assert (found.preset, found.seeds, found.disk_mb) == ("mine", [3], 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("03_robustness: {model: tiny}", "03_robustness: model = 'tiny' belongs to common, which"),
        ("03_robustness: {preset: paper}", "03_robustness: preset = 'paper' belongs to common"),
        ("03_robustness: {seeds: [0]}", "03_robustness: seeds = [0] belongs to common"),
        ("common: {modle: tiny}", "common: modle = 'tiny' is no parameter; allowed are model, b"),
        ("common: {device: cpu}", "common: device = 'cpu' is no parameter"),
        ("common: {preset: mine}", "common: preset = 'mine' is no parameter"),
        ("common: {benchmark: {way: 200}}", "common: benchmark.way = 200 is no parameter"),
        ("common: {benchmark: {ways: 20}}", "benchmark.ways = 20 (int): input should be 200 or 1"),
        ("common: {benchmark: habitats}", "common: benchmark = 'habitats' (str): "),
        ("common: {seeds: [1, 1]}", "seeds = [1, 1] (list): value error, 1 occurs twice"),
        ("common: {seeds: []}", "common: seeds = [] (list): "),
        ("03_robustnes: {}", "section '03_robustnes' is none; use some of ['common', "),
        ("03_robustness: 3", "03_robustness needs `name: value` lines below it, has int"),
    ],
)
def test_wrong_value_names_file_section_and_key(preset, text, message):
    path = preset(text + "\n")
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        params_of("03_robustness").from_preset(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"mine.yaml is missing; copy params/quick.yaml to"):
        params_of("00_start").from_preset(tmp_path / "mine.yaml")


# The benchmark


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"data": "imagenet"}, "data 'imagenet' without data_root; give the folder that holds the"),
        (
            {"data": "imagenet", "data_root": "x", "originals": "each"},
            "originals each with data imagenet, where models are the published ones; give one",
        ),
        ({"preprocessing": "timm"}, "preprocessing timm without it; give the preset's own model"),
        (
            {"data": "imagenette"},
            "value error, it is unknown; use habitats, imagenet, pacs [drawn here",
        ),
        ({"finetuned_classes": 1}, "greater than or equal to 2 [classes of ImageNet-S in A]"),
    ],
)
def test_wrong_benchmark_is_one_clear_line(values, text):
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        params_of("00_start").checked({"benchmark": values}, "here")
    assert str(caught.value).startswith("here: benchmark.")
    assert len(str(caught.value).splitlines()) == 1


@pytest.fixture
def params(tmp_path, monkeypatch) -> Path:
    """A project with the presets of this one, and the folder one is in."""
    (tmp_path / "notebooks").symlink_to(project_root() / "notebooks")
    found = shutil.copytree(project_root() / "params", tmp_path / "params")
    monkeypatch.chdir(tmp_path)
    return found


def test_an_arm_without_a_class_term_has_no_twin(params):
    path = params / "quick.yaml"
    read_preset(path)
    path.write_text(path.read_text() + "02_finetune: {weight_classification: 0.0}\n")
    text = r"arm 'ours' without the relevance terms: weight_foreground = .* nothing to train"
    with pytest.raises(ValueError, match=rf"03_robustness: {text}"):
        grids.asked(read_preset(path))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cft: {method: cft,", "cft: {methd: cft,", "arm 'cft': methd = 'cft' is no parameter"),
        ("cft: {method: cft,", "cft: {masks: boxes,", "arms = {'label': {'weight_relevance': 0}"),
        (
            "  arms:\n    label: {weight_relevance: 0}\n",
            "  arms:\n",
            "lack the control or the method; name one arm",
        ),
        ("    relevance: {}\n", "", "lack the control or the method; name one arm label and one"),
        ("[label, relevance, swap,", "[nobody,", "followed = ['nobody', 'both', "),
        ("  arm_seeds: []", "  arm_seeds: [7]", "with seeds [7], but 01_masks makes"),
        (
            "arm_settings: {class_term: label,",
            "arm_settings: {seed: 3,",
            "arm_settings = {'seed': 3, ",
        ),
        ("last_layer: {weight_relevance: 0,", "last_layer: {", "the map is not its own; give wei"),
    ],
)
def test_wrong_arms_of_cures_are_one_clear_line(params, old, new, message):
    path = params / "study.yaml"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        grids.of(read_preset(path).stages["04_cures"])
    assert str(caught.value).startswith(f"{path}: 04_cures: ")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "path", sorted((project_root() / "params").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_preset_of_the_suite_is_read_as_a_whole(path):
    preset = read_preset(path)
    assert preset.pipeline.preset == path.stem
    assert set(preset_sections(path)) <= {"common", "pipeline", "02_finetune", *preset.stages}

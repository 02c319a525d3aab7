"""What the stages of a preset share: read from its own files, and refused anywhere else."""

from __future__ import annotations

import re
import shutil

import pytest

from relevit.base.files import project_root
from relevit.config import (
    NOTEBOOKS,
    BenchmarkParams,
    MasksParams,
    OriginalParams,
    PipelineParams,
    RobustnessParams,
    StartParams,
)
from relevit.config.preset import read_preset


@pytest.fixture
def folder(tmp_path):
    """A preset with what is shared and two stages."""
    (tmp_path / "common.yaml").write_text("preset: mine\nmodel: dinov2-s\nbenchmark: {ways: 200}\n")
    (tmp_path / "seeds.yaml").write_text("seeds: [3]\n")
    (tmp_path / "00_start.yaml").write_text("# As the notebook's parameters cell has it.\n")
    (tmp_path / "03_robustness.yaml").write_text("images_per_set: 40\n")
    return tmp_path


def test_stage_has_what_is_shared_and_its_own(folder):
    bench = BenchmarkParams(ways=200)
    shared = {"preset": "mine", "model": "dinov2-s", "benchmark": bench}
    assert StartParams.from_preset(folder) == StartParams(**shared)
    assert StartParams.from_preset(str(folder)) == StartParams(**shared)
    expected = RobustnessParams(**shared, seeds=[3], images_per_set=40)
    assert RobustnessParams.from_preset(folder) == expected


def test_values_are_those_that_papermill_adds_up(folder):
    common = {"preset": "mine", "model": "dinov2-s", "benchmark": {"ways": 200}}
    assert StartParams.values_of_preset(folder) == common
    own = {"seeds": [3], "images_per_set": 40}
    assert RobustnessParams.values_of_preset(folder) == common | own


@pytest.mark.parametrize(
    ("stage", "line", "text"),
    [
        ("00_start", "model: tiny", "model = 'tiny' belongs to common.yaml, which says it once"),
        ("00_start", "benchmark: {}", "benchmark = {} belongs to common.yaml"),
        ("03_robustness", "seeds: [0]", "seeds = [0] belongs to seeds.yaml"),
        ("00_start", "seeds: [0]", "seeds = [0] is no parameter; allowed are"),
    ],
)
def test_shared_parameter_in_a_stage_s_file_is_refused(folder, stage, line, text):
    path = folder / f"{stage}.yaml"
    path.write_text(line + "\n")
    cls = StartParams if stage == "00_start" else RobustnessParams
    with pytest.raises(ValueError, match=rf"^{re.escape(f'{path}: {text}')}") as caught:
        cls.from_preset(folder)
    if "belongs" in text:
        assert "take it out here, or change it there" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("common", "modle: tiny", "modle = 'tiny' is no parameter; allowed are preset, model, ben"),
        ("common", "device: cpu", "device = 'cpu' is no parameter"),
        ("common", "benchmark: {way: 200}", "benchmark.way = 200 is no parameter; allowed are"),
        ("common", "benchmark: {ways: 20}", r"benchmark.ways = 20 (int): input should be 200 or 1"),
        ("common", "benchmark: cutouts", "benchmark = 'cutouts' (str): "),
        ("seeds", "seeds: [1, 1]", "seeds = [1, 1] (list): value error, 1 occurs twice"),
        ("seeds", "seeds: []", "seeds = [] (list): "),
    ],
)
def test_wrong_value_of_a_shared_file_names_that_file(folder, name, content, text):
    path = folder / f"{name}.yaml"
    path.write_text(content + "\n")
    with pytest.raises(ValueError, match=re.escape(f"{path}: {text}")):
        RobustnessParams.from_preset(folder)


@pytest.mark.parametrize("name", ["common", "seeds", "01_masks"])
def test_missing_file_is_named(folder, name):
    (folder / "01_masks.yaml").write_text("")
    (folder / f"{name}.yaml").unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name}.yaml is missing; copy it from params/q"):
        MasksParams.from_preset(folder)


def test_pipeline_shares_them_too(folder):
    (folder / "pipeline.yaml").write_text("disk_mb: 7\n")
    found = PipelineParams.from_preset(folder)
    assert (found.preset, found.model, found.seeds, found.disk_mb) == ("mine", "dinov2-s", [3], 7)


# The benchmark


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"data": "imagenet"}, "data 'imagenet' without data_root; give the folder that holds the"),
        ({"preprocessing": "timm"}, "preprocessing timm without it; give the preset's own model"),
        ({"data": "imagenette"}, "input should be 'cutouts', 'habitats' or 'imagenet' [drawn here"),
        ({"finetuned_classes": 1}, "greater than or equal to 2 [classes of ImageNet-S in A]"),
    ],
)
def test_wrong_benchmark_is_one_clear_line(values, text):
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        OriginalParams.checked({"benchmark": values}, "here")
    assert str(caught.value).startswith("here: benchmark.")
    assert len(str(caught.value).splitlines()) == 1


def test_an_arm_without_a_class_term_has_no_twin(tmp_path):
    folder = shutil.copytree(project_root() / "params" / "quick", tmp_path / "quick")
    read_preset(folder)
    path = folder / "02_finetune.yaml"
    path.write_text(path.read_text() + "weight_classification: 0.0\n")
    text = r"arm 'ours' without the relevance terms: weight_foreground = .* nothing to train"
    with pytest.raises(ValueError, match=rf"03_controls\.yaml: {text}"):
        read_preset(folder)


# The presets of the suite


@pytest.mark.parametrize(
    "folder", sorted((project_root() / "params").iterdir()), ids=lambda f: f.name
)
def test_every_file_of_a_preset_is_one_that_its_stage_takes(folder):
    """Also those of `study` and `dose`, which no pipeline checks."""
    stages = {cls.notebook: cls for cls in (*NOTEBOOKS.values(), PipelineParams)}
    files = {path.stem for path in folder.iterdir()} - {"common", "seeds"}
    assert files <= set(stages)
    for name in files:
        assert stages[name].from_preset(folder).preset == folder.name

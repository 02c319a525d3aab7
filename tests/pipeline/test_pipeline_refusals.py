"""Wrong input to the pipeline is refused before any work, with one line that says what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from relevit.pipeline import run as pipeline

from .projects import PRESET, Ended, edit, run

SOON_S = 10  # for what is refused before any work


@pytest.fixture
def only_plan(project, monkeypatch) -> None:
    """Go to the project's folder, where no stage may be run."""
    monkeypatch.chdir(project)
    call = pipeline.snakemake

    def plan(preset: str, *options: str, **kwargs) -> subprocess.CompletedProcess:
        assert "--dry-run" in options, "the stages would be run"
        return call(preset, *options, **kwargs)

    monkeypatch.setattr(pipeline, "snakemake", plan)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("00_start", {"imges_per_set": 40}, "imges_per_set = 40 is no parameter; allowed are"),
        ("00_start", {"images_per_set": 4}, "images_per_set = 4 (int)"),
        ("common", {"model": "vit-c"}, "model = 'vit-c' (str)"),
        ("common", {"preset": "quick"}, "preset = 'quick', but its folder is 'smallest'"),
        ("common", {"seeds": [0]}, "seeds = [0] is no parameter; allowed are preset, model, bench"),
        ("common", {"benchmark": {"dat": "cutouts"}}, "benchmark.dat = 'cutouts' is no parameter"),
        ("02_finetune", {"model": "dinov2-s"}, "model = 'dinov2-s' belongs to common.yaml, which"),
        ("02_finetune", {"preset": PRESET}, "take it out here, or change it there"),
        ("08_ablations", {"benchmark": {"data": "cutouts"}}, "belongs to common.yaml"),
        ("02_finetune", {"output_root": "results"}, "output_root = 'results'"),
        ("02_finetune", {"masks": "tokencut"}, "masks = 'tokencut', but the preset's own runs"),
        ("02_finetune", {"method": "rrr"}, "method = 'rrr', but the preset's own runs"),
        ("02_finetune", {"lr": 1.0e-5}, "lr = 1e-05, but the preset's own runs"),
        ("03_comparison", {"images_per_set": 50}, "images_per_set = 50, but 03_robustness answers"),
        ("02_finetune", {"run": "mine"}, "run = 'mine'"),
        ("08_ablations", {"variants": ["ground_truth"]}, "'ground_truth' is 'full': leave it out"),
        (
            "common",
            {"benchmark": {"data": "habitats", "home_share": 0.5}},
            "source = 'shipped', but common.yaml has other images: the shipped models have",
        ),
        (
            "common",
            {"model": "dinov2-s"},
            "source = 'shipped', but for data 'cutouts' of common.yaml there are shipped",
        ),
        (
            "08_ablations",
            {"compared_model": "dinov2-s8"},
            "compared_model = ['dinov2-s8'], but for data 'cutouts' of common.yaml there are",
        ),
        ("common", {"benchmark": {"home_share": 1.5}}, "benchmark.home_share = 1.5 (float)"),
        ("03_controls", {"home_shares": [0.5]}, "home_shares = [0.5], but common.yaml has data"),
        ("03_controls", {"arms": {"fast": {"speed": 2}}}, "arm 'fast': speed = 2 is no parameter"),
        ("03_robustness", {"seeds": [0, 1]}, "seeds = [0, 1] belongs to seeds.yaml, which says"),
        ("pipeline", {"seeds": [0, 1]}, "seeds = [0, 1] belongs to seeds.yaml"),
        ("seeds", {"seeds": []}, "seeds = [] (list)"),
        ("pipeline", {"seed": 0}, "seed = 0"),
        ("pipeline", {"preset": "quick"}, "preset = 'quick' belongs to common.yaml"),
        ("pipeline", {"disk_mb": 10**9}, "disk: "),
        ("pipeline", {"sweep": [{"models": ["dinov2-s"], "seeds": [0]}]}, "there are ship"),
        (
            "pipeline",
            {"sweep": [{"models": ["tiny"], "masks": ["tokencut"], "seeds": [5]}]},
            "sweep.0.seeds = [5] with masks tokencut, but 01_masks makes masks for seeds [0]",
        ),
        (
            "pipeline",
            {"sweep": [{"models": ["tiny-mae"], "methods": ["rrr"], "seeds": [0]}]},
            "rates are searched for ['tiny'] alone",
        ),
        ("pipeline", {"sweep": [{"models": ["tiny"], "s": 0, "seeds": [0]}]}, "sweep.0.s = 0"),
        ("07_iav", {"model_seeds": [0, 4]}, "makes [0]: add [4] there, or leave them out here"),
        ("07_iav", {"models": ["mini-supervised", "mini-dino"]}, "add ['mini-supervised'] there"),
        (
            "07_iav",
            {"data": "cifar10", "data_root": "data"},
            "07_pretraining.yaml has 'cutouts': give both the same",
        ),
        ("07_iav", {"reference": "mini-mae"}, "it is not among models; name one of them"),
        ("99_report", {"device": "cuda:99"}, "99_report.yaml: device 'cuda:99'"),
    ],
)
def test_wrong_value_is_refused(project, only_plan, capsys, name, values, words):
    edit(project, name, **values)
    assert pipeline.main([PRESET]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert len(message.splitlines()) == 1
    assert words in message
    if name != "pipeline" or "disk_mb" not in values:
        assert f"{name}.yaml" in message
    assert not (project / "outputs").exists()


def test_room_is_asked_for_where_the_results_will_lie(project, only_plan, monkeypatch):
    """Which may be another disk than the project's."""
    asked = []
    monkeypatch.setattr(pipeline, "need_disk_space", lambda folder, _: asked.append(folder))
    pipeline.check(PRESET)
    assert asked == [project / "outputs" / PRESET]


@pytest.mark.parametrize("name", ["02_finetune", "pipeline", "common", "seeds"])
@pytest.mark.parametrize(
    "text", ["- 1\n- 2\n", "seeds: [0\n", "\tpreset: quick\n"], ids=["list", "open", "tab"]
)
def test_file_that_is_no_parameter_file_is_refused(project, only_plan, capsys, name, text):
    (project / "params" / PRESET / f"{name}.yaml").write_text(text)
    assert pipeline.main([PRESET]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert f"{name}.yaml" in message
    assert not (project / "outputs").exists()


@pytest.mark.parametrize(("name", "lacks"), [("common", "preset"), ("seeds", "seeds")])
def test_empty_file_that_all_stages_read_is_refused(project, only_plan, capsys, name, lacks):
    (project / "params" / PRESET / f"{name}.yaml").write_text("")
    assert pipeline.main([PRESET]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert f"{name}.yaml" in message and lacks in message
    assert not (project / "outputs").exists()


def refused(ended: Ended, project: Path) -> str:
    """The one line that a refused command prints, which comes soon and before any work."""
    assert ended.code == 2
    assert ended.seconds < SOON_S
    (line,) = ended.err.splitlines()
    assert not (project / "outputs").exists()
    assert not (project / ".snakemake").exists()
    return line


def test_number_that_yaml_reads_as_text_is_refused(project):
    with (project / "params" / PRESET / "02_finetune.yaml").open("a") as file:
        file.write("lr: 3e-6\n")
    line = refused(run(project, PRESET), project)
    assert "02_finetune.yaml: lr = '3e-6' (str)" in line
    assert "write it with a dot, like 3.0e-6" in line


def test_unknown_preset_is_refused(project):
    line = refused(run(project, "smalest"), project)
    assert "preset 'smalest' is unknown; use one of" in line
    assert line.endswith(str(complete_presets(project)))
    assert {"quick", PRESET} <= set(complete_presets(project))


def complete_presets(project: Path) -> list[str]:
    return sorted(path.parent.name for path in (project / "params").glob("*/pipeline.yaml"))


def test_part_of_a_preset_is_refused(project):
    """Its files are for single notebooks alone; it is not offered in place of another either."""
    part = project / "params" / "part"
    part.mkdir()
    (part / "common.yaml").write_text("preset: part\n")
    line = refused(run(project, "part"), project)
    assert "part/pipeline.yaml is missing, so preset 'part' is for single notebooks alone" in line
    assert f"use one of {complete_presets(project)}, or copy what is missing" in line
    assert "part" not in complete_presets(project)


@pytest.mark.parametrize("name", ["03_robustness", "pipeline", "common", "seeds"])
def test_missing_file_is_refused(project, name):
    (project / "params" / PRESET / f"{name}.yaml").unlink()
    line = refused(run(project, PRESET), project)
    assert f"{name}.yaml" in line
    assert "missing" in line


def test_graph_of_an_unknown_preset_is_refused(project):
    line = refused(run(project, "smalest", "--graph"), project)
    assert "preset 'smalest' is unknown" in line

"""Which results a stage may read: those that the preset's files ask for."""

from __future__ import annotations

import re

import pytest

from reproduction.params.cells import FINETUNED, params_of
from reproduction.params.common import Benchmark
from reproduction.stages import SUMMARY, results_of, stage_folder, write_summary

PRESET = """
common: {model: tiny, benchmark: {ways: 200}, seeds: [3]}
02_finetune: {seed: 3, epochs: 4}
"""
SHARED = {"model": "tiny", "benchmark": Benchmark(ways=200)}
OWN = params_of(FINETUNED)(seed=3, epochs=4, **SHARED)


@pytest.fixture(autouse=True)
def project(project_of_one_preset):
    return project_of_one_preset


def made(**changed):
    """The folder of 02_finetune, made with parameters that differ in these."""
    folder = stage_folder(OWN)
    write_summary(folder, OWN.model_copy(update=changed), figure=1)
    return folder


def read():
    return results_of(params_of("00_start")(), "02_finetune")


def test_a_stage_that_was_run_with_the_presets_parameters_is_read():
    folder = made()
    assert read() == folder
    made(device="cpu", output_root="elsewhere", shown=2)
    assert read() == folder


def test_a_trial_by_hand_has_a_folder_of_its_own():
    folder = made()
    trial = stage_folder(OWN.model_copy(update={"lr": 1.0e-5}))
    assert trial != folder and trial.name.startswith("02_finetune.")
    assert stage_folder(OWN.model_copy(update={"device": "cpu"})) == folder


def test_a_stage_without_results_says_what_to_run():
    with pytest.raises(FileNotFoundError, match=r"00_start: .* reproduction\.pipeline quick 02"):
        read()


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"epochs": 1}, r"epochs = 1, and .*quick\.yaml says 4; make it"),
        ({"epochs": "x" * 5000}, r"epochs = 'xxx.*… \(5002 characters\), and .* says 4"),
        ({"benchmark": Benchmark()}, r"benchmark\.ways = 1000, and .* says 200; make it"),
        ({"lr": 0.1}, r"lr = 0\.1, and .* says None; make it"),
    ],
)
def test_one_that_another_run_has_taken_is_refused(changed, text):
    folder = made(**changed)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(folder / SUMMARY))}: {text}") as caught:
        read()
    assert "\n" not in str(caught.value)


def test_a_file_that_was_changed_since_is_refused_too(project):
    cfg = params_of("03_robustness")(seeds=[3], **SHARED)
    folder = stage_folder(cfg)
    write_summary(folder, cfg)
    assert results_of(params_of("00_start")(), "03_robustness") == folder
    (project / "params" / "quick.yaml").write_text(PRESET.replace("[3]", "[3, 4]"))
    with pytest.raises(ValueError, match=r"seeds = \[3\], and .*quick\.yaml says \[3, 4\]"):
        results_of(params_of("00_start")(), "03_robustness")


def test_parameters_that_came_later_do_not_count():
    folder = stage_folder(OWN)
    (folder / SUMMARY).write_text('{"parameters": {"epochs": 4, "benchmark": {"gone": 1}}}')
    assert read() == folder


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "it has no 'parameters'"),
        ('{"parameters": [1]}', "its 'parameters' are no values by name"),
        ('{"parameters": {"benchmark": 3}}', "its 'benchmark' are no values by name"),
    ],
)
def test_a_summary_that_was_edited_is_refused(text, reason):
    folder = made()
    (folder / SUMMARY).write_text(text)
    named = f"results: {folder / SUMMARY} is cut short, damaged or was edited ({reason}); delete"
    with pytest.raises(ValueError, match=f"^{re.escape(named)}"):
        read()


def test_a_preset_without_files_gets_no_results(project):
    text = r"^00_start: preset = 'nosuch' has no file .*params/nosuch\.yaml; use one of quick, or"
    with pytest.raises(ValueError, match=text):
        stage_folder(params_of("00_start")(preset="nosuch"))
    assert not (project / "outputs").exists()

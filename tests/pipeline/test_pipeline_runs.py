"""The whole pipeline on a copy of the project: to the end, by hand, and a stage that fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from relevit.base.device import cores
from relevit.config import NOTEBOOKS

from .projects import PRESET, RUN_S, results, run

NOTHING_S = 20  # for finding out that nothing is left to do
RESULTS = (
    "00_original/weights.safetensors",
    "02_finetune/seed0/weights.safetensors",
    "02_finetune/seed0/log.jsonl",
    "02_finetune/seed0/summary.json",
    "01_masks/masks.safetensors",
    "02_baselines/rates.parquet",
    "02_finetune/tiny.gradmask.described.annotated.seed0/weights.safetensors",
    "02_finetune/tiny.relevance.published.tokencut.seed0/weights.safetensors",
    "02_learning_rate/summary.json",
    "02_learning_rate/lr_1.0e-05/log.jsonl",
    "02_learning_rate/rates.parquet",
    "03_robustness/predictions.parquet",
    "03_robustness/changes.parquet",
    "03_comparison/accuracies.parquet",
    "04_segmentation/finetuned_segmentation.parquet",
    "04_segmentation/methods_segmentation.parquet",
    "05_attribution/ablation.parquet",
    "05_attribution/two_objects.parquet",
    "06_faithfulness/methods_perturbation.parquet",
    "07_pretraining/mini-dino.seed0/epochs/epoch_0001.safetensors",
    "07_pretraining/mini-dino.seed0/weights.safetensors",
    "07_pretraining/shift.parquet",
    "07_iav/scores.parquet",
    "07_iav/space.parquet",
    "08_ablations/ablations.parquet",
    "09_sis/sis.parquet",
    "10_knn/knn.parquet",
    "99_report/claims.parquet",
)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# From start to end


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_pipeline_runs_to_the_report(finished):
    project, ended = finished
    assert ended.code == 0, ended.out + ended.err
    report = results(project) / "99_report" / "executed.ipynb"
    assert f"Open {report}" in ended.out
    assert [name for name in RESULTS if not (results(project) / name).is_file()] == []


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_every_stage_leaves_its_notebook_and_its_parameters(finished):
    folder = results(finished[0])
    for name, cls in NOTEBOOKS.items():
        stage = folder / name / "seed0" if name == "02_finetune" else folder / name
        params = cls.from_preset(finished[0] / "params" / PRESET)
        summary = json.loads((stage / "summary.json").read_text())
        assert cls.checked(summary["parameters"], name) == params
        cells = nbformat.read(stage / "executed.ipynb", as_version=4).cells
        assert all(cell.execution_count for cell in cells if cell.cell_type == "code")


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_second_run_has_nothing_to_do(finished):
    project, _ = finished
    before = contents(results(project))
    ended = run(project, PRESET)
    assert ended.code == 0
    assert "Nothing to do" in ended.out
    assert ended.seconds < NOTHING_S
    assert contents(results(project)) == before


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_run_leaves_nothing_behind_but_results(finished):
    """No temporary file, no checkpoint, nothing beside outputs/ and Snakemake's own notes."""
    project, _ = finished
    names = {path.name for path in project.iterdir()}
    assert names == {"notebooks", "params", "Snakefile", "outputs", ".snakemake"}
    hidden = [name for name in contents(results(project)) if "checkpoint" in name or "/." in name]
    assert hidden == []


# The same bytes


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_stage_typed_by_hand_gives_the_bytes_of_the_pipeline(changeable):
    """Its shell line is a plain papermill call; here into a folder of its own.

    Sums depend on the number of threads in their last digit, so it is that of the pipeline.
    """
    arguments = ["notebooks/02_finetune.ipynb", "by_hand.ipynb", "-p", "run", "by_hand"]
    files = [f"params/{PRESET}/{name}.yaml" for name in ("common", "02_finetune")]
    arguments += ["-f", files[0], "-f", files[1], "--no-progress-bar"]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(max(1, cores() // 2)))
    subprocess.run(
        [sys.executable, "-m", "papermill", *arguments],
        cwd=changeable,
        env=os.environ | threads,
        check=True,
    )
    stage = results(changeable) / "02_finetune"
    for name in ("weights.safetensors", "log.jsonl"):
        assert (stage / "by_hand" / name).read_bytes() == (stage / "seed0" / name).read_bytes()


# Stages that fail


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_damaged_file_stops_the_run_and_spoils_nothing(changeable):
    maps = results(changeable) / "04_segmentation" / "maps.safetensors"
    maps.write_bytes(maps.read_bytes()[:1000])
    before = contents(results(changeable))
    ended = run(changeable, PRESET)
    assert ended.code not in (0, 2)
    assert "is cut short or damaged" in ended.out + ended.err
    assert "Results so far are kept" in ended.out
    after = contents(results(changeable))
    for name in before:
        if not name.startswith("06_"):
            assert after.get(name) == before[name], name


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_stage_whose_last_cell_fails_is_still_to_be_made(changeable):
    """All its results are there by then; that a full disk leaves them so was seen."""
    path = changeable / "notebooks" / "09_sis.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("raise RuntimeError('at the end')"))
    nbformat.write(notebook, path)
    for _ in range(2):
        ended = run(changeable, PRESET)
        assert ended.code not in (0, 2)
        assert "09_sis: sufficient input subsets" in ended.out
        assert "at the end" in ended.out + ended.err

"""The whole pipeline on copies of the project: to the end, the same bytes, and stages that fail.

It runs from start to end, and in a copy once more from finetuning on, where it is killed on the
way and started again. Both must leave the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil
import pytest

from relevit.config import NOTEBOOKS
from relevit.pipeline import cores

from .projects import PRESET, RUN_S, Ended, command, results, run

NOTHING_S = 20  # for finding out that nothing is left to do
AFTERWARDS = (  # the stages from finetuning on
    "02_finetune", "03_comparison", "03_robustness", "04_segmentation", "06_faithfulness",
    "09_sis", "10_knn", "99_report",
)  # fmt: skip
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
    "08_ablations/ablations.parquet",
    "09_sis/sis.parquet",
    "10_knn/knn.parquet",
    "99_report/claims.parquet",
)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def kill_when(project: Path, ready: Callable[[], bool]) -> str:
    """Start the pipeline and, once `ready()`, kill it with all that it has started.

    The kernels of the notebooks are in process groups of their own, hence the whole tree.
    """
    with (project / "killed.log").open("w+") as log:
        process = subprocess.Popen(
            command(PRESET), cwd=project, stdout=log, stderr=log, start_new_session=True
        )
        try:
            deadline = time.monotonic() + RUN_S / 2
            while not ready() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
        finally:
            kill_tree(process)
        log.seek(0)
        return log.read()


def kill_tree(process: subprocess.Popen) -> None:
    """SIGKILL for a process and all below it, as when the power fails."""
    if process.poll() is None:
        top = psutil.Process(process.pid)
        family = [top, *top.children(recursive=True)]
        for member in family:
            member.suspend()  # so that nothing is started while we go through the list
        for member in family:
            member.kill()
        psutil.wait_procs(family[1:], timeout=30)
    process.wait()


@pytest.fixture(scope="session")
def resumed(finished, tmp_path_factory) -> tuple[Path, dict[str, bytes], Ended]:
    """A run up to finetuning, killed in the middle of it and started again; what was there then."""
    folder = shutil.copytree(finished[0], tmp_path_factory.mktemp("resumed") / "project")
    for name in AFTERWARDS:
        shutil.rmtree(results(folder) / name)
    (results(folder) / "report.html").unlink()
    finetuned = results(folder) / "02_finetune" / "seed0"
    text = kill_when(folder, (finetuned / "checkpoint" / "epoch_0001").is_dir)
    left = contents(results(folder))
    assert "02_finetune/seed0/checkpoint/epoch_0001/state.json" in left, text
    return folder, left, run(folder, PRESET)


# From start to end


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_pipeline_runs_to_the_report(finished):
    project, ended = finished
    assert ended.code == 0, ended.out + ended.err
    page = results(project) / "report.html"
    assert f"Open {page}" in ended.out
    assert "<html" in page.read_text()[:200]
    assert [name for name in RESULTS if not (results(project) / name).is_file()] == []


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_every_stage_leaves_its_notebook_and_its_parameters(finished):
    folder = results(finished[0])
    for name, cls in NOTEBOOKS.items():
        stage = folder / name / "seed0" if name == "02_finetune" else folder / name
        params = cls.from_file(finished[0] / "params" / PRESET / f"{name}.yaml")
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
    assert [
        name for name in contents(results(project)) if "checkpoint" in name or "/." in name
    ] == []


# The same bytes


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_killed_run_goes_on(resumed):
    """The epoch before the kill is not trained again, and the stages before it are not run."""
    project, left, ended = resumed
    assert ended.code == 0, ended.out + ended.err
    assert "02_finetune/seed0/weights.safetensors" not in left
    assert "02_finetune: " in ended.out
    assert "00_original: " not in ended.out
    assert "02_learning_rate: " not in ended.out
    executed = results(project) / "02_finetune" / "seed0" / "executed.ipynb"
    printed = str(nbformat.read(executed, as_version=4))
    assert "epoch 3: total" in printed
    assert "epoch 0: total" not in printed


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
@pytest.mark.parametrize("name", [name for name in RESULTS if name.startswith(AFTERWARDS)])
def test_killed_run_ends_with_the_same_bytes(finished, resumed, name):
    whole, again = (results(folder) / name for folder in (finished[0], resumed[0]))
    assert again.read_bytes() == whole.read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_stage_typed_by_hand_gives_the_bytes_of_the_pipeline(changeable):
    """Its shell line is a plain papermill call; here into a folder of its own.

    Sums depend on the number of threads in their last digit, so it is that of the pipeline.
    """
    arguments = ["notebooks/02_finetune.ipynb", "by_hand.ipynb", "-p", "run", "by_hand"]
    arguments += ["-f", f"params/{PRESET}/02_finetune.yaml", "--no-progress-bar"]
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
def test_damaged_weights_stop_the_run_and_spoil_nothing(changeable):
    weights = results(changeable) / "00_original" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    before = contents(results(changeable))
    ended = run(changeable, PRESET)
    assert ended.code not in (0, 2)
    assert "is cut short or damaged" in ended.out + ended.err
    assert "Results so far are kept" in ended.out
    after = contents(results(changeable))
    kept = ("00_original/", "02_finetune/", "03_robustness/", "99_report/", "report.html")
    for name in before:
        if name.startswith(kept):
            assert after.get(name) == before[name], name

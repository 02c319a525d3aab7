"""The whole pipeline on a copy of the project: to the end, by hand, and a stage that fails."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
import pytest

from relevit.base.stages import read_summary
from relevit.config import NOTEBOOKS, CuresParams
from relevit.finetune import runs, table

from .projects import FEW, PRESET, RUN_S, results, run

RESULTS = (
    "00_start/weights.safetensors",
    "01_masks/masks.safetensors",
    "02_finetune/rates.parquet",
    "04_cures/accuracies.parquet",
)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# From start to end


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_pipeline_runs_to_its_end(finished):
    project, ended = finished
    assert ended.code == 0, ended.out + ended.err
    assert [name for name in RESULTS if not (results(project) / name).is_file()] == []


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_every_stage_leaves_its_notebook_and_its_parameters(finished):
    folder = results(finished[0])
    for name in FEW:
        cls, stage = NOTEBOOKS[name], folder / name
        params = cls.from_preset(finished[0] / "params" / f"{PRESET}.yaml")
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


# Stages that fail


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_damaged_file_stops_the_run_and_spoils_nothing(changeable, monkeypatch):
    monkeypatch.chdir(changeable)
    params = CuresParams.from_preset(changeable / "params" / f"{PRESET}.yaml")
    (own,) = table.of(params).query(
        "part == 'sweep' and arm == 'ours' and seed == 0 and model == @params.model"
    )["run"]
    answers = own.folder / runs.SETS / "val.parquet"
    answers.write_bytes(answers.read_bytes()[:1000])
    shutil.rmtree(results(changeable) / "04_cures")  # which reads them
    before = contents(results(changeable))
    ended = run(changeable, PRESET)
    assert ended.code not in (0, 2)
    assert f"{answers} is cut short, damaged or was edited" in ended.out + ended.err
    assert "Results so far are kept" in ended.out
    after = contents(results(changeable))
    for name in before:
        if not name.startswith(("04_", "run.log")):
            assert after.get(name) == before[name], name


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_stage_whose_last_cell_fails_is_still_to_be_made(changeable):
    """All its results are there by then; that a full disk leaves them so was seen."""
    path = changeable / "notebooks" / "01_masks.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("raise RuntimeError('at the end')"))
    nbformat.write(notebook, path)
    for _ in range(2):
        ended = run(changeable, PRESET)
        assert ended.code not in (0, 2)
        assert "01_masks: masks without annotation" in ended.out
        assert "at the end" in ended.out + ended.err


# Runs that fail


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_run_that_fails_is_a_gap_and_is_made_by_the_next_call(changeable, monkeypatch):
    monkeypatch.chdir(changeable)
    asked = table.of(CuresParams.from_preset(changeable / "params" / f"{PRESET}.yaml"))
    row = asked.query("part == 'sweep' and arm == 'ours' and method != 'relevance'")["run"].iloc[0]
    shutil.rmtree(row.folder)
    (row.folder / "sets").write_text("in the way")  # of its answers
    ended = run(changeable, PRESET)
    assert ended.code == 1, ended.out + ended.err
    assert f"Failed: {row.name}: " in ended.err and "1 runs, which" in ended.out
    missing = read_summary(results(changeable) / "04_cures")["missing"]
    assert [gap["run"] for gap in missing] == [row.name]
    (row.folder / "sets").unlink()
    ended = run(changeable, PRESET)
    assert ended.code == 0, ended.out + ended.err
    assert read_summary(results(changeable) / "04_cures")["missing"] == []

"""The whole pipeline on a copy of the project: to the end, by hand, and a stage that fails."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest

from reproduction.params.cells import params_of
from reproduction.pipeline import run as pipeline
from reproduction.runs import grids
from reproduction.stages import read_summary

from .projects import FEW, PRESET, RUN_S, results, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(RUN_S)]

RESULTS = (
    "00_start/weights.safetensors",
    "01_masks/masks.safetensors",
    "02_finetune/rates.parquet",
    "04a_cures/accuracies.parquet",
)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_every_stage_leaves_its_notebook_its_parameters_and_results(finished):
    """And no temporary file or checkpoint, nothing beside outputs/ and Snakemake's own notes."""
    project, ended = finished
    assert ended.code == 0, ended.out + ended.err
    for name in FEW:
        cls, stage = params_of(name), results(project) / name
        params = cls.from_preset(project / "params" / f"{PRESET}.yaml")
        summary = json.loads((stage / "summary.json").read_text())
        assert cls.checked(summary["parameters"], name) == params
        cells = nbformat.read(stage / "executed.ipynb", as_version=4).cells
        assert all(cell.execution_count for cell in cells if cell.cell_type == "code")
    made = contents(results(project))
    assert set(RESULTS) <= made.keys()
    assert not [name for name in made if "checkpoint" in name or "/." in name]
    names = {path.name for path in project.iterdir()}
    assert names == {"notebooks", "params", "docs", "Snakefile", "outputs", ".snakemake"}


def test_second_run_has_nothing_to_do(finished):
    project, _ = finished
    before = contents(results(project))
    ended = run(project, PRESET)
    assert ended.code == 0
    assert "Nothing to do" in ended.out
    assert contents(results(project)) == before


def test_stage_whose_last_cell_fails_spoils_nothing_and_is_still_to_be_made(
    changeable, monkeypatch
):
    """All its results are there by then; that a full disk leaves them so was seen."""
    monkeypatch.chdir(changeable)
    path = changeable / "notebooks" / "01_masks.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("raise RuntimeError('at the end')"))
    nbformat.write(notebook, path)
    before = contents(results(changeable))
    ended = run(changeable, PRESET)
    assert ended.code not in (0, 2)
    assert "at the end" in ended.out + ended.err and "Results so far are kept" in ended.out
    assert [job for job in pipeline.todo(PRESET) if job.startswith("01_masks: ")]
    after = contents(results(changeable))
    for name in before:
        if not name.startswith(("01_", "params/01_", "run.log")):
            assert after.get(name) == before[name], name


def test_run_that_fails_is_a_gap(changeable, monkeypatch):
    monkeypatch.chdir(changeable)
    asked = grids.of(params_of("04a_cures").from_preset(changeable / "params" / f"{PRESET}.yaml"))
    row = asked.query("part == 'sweep' and arm == 'ours' and method != 'relevance'")["run"].iloc[0]
    shutil.rmtree(row.folder)
    (row.folder / "sets").write_text("in the way")  # of its answers
    ended = run(changeable, PRESET)
    assert ended.code == 1, ended.out + ended.err
    assert f"Failed: {row.name}: " in ended.err and "1 runs, which" in ended.out
    missing = read_summary(results(changeable) / "04a_cures")["missing"]
    assert [gap["run"] for gap in missing] == [row.name]

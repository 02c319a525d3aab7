"""What the pipeline plans: the stages and runs that a change makes anew."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from reproduction.params.order import NOTEBOOKS
from reproduction.params.preset import read_preset
from reproduction.pipeline import plan
from reproduction.pipeline import run as pipeline
from reproduction.runs import runs, table
from reproduction.stages import EXECUTED, SUMMARY, preset_file

from .projects import PRESET, edit, results, sections

END = {"99_report"}  # what follows from every stage that it reads
CURES, ABLATIONS = {"04_cures", "04a_cures"}, {"05_ablations", "05a_ablations"}
OWN = CURES | {"02_finetune", "03_robustness", "03a_robustness", "05_ablations"}
AFTER_RUNS = END | OWN | {"07_segmentation", "07a_segmentation", "08a_iav"}


def waiting(project: Path, monkeypatch) -> set[str]:
    """What is left to make: stages by name, and `runs` for any number of them."""
    monkeypatch.chdir(project)
    plan.write_plan(read_preset(preset_file(PRESET)), 2)
    names = {message.split(":")[0] for message in pipeline.todo(PRESET)}
    return {"runs" if name.startswith("runs ") else name for name in names}


@pytest.fixture
def made(project, monkeypatch) -> Path:
    """A project in which every stage and run has left its files, empty, one after the other."""
    monkeypatch.chdir(project)
    preset, folder = read_preset(preset_file(PRESET)), results(project)
    plan.write_plan(preset, 2)
    first = [name for name in NOTEBOOKS if name in ("00_start", "01_masks")]
    last = [name for name in NOTEBOOKS if name not in first]
    rows = table.of_preset(preset)
    marks = [folder / runs.ROOM / name / runs.MADE for name in rows]
    before, after = (
        [folder / name / file for name in names for file in (EXECUTED, SUMMARY)]
        for names in (first, last)
    )
    for path in [*before, *marks, *after]:
        path.parent.mkdir(parents=True, exist_ok=True)
        row = rows.get(path.parent.name)
        path.write_text(json.dumps({"failed": ""} | ({"asked": row.asked} if row else {})))
    return project


@pytest.mark.parametrize(
    ("name", "values", "stages"),
    [
        ("99_report", {"device": "cpu"}, END),
        ("06_attribution", {"pairs": 20}, END | {"06_attribution"}),
        # Less is asked then of the preset's own run, one of its arms: that changes nothing.
        # Others read a run that is made in the same job as new ones, 04a_cures what 04_cures has.
        ("05_ablations", {"variant_seeds": [1]}, END | CURES | ABLATIONS | {"runs"}),
        ("01_masks", {"tau": 0.3}, END | {"01_masks", "runs", "04a_cures"}),
        ("common", {"seeds": [0, 1]}, AFTER_RUNS | {"01_masks", "runs"}),
    ],
)
def test_changed_parameter_runs_what_follows_from_it(made, monkeypatch, name, values, stages):
    if stages == END:
        assert waiting(made, monkeypatch) == set()
    edit(made, name, **values)
    found = waiting(made, monkeypatch)
    assert found <= stages and found >= stages - {"02_finetune", "05_ablations"}


def test_a_run_that_was_made_with_less_than_is_asked_is_made_anew(made, monkeypatch):
    for images in (50, 40):  # more is asked, but not made
        edit(made, "03_robustness", images_per_set=images)
        plan.write_plan(read_preset(preset_file(PRESET)), 2)
    for name, row in table.of_preset(read_preset(preset_file(PRESET))).items():
        path = results(made) / runs.ROOM / name / runs.MADE
        path.write_text(json.dumps({"failed": "", "asked": row.asked}))
    assert "runs" not in waiting(made, monkeypatch)
    edit(made, "03_robustness", images_per_set=50)
    assert "runs" in waiting(made, monkeypatch)


@pytest.mark.parametrize(
    ("reason", "again"), [("no room", True), (f"{runs.DIVERGED}: at step 3", False)]
)
def test_a_run_that_failed_is_made_again_and_one_that_diverged_is_not(
    made, monkeypatch, reason, again
):
    preset = read_preset(preset_file(PRESET))
    asked = table.of(preset.stages["04a_cures"])
    row = asked.query("part == 'sweep' and arm == 'ours' and method == 'gradmask'")["run"].iloc[0]
    mark = row.folder / runs.MADE
    mark.write_text(json.dumps({"failed": reason, "asked": row.asked}))
    assert plan.failures(preset) == {row.name: reason}
    plan.unmake_failed(preset)
    assert mark.is_file() is not again
    if again:
        assert waiting(made, monkeypatch) == END | {"runs", "04a_cures"}


def test_results_that_were_deleted_are_made_again(made, monkeypatch):
    shutil.rmtree(results(made) / "07_segmentation")
    assert waiting(made, monkeypatch) == END | {"07_segmentation", "07a_segmentation"}


@pytest.fixture
def here(project, monkeypatch) -> Path:
    monkeypatch.chdir(project)
    return project


def test_plan_has_every_run_in_one_batch_after_what_it_needs(here):
    preset = read_preset(preset_file(PRESET))
    plan.write_plan(preset, 2)
    found = json.loads((results(here) / plan.FOLDER / plan.PLAN).read_text())
    names = [run for batch in found["batches"] for run in batch["runs"]]
    assert sorted(names) == sorted(table.of_preset(preset))
    for batch in found["batches"]:
        assert not set(batch["needs"]) & set(batch["runs"])
        assert set(batch["needs"]) <= set(names)
    read = {run for notebook in found["notebooks"].values() for run in notebook["runs"]}
    assert read == set(names) and set(found["notebooks"]) == set(NOTEBOOKS)


def test_stage_that_is_asked_for_alone_waits_for_nothing_else(here):
    plan.write_plan(read_preset(preset_file("workshop")), 2, whole=False)
    (message,) = pipeline.todo("workshop", [f"outputs/workshop/09_text/{SUMMARY}"])
    assert message.startswith("09_text: ")


def test_files_of_the_plan_keep_their_time_unless_they_change(here):
    def times() -> dict[Path, int]:
        plan.write_plan(read_preset(preset_file(PRESET)), 2)
        folder = results(here)
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}

    before = times()
    assert times() == before
    edit(here, "06_attribution", pairs=20)
    after = times()
    changed = [path.name for path in before if after[path] != before[path]]
    assert changed == ["06_attribution.yaml"]


def test_one_more_line_of_the_sweep_adds_its_runs_alone(here):
    before = set(table.of_preset(read_preset(preset_file(PRESET))))
    grids = sections(here)["pipeline"]["sweep"]
    grid = {"models": ["tiny"], "methods": ["rrr"], "seeds": [0, 1]}
    edit(here, "pipeline", sweep=[*grids, grid])
    after = set(table.of_preset(read_preset(preset_file(PRESET))))
    assert before < after and len(after - before) == 3, "two runs, and one to find their rate"


@pytest.mark.parametrize(
    ("jobs", "gpus", "threads", "places"),
    [(1, 0, 8, 1), (2, 0, 4, 2), (16, 0, 1, 16), (4, 1, 8, 1), (4, 2, 4, 2), (1, 4, 8, 4)],
)
def test_cores_are_shared_by_the_stages_that_compute_at_once(
    monkeypatch, jobs, gpus, threads, places
):
    commands = []
    monkeypatch.setattr(pipeline, "cores", lambda: 8)
    monkeypatch.setattr(pipeline.subprocess, "run", lambda command, **_: commands.append(command))
    pipeline.snakemake("quick", jobs=jobs, gpus=gpus)
    (command,) = commands
    assert {f"threads={threads}", f"gpus={gpus}", f"gpu={places}"} <= set(command)


def test_runs_take_turns_on_several_gpus(here):
    plan.write_plan(read_preset(preset_file(PRESET)), 2)
    options = ("--dry-run", "--forceall", "--printshellcmds")
    done = pipeline.snakemake(PRESET, *options, jobs=2, gpus=2, capture_output=True, text=True)
    words = (done.stdout + done.stderr).split()
    told = {after for word, after in pairwise(words) if word == "--device"}
    assert done.returncode == 0 and told == {"cuda:0", "cuda:1"}

"""What the pipeline plans: the stages and runs that a change makes anew."""

import json
import re
import shutil
from itertools import product
from pathlib import Path

import pytest

from relevit.finetune.run import DIVERGED
from reproduction import runs
from reproduction.params.order import NOTEBOOKS
from reproduction.params.preset import read_preset
from reproduction.pipeline import plan
from reproduction.pipeline import run as pipeline
from reproduction.pipeline.machine import places
from reproduction.runs import grids
from reproduction.stages import EXECUTED, SUMMARY, preset_file

from .projects import PRESET, edit, results, sections

END = {"99_report"}  # what follows from every stage that it reads
CURES, ABLATIONS = {"04_cures", "04a_cures"}, {"05_ablations", "05a_ablations"}
OWN = CURES | {"02_finetune", "03_robustness", "03a_robustness", "05_ablations"}
AFTER_RUNS = END | OWN | {"07a_segmentation", "08a_iav"}


def waiting(project: Path, monkeypatch, at_once: int = 2) -> set[str]:
    """What is left to make: stages by name, and `runs` for any number of them."""
    monkeypatch.chdir(project)
    plan.write_plan(read_preset(preset_file(PRESET)), at_once)
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
    rows = grids.of_preset(preset)
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


def test_what_has_changed_is_made_beside_what_the_first_page_waits_for(made, monkeypatch):
    """One job at a time is when all else waits for the runs of that page."""
    edit(made, "00_start", images_per_set=60)
    edit(made, "09_text", seed=7)
    assert waiting(made, monkeypatch, at_once=1) >= {"00_start", "runs", "09_text", "09a_text"}


def test_a_stage_is_made_anew_for_another_cell_and_not_for_a_sentence(made, monkeypatch):
    path = made / "notebooks" / "09_text.ipynb"
    notebook = json.loads(path.read_text())
    path.unlink()  # it may be a link
    for kind, stages in (("markdown", set()), ("code", END | {"09_text", "09a_text"})):
        last = [cell for cell in notebook["cells"] if cell["cell_type"] == kind][-1]
        last["source"] = [*last["source"], "\n# another"]
        path.write_text(json.dumps(notebook))
        assert waiting(made, monkeypatch) == stages


def test_a_run_that_was_made_with_less_than_is_asked_is_made_anew(made, monkeypatch):
    for images in (50, 40):  # more is asked, but not made
        edit(made, "03_robustness", images_per_set=images)
        plan.write_plan(read_preset(preset_file(PRESET)), 2)
    for name, row in grids.of_preset(read_preset(preset_file(PRESET))).items():
        path = results(made) / runs.ROOM / name / runs.MADE
        path.write_text(json.dumps({"failed": "", "asked": row.asked}))
    assert "runs" not in waiting(made, monkeypatch)
    edit(made, "03_robustness", images_per_set=50)
    assert "runs" in waiting(made, monkeypatch)


@pytest.mark.parametrize(
    ("reason", "again"), [("no room", True), (f"{DIVERGED}: at step 3", False)]
)
def test_a_run_that_failed_is_made_again_and_one_that_diverged_is_not(
    made, monkeypatch, reason, again
):
    preset = read_preset(preset_file(PRESET))
    asked = grids.of(preset.stages["04a_cures"])
    row = asked.query("part == 'sweep' and arm == 'ours' and method == 'gradmask'")["run"].iloc[0]
    mark = row.folder / runs.MADE
    mark.write_text(json.dumps({"failed": reason, "asked": row.asked}))
    assert plan.failures(preset) == {row.name: reason}
    plan.unmake_failed(preset)
    assert mark.is_file() is not again
    if again:
        assert waiting(made, monkeypatch) == END | {"runs", "04a_cures"}


def test_results_that_were_deleted_are_made_again(made, monkeypatch):
    shutil.rmtree(results(made) / "09_text")
    assert waiting(made, monkeypatch) == END | {"09_text", "09a_text"}


@pytest.fixture
def here(project, monkeypatch) -> Path:
    monkeypatch.chdir(project)
    return project


def test_plan_has_every_run_in_one_batch_after_what_it_needs(here):
    preset = read_preset(preset_file(PRESET))
    plan.write_plan(preset, 2)
    found = json.loads((results(here) / plan.FOLDER / plan.PLAN).read_text())
    names = [run for batch in found["batches"] for run in batch["runs"]]
    assert sorted(names) == sorted(grids.of_preset(preset))
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
    before = set(grids.of_preset(read_preset(preset_file(PRESET))))
    lines = sections(here)["pipeline"]["sweep"]
    grid = {"models": ["tiny"], "methods": ["rrr"], "seeds": [0, 1]}
    edit(here, "pipeline", sweep=[*lines, grid])
    after = set(grids.of_preset(read_preset(preset_file(PRESET))))
    assert before < after and len(after - before) == 3, "two runs, and one to find their rate"


# Machines, and the places on them: -j, cores and the free MB of each GPU, where a stage needs 2000;
# stages at once, the threads of each, and the room on each GPU.
PLACES = [
    (None, 1, {}, 1, 1, {}),
    (None, 2, {}, 2, 1, {}),
    (None, 16, {}, 2, 8, {}),  # a processor is divided as it always was
    (1, 8, {}, 1, 8, {}),
    (16, 8, {}, 16, 1, {}),
    (None, 16, {"a": 80000}, 8, 2, {"a": 40}),
    (12, 16, {"a": 80000}, 12, 1, {"a": 40}),
    (None, 16, {"a": 11000}, 5, 3, {"a": 5}),
    (None, 8, {"a": 11000}, 4, 2, {"a": 5}),
    (8, 16, {"a": 3999}, 1, 16, {"a": 1}),
    (None, 1, {"a": 80000}, 1, 1, {"a": 40}),
    (None, 16, {"a": 80000, "b": 1999, "c": 5000}, 8, 2, {"a": 40, "c": 2}),  # b is taken
    (None, 16, {"a": 2500, "b": 4500}, 3, 5, {"a": 1, "b": 2}),
    (4, 8, {"0": None}, 1, 8, {"0": 1}),  # nobody says
    (None, 8, {"0": None, "1": None}, 2, 4, {"0": 1, "1": 1}),
]


@pytest.mark.parametrize(("jobs", "many", "free_mb", "at_once", "threads", "gpus"), PLACES)
def test_stages_at_once_are_what_cores_and_gpus_have_room_for(
    monkeypatch, jobs, many, free_mb, at_once, threads, gpus
):
    commands = []
    for module in (places, pipeline):
        monkeypatch.setattr(module, "cores", lambda: many)
    monkeypatch.setattr(pipeline.subprocess, "run", lambda command, **_: commands.append(command))
    here = places.places(jobs, free_mb, 2000)
    assert here == (at_once, gpus)
    pipeline.snakemake("quick", here=here)
    rooms = {f"gpu_{number}={room}" for number, room in enumerate(gpus.values())}
    assert {f"threads={threads}", f"place={at_once}"} | rooms <= set(commands[0])


def test_a_gpu_without_room_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"^device: 1999 MB of the GPU's memory are free, and a "):
        places.places(8, {"a": 1999, "b": 3}, 2000)


SMI = "0, GPU-a, 81000\n1, GPU-b, 500\n"


@pytest.mark.parametrize(
    ("visible", "count", "said", "free_mb"),
    [
        (None, 0, SMI, {}),
        (None, 2, SMI, {"GPU-a": 81000, "GPU-b": 500}),
        ("1", 1, SMI, {"1": 500}),
        ("GPU-b,GPU-a", 2, SMI, {"GPU-b": 500, "GPU-a": 81000}),
        ("", 0, SMI, {}),
        ("MIG-a", 1, "0, GPU-a, [N/A]\n", {"MIG-a": None}),
        (None, 1, "0, GPU-a, [N/A]\n", {"0": None}),
        (None, 2, None, {"0": None, "1": None}),  # not there: of another maker, or in a container
    ],
)
def test_free_memory_is_told_of_the_gpus_that_torch_sees(
    tmp_path, monkeypatch, visible, count, said, free_mb
):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv(places.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(places.VISIBLE, visible)
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n" + ("exit 9" if said is None else f"printf '{said}'"))
    program.chmod(0o755)
    assert places.free_mb(count) == free_mb


def test_each_stage_sees_one_of_several_gpus(here):
    plan.write_plan(read_preset(preset_file(PRESET)), 2)
    options = ("--dry-run", "--forceall", "--printshellcmds")
    two = places.Places(2, {"GPU-a": 1, "GPU-b": 1})
    done = pipeline.snakemake(PRESET, *options, here=two, capture_output=True, text=True)
    pattern = (
        r"(?m)^Shell command: (?:CUDA_VISIBLE_DEVICES=(\S+) )?python -m (papermill|reproduction)"
    )
    commands = re.findall(pattern, done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr
    assert {*commands} == {*product(("GPU-a", "GPU-b"), ("papermill", "reproduction"))}

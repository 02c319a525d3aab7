"""The whole pipeline on copies of the project, with sizes as small as the parameters allow.

It runs twice: once from start to end, and once killed on the way and started again. Both must
leave the same bytes.
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
from typing import NamedTuple

import nbformat
import psutil
import pytest
import yaml

from relevit import pipeline
from relevit.config import NOTEBOOKS

ROOT = Path(__file__).parents[2]
PRESET = "smallest"
SOON_S = 10  # for what is refused before any work
NOTHING_S = 20  # for finding out that nothing is left to do
RUN_S = 900  # limit for a whole run, also on a busy machine

SMALLEST = {
    "00_start": {"images_per_set": 40, "shown": 2},
    "02_learning_rate": {"rates": [1.0e-5], "limit_pts": 100.0},
    # Three epochs, so that there is something left when the first checkpoint is there.
    "02_finetune": {"images_per_class": 1, "epochs": 3, "validation_images": 40,
                    "validation_maps": 8, "shown": 2},
    "03_robustness": {"seeds": [0], "images_per_set": 40},
    "99_report": {"seeds": [0]},
    "pipeline": {"seeds": [0]},
}  # fmt: skip
RULES = {"original", "start", "learning_rate", "finetune", "robustness", "report", "page"}
RESULTS = (
    "00_original/weights.safetensors",
    "02_finetune/seed0/weights.safetensors",
    "02_finetune/seed0/log.jsonl",
    "02_finetune/seed0/summary.json",
    "02_learning_rate/summary.json",
    "02_learning_rate/lr_1.0e-05/log.jsonl",
    "02_learning_rate/rates.parquet",
    "03_robustness/predictions.parquet",
    "03_robustness/changes.parquet",
    "99_report/claims.parquet",
)


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float


def copy_project(folder: Path) -> Path:
    """A project of its own: what is run and with which parameters, and the smallest preset."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(ROOT / "params", folder / "params")
    shutil.copy2(ROOT / "Snakefile", folder)
    shutil.copytree(folder / "params" / "quick", folder / "params" / PRESET)
    for name in (*NOTEBOOKS, "pipeline"):
        edit(folder, name, preset=PRESET, **SMALLEST.get(name, {}))
    return folder


def edit(project: Path, name: str, **values) -> None:
    """Change values in a parameter file of the smallest preset."""
    path = project / "params" / PRESET / f"{name}.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "relevit.pipeline", *arguments]


def run(project: Path, *arguments: str) -> Ended:
    """`python -m relevit.pipeline` in a project's folder."""
    start = time.perf_counter()
    done = subprocess.run(command(*arguments), cwd=project, capture_output=True, text=True)
    return Ended(done.returncode, done.stdout, done.stderr, time.perf_counter() - start)


def waiting(project: Path, monkeypatch) -> list[str]:
    """The stages that are left to run, as the command prints them but without what they do."""
    monkeypatch.chdir(project)
    return sorted(message.split(":")[0] for message in pipeline.todo(PRESET))


def results(project: Path) -> Path:
    return project / "outputs" / PRESET


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


@pytest.fixture
def project(tmp_path) -> Path:
    return copy_project(tmp_path / "project")


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> tuple[Path, Ended]:
    """A project in which the pipeline has run from start to end. Not to be changed."""
    folder = copy_project(tmp_path_factory.mktemp("finished"))
    return folder, run(folder, PRESET)


@pytest.fixture(scope="session")
def resumed(tmp_path_factory) -> tuple[Path, dict[str, bytes], Ended]:
    """Another one, killed in the middle of finetuning and started again; what was there then."""
    folder = copy_project(tmp_path_factory.mktemp("resumed"))
    finetuned = results(folder) / "02_finetune" / "seed0"
    text = kill_when(folder, (finetuned / "checkpoint" / "epoch_0001").is_dir)
    left = contents(results(folder))
    assert "02_finetune/seed0/checkpoint/epoch_0001/state.json" in left, text
    return folder, left, run(folder, PRESET)


@pytest.fixture
def changeable(finished, tmp_path) -> Path:
    """A copy of the finished project, times of the files included."""
    project, ended = finished
    assert ended.code == 0, ended.err
    return shutil.copytree(project, tmp_path / "project")


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
@pytest.mark.parametrize("name", RESULTS)
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
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(os.cpu_count()))
    subprocess.run(
        [sys.executable, "-m", "papermill", *arguments],
        cwd=changeable,
        env=os.environ | threads,
        check=True,
    )
    stage = results(changeable) / "02_finetune"
    for name in ("weights.safetensors", "log.jsonl"):
        assert (stage / "by_hand" / name).read_bytes() == (stage / "seed0" / name).read_bytes()


# What runs again


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
@pytest.mark.parametrize(
    ("name", "values", "stages"),
    [
        ("99_report", {"device": "cpu"}, "99_report report.html"),
        ("03_robustness", {"images_per_set": 80}, "03_robustness 99_report report.html"),
        ("00_start", {"shown": 3}, "00_start 99_report report.html"),
        (
            "02_finetune",
            {"epochs": 4},
            "02_finetune 02_learning_rate 03_robustness 99_report report.html",
        ),
    ],
)
def test_changed_parameter_runs_what_follows_from_it(changeable, monkeypatch, name, values, stages):
    edit(changeable, name, **values)
    assert waiting(changeable, monkeypatch) == stages.split()


@pytest.mark.slow
@pytest.mark.timeout(RUN_S)
def test_one_more_seed_runs_that_seed_alone(changeable, monkeypatch):
    for name in ("pipeline", "03_robustness", "99_report"):
        edit(changeable, name, seeds=[0, 1])
    stages = ["02_finetune", "03_robustness", "99_report", "report.html"]
    assert waiting(changeable, monkeypatch) == stages


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


# Wrong input: refused before any work


@pytest.fixture
def only_plan(project, monkeypatch) -> None:
    """Go to the project's folder, where no stage may be run."""
    monkeypatch.chdir(project)
    call = pipeline.snakemake

    def plan(preset: str, *options: str, **kwargs) -> subprocess.CompletedProcess:
        assert {"--dry-run", "--unlock"} & set(options), "the stages would be run"
        return call(preset, *options, **kwargs)

    monkeypatch.setattr(pipeline, "snakemake", plan)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("00_start", {"imges_per_set": 40}, "imges_per_set = 40 is no parameter; allowed are"),
        ("00_start", {"images_per_set": 4}, "images_per_set = 4 (int)"),
        ("00_start", {"model": "vit-b"}, "model = 'vit-b' (str)"),
        ("02_finetune", {"model": "dinov2-s"}, "model = 'dinov2-s', but the rest of the preset"),
        ("02_finetune", {"preset": "quick"}, "preset = 'quick', but the rest of the preset"),
        ("02_finetune", {"output_root": "results"}, "output_root = 'results'"),
        ("02_finetune", {"run": "mine"}, "run = 'mine'"),
        ("03_robustness", {"seeds": [0, 1]}, "seeds = [0, 1], but the rest of the preset"),
        ("pipeline", {"seed": 0}, "seed = 0"),
        ("pipeline", {"preset": "quick"}, "preset = 'quick'"),
        ("pipeline", {"disk_mb": 10**9}, "disk: "),
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


@pytest.mark.parametrize("name", ["02_finetune", "pipeline"])
@pytest.mark.parametrize(
    "text",
    ["", "- 1\n- 2\n", "seeds: [0\n", "\tpreset: quick\n"],
    ids=["empty", "list", "open", "tab"],
)
def test_file_that_is_no_parameter_file_is_refused(project, only_plan, capsys, name, text):
    (project / "params" / PRESET / f"{name}.yaml").write_text(text)
    assert pipeline.main([PRESET]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert f"{name}.yaml" in message
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
    assert "quick" in line and PRESET in line


@pytest.mark.parametrize("name", ["03_robustness", "pipeline"])
def test_missing_file_is_refused(project, name):
    (project / "params" / PRESET / f"{name}.yaml").unlink()
    line = refused(run(project, PRESET), project)
    assert f"{name}.yaml" in line
    assert "missing" in line


# The picture of the stages


def test_graph_names_all_stages(monkeypatch):
    monkeypatch.chdir(ROOT)
    edges = pipeline.graph("quick")
    assert {name for edge in edges for name in edge} == RULES
    assert {("original", "finetune"), ("learning_rate", "finetune"), ("report", "page")} <= set(
        edges
    )


def test_graph_of_an_unknown_preset_is_refused(project):
    line = refused(run(project, "smalest", "--graph"), project)
    assert "preset 'smalest' is unknown" in line

"""The paper's sweep, and stages on a cluster: what is planned, and what Snakemake is told."""

import json
import re
import shutil
import stat
import subprocess
import sys
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import pytest
import yaml

from reproduction.params.order import NOTEBOOKS
from reproduction.params.preset import read_preset
from reproduction.pipeline import plan
from reproduction.pipeline import run as pipeline
from reproduction.runs import table
from reproduction.stages import preset_file

from .projects import PRESET, ROOT, edit

PROFILES = sorted(path.parent.name for path in (ROOT / "profiles").glob("*/config.yaml"))
JOBS = ROOT / "profiles" / "kubernetes" / "jobs.sh"
SEVEN = ("vit-b", "vit-l", "ar-s", "ar-b", "ar-l", "deit-s", "deit-b")  # RobustViT Tab. 1
METHODS = {*product(("gradmask", "rrr"), ("published", "described")), ("relevance", "published")}


def test_paper_is_seven_models_by_five_methods_by_two_masks_by_three_seeds():
    paper = read_preset(preset_file("paper"))
    asked = table.of(paper.stages["04a_cures"]).query("part == 'sweep' and arm == 'ours'")
    rows = asked["run"]
    runs = [row.params for row in rows]
    found = {(run.model, (run.method, run.protocol), run.masks, run.seed) for run in runs}
    assert found == set(product(SEVEN, METHODS, ("annotated", "tokencut"), (0, 1, 2)))
    assert len({row.name for row in rows}) == 7 * 5 * 2 * 3, "two runs would share a folder"


@pytest.mark.parametrize("name", PROFILES)
def test_profile_passes_a_dry_run_with_every_job(name, project, monkeypatch):
    """With the executor itself: Snakemake refuses a name or an option that it does not know."""
    monkeypatch.chdir(project)
    preset = read_preset(preset_file(PRESET))
    plan.write_plan(preset, None)
    options = ("--dry-run", "--forceall", "--quiet", "host")
    folder = ROOT / "profiles" / name
    how = {"profile": str(folder), "capture_output": True, "text": True}
    done = pipeline.snakemake(PRESET, *options, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = re.findall(r"(?m)^Job \d+: (.+)$", done.stdout + done.stderr)
    kinds = Counter("runs" if job.startswith("runs ") else job.split(":")[0] for job in jobs)
    assert kinds.pop("runs") == len(table.of_preset(preset)), "each a job of its own"
    assert kinds == dict.fromkeys(preset.stages, 1)
    values = yaml.safe_load((folder / "config.yaml").read_text())
    assert values["default-resources"]["mem_mb"] >= 16000
    assert set(values["set-resources"]) <= set(NOTEBOOKS)
    assert {"jobs", "cores", "restart-times", "latency-wait"} <= set(values)


@pytest.fixture
def calls(project, monkeypatch) -> list[tuple[str, ...]]:
    """Calls of Snakemake in a project, none of which is made but for planning."""
    monkeypatch.chdir(project)
    made, call = [], pipeline.subprocess.run

    def run(command, **kwargs):
        made.append(tuple(map(str, command)))
        if "--dry-run" in command:
            return call(command, **kwargs)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(pipeline.subprocess, "run", run)
    monkeypatch.setattr(pipeline.children, "call", run)
    return made


def test_stages_go_to_the_cluster_and_the_plan_is_made_here(calls, project):
    edit(project, "02_finetune", device="cuda:99")  # the nodes may have it
    folder = str(ROOT / "profiles" / "slurm")
    assert pipeline.main([PRESET, "--profile", folder, "-j", "3"]) == 0
    last = calls[-1]
    told = dict(pairwise(last))
    assert (told["--profile"], told["--jobs"]) == (folder, "3")
    assert not {"--cores", "--resources"} & set(last), "they are those of the profile"
    assert {"--keep-going", "--rerun-incomplete"} <= set(last)


PLAN = "error: pipeline: Snakemake cannot plan the run:\n"
HERE = "names no executor of a cluster, like executor: slurm"


@pytest.mark.parametrize(
    ("given", "words", "planned"),
    [
        ("executor: slurmm", [PLAN, "invalid choice: 'slurmm' (choose from "], True),
        ("executor: slurm\nslurm-parts: 1", [PLAN, "unrecognized arguments: --slurm-par"], True),
        (None, [PLAN, "no profile.yaml (or config.yaml) found"], True),
        ("jobs: 4", [HERE], False),
        ("executor: local", [HERE], False),
    ],
    ids=["executor", "option", "missing", "none", "here"],
)
def test_a_wrong_profile_ends_before_any_work(calls, project, capsys, given, words, planned):
    (project / "mine").mkdir()
    if given:
        (project / "mine" / "config.yaml").write_text(given)
    assert pipeline.main([PRESET, "--profile", str(project / "mine")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and len(message.splitlines()) < 10
    assert all(part in message for part in words)
    assert bool(calls) == planned and all("--dry-run" in call for call in calls)


# Kubernetes Jobs

ANSWERING = """#!/bin/sh
echo "$@" >> arguments
printf '%s' '{answer}'
exit {code}
"""


def ask(folder: Path, monkeypatch, answer: str, code: int, *words: str) -> tuple[int, str, str]:
    """What jobs.sh ends with and says where kubectl answers so, and what kubectl was told."""
    install(folder, ANSWERING.format(answer=answer, code=code), monkeypatch)
    command = ["sh", str(JOBS), *words]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, (folder / "arguments").read_text()


def install(folder: Path, kubectl: str, monkeypatch) -> None:
    program = folder / "kubectl"
    program.write_text(kubectl)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("answer", "code", "word"),
    [
        ("Job ", 0, "running"),
        ("Job Complete", 0, "success"),
        ("Job SuccessCriteriaMet Complete", 0, "success"),
        ("Job SuccessCriteriaMet", 0, "running"),
        ("Job FailureTarget Failed", 0, "failed"),
        ("", 0, "failed"),  # somebody deleted it
        ("", 1, "running"),  # the cluster did not answer
    ],
)
def test_status_is_one_of_snakemakes_words(tmp_path, monkeypatch, answer, code, word):
    found, said, told = ask(tmp_path, monkeypatch, answer, code, "status", "job.batch/relevit-x7")
    assert (found, said) == (0, f"{word}\n")
    assert "get job.batch/relevit-x7 --ignore-not-found" in told


def test_cancel_ends_all_and_a_refused_submission_is_an_error(tmp_path, monkeypatch):
    code, _, told = ask(tmp_path, monkeypatch, "", 0, "cancel", "job.batch/a", "job.batch/b")
    assert code == 0 and told.startswith("delete job.batch/a job.batch/b ")
    assert ask(tmp_path, monkeypatch, "", 1, "submit", "1", "8000", "0", "stage.sh")[0]


# A cluster of one machine

RUNNING = """#!{python}
import json, pathlib, subprocess, sys, yaml
folder = pathlib.Path({folder!r})
if sys.argv[1] == "create":
    (box,) = yaml.safe_load(sys.stdin)["spec"]["template"]["spec"]["containers"]
    name = f"job-{{len(list(folder.glob('*.json')))}}"
    done = subprocess.run(
        box["command"], cwd=box["workingDir"], env={{e["name"]: e["value"] for e in box["env"]}},
        capture_output=True, text=True,
    )
    (folder / "log").open("a").write(done.stdout + done.stderr)
    (folder / f"{{name}}.json").write_text(json.dumps([done.returncode, box["resources"]]))
    print(name)
elif sys.argv[1] == "get":
    code, _ = json.loads((folder / f"{{sys.argv[2]}}.json").read_text())
    print("Job", "Failed" if code else "Complete")
"""
SNAKEFILE = """
rule all:
    input: "outputs/run0/done.txt"
rule report:
    name: "99_report"
    output: "outputs/first.txt"
    threads: workflow.cores
    shell: "echo {threads} > {output}"
rule sweep:
    input: "outputs/first.txt"
    output: "outputs/run{n}/done.txt"
    threads: config.get("threads", workflow.cores)
    resources: gpu=1
    shell: "echo {threads} > {output}"
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_stages_run_as_kubernetes_jobs(tmp_path, monkeypatch):
    """The shipped profile to the end, with a kubectl that makes each Job on this machine."""
    project, jobs = tmp_path / "project", tmp_path / "jobs"
    for folder in (project / "notebooks", project / "params", jobs):
        folder.mkdir(parents=True)
    shutil.copytree(ROOT / "profiles", project / "profiles")
    with (project / "profiles" / "kubernetes" / "config.yaml").open("a") as profile:
        profile.write("seconds-between-status-checks: 1\n")  # ten, unless told
    (project / "Snakefile").write_text(SNAKEFILE)
    install(jobs, RUNNING.format(python=sys.executable, folder=str(jobs)), monkeypatch)
    monkeypatch.chdir(project)
    how = {"profile": "profiles/kubernetes", "capture_output": True, "text": True}
    done = pipeline.snakemake("small", **how)
    assert done.returncode == 0, done.stderr
    assert {path.read_text() for path in project.glob("outputs/**/*.txt")} == {"8\n"}
    needs = [json.loads(path.read_text())[1]["requests"] for path in jobs.glob("*.json")]
    assert sorted(need["nvidia.com/gpu"] for need in needs) == ["0", "1"]
    assert {need["cpu"] for need in needs} == {"8"}
    assert {need["memory"] for need in needs} == {"48000M", "8000M"}

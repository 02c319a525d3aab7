"""The paper's sweep, and stages on a cluster: what is planned, and what Snakemake is told."""

from __future__ import annotations

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

from relevit.base.stages import preset_file
from relevit.config import NOTEBOOKS
from relevit.config.preset import Preset, read_preset
from relevit.finetune import table
from relevit.pipeline import plan
from relevit.pipeline import run as pipeline

from .projects import PRESET, ROOT, edit

PROFILES = sorted(path.parent.name for path in (ROOT / "profiles").glob("*/config.yaml"))
JOBS = ROOT / "profiles" / "kubernetes" / "jobs.sh"
REAL = {"data": "imagenet", "data_root": "data"}
SEVEN = ("vit-b", "vit-l", "ar-s", "ar-b", "ar-l", "deit-s", "deit-b")  # RobustViT Tab. 1
METHODS = {
    ("relevance", "published"),
    ("gradmask", "published"),
    ("gradmask", "described"),
    ("rrr", "published"),
    ("rrr", "described"),
}


# The paper's sweep


@pytest.fixture(scope="module")
def paper() -> Preset:
    return read_preset(preset_file("paper"))


def test_paper_is_seven_models_by_five_methods_by_two_masks_by_three_seeds(paper):
    asked = table.of(paper.stages["04_cures"]).query("part == 'sweep' and arm == 'ours'")
    rows = asked["run"]
    found = {
        (run.model, (run.method, run.protocol), run.masks, run.seed)
        for run in (row.params for row in rows)
    }
    assert found == set(product(SEVEN, METHODS, ("annotated", "tokencut"), (0, 1, 2)))
    assert len({row.name for row in rows}) == 7 * 5 * 2 * 3, "two runs would share a folder"


def test_models_must_be_those_of_the_data(project, monkeypatch):
    monkeypatch.chdir(project)
    edit(project, "common", benchmark=REAL, model="vit-b")
    with pytest.raises(ValueError, match=r"pipeline: sweep = \['tiny'\], .*vit-b, .*deit-b"):
        pipeline.check(PRESET)
    edit(project, "common", benchmark={"data": "cutouts"}, model="tiny")
    edit(project, "pipeline", sweep=[{"models": ["deit-b"], "seeds": [0]}])
    with pytest.raises(ValueError, match=r"sweep = \['deit-b'\], .*dinov2-s, dinov2-s8, tiny, "):
        pipeline.check(PRESET)


def test_real_data_need_a_folder(project, monkeypatch):
    monkeypatch.chdir(project)
    edit(project, "common", benchmark={"data": "imagenet"})
    with pytest.raises(ValueError, match="without data_root; give the folder that holds the sets"):
        pipeline.check(PRESET)


# Profiles


@pytest.mark.parametrize("name", PROFILES)
def test_profile_gives_every_stage_memory_and_names_rules_that_exist(name):
    values = yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text())
    assert values["default-resources"]["mem_mb"] >= 16000
    assert set(values["set-resources"]) <= set(NOTEBOOKS)
    assert {"jobs", "cores", "restart-times", "latency-wait"} <= set(values)


@pytest.mark.parametrize("name", PROFILES)
def test_profile_passes_a_dry_run_with_every_job_of_the_paper(name, paper, project, monkeypatch):
    """With the executor itself: Snakemake refuses a name or an option that it does not know."""
    monkeypatch.chdir(project)
    plan.write_plan(paper, None)
    options = ("--dry-run", "--forceall", "--quiet", "host")
    done = pipeline.snakemake(
        "paper", *options, profile=str(ROOT / "profiles" / name), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = re.findall(r"(?m)^Job \d+: (.+)$", done.stdout + done.stderr)
    kinds = Counter("runs" if job.startswith("runs ") else job.split(":")[0] for job in jobs)
    assert kinds.pop("runs") == len(table.of_preset(paper)), "each a job of its own"
    assert kinds == dict.fromkeys(paper.stages, 1)


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


@pytest.fixture
def profile(project):
    """`profile(given)` writes a file: given text, or values in place of right ones ("-": none)."""
    folder = project / "mine"
    folder.mkdir()

    def write(given: str | dict) -> str:
        if isinstance(given, dict):
            values = {"executor": "slurm", "jobs": 4, "cores": 6} | given
            given = yaml.safe_dump({key: value for key, value in values.items() if value != "-"})
        (folder / "config.yaml").write_text(given)
        return str(folder)

    return write


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"executor": "slurmm"}, "invalid choice: 'slurmm' (choose from "),
        ({"slurm-partitoin": "gpu"}, "unrecognized arguments: --slurm-partitoin"),
        ("jobs: [1\n", "Couldn't parse config file"),
        (None, "no profile.yaml (or config.yaml) found"),
    ],
    ids=["executor", "option", "yaml", "missing"],
)
def test_what_snakemake_refuses_ends_before_any_work(calls, project, profile, capsys, given, words):
    folder = str(project / "mine") if given is None else profile(given)
    assert pipeline.main([PRESET, "--profile", folder]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: pipeline: Snakemake cannot plan the run:\n")
    assert words in message and len(message.splitlines()) < 10
    assert "--dry-run" in calls[-1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"executor": "-"}, "executor = None; a cluster's is needed, like slurm: for this machine"),
        ({"executor": "local"}, "executor = 'local'; a cluster's is needed"),
        ({"jobs": "-"}, "jobs = None; a whole number above 0 is needed, the stages at once"),
        ({"jobs": "all"}, "jobs = 'all'; a whole number"),
        ({"jobs": 0}, "jobs = 0; a whole number"),
        ({"cores": "-"}, "cores = None; a whole number above 0 is needed, the processor cores of"),
        ({"cores": "all"}, "cores = 'all'; a whole number"),
        ("", "needs `name: value` lines, like executor: slurm"),
        ("- slurm\n", "needs `name: value` lines, like executor: slurm"),
    ],
)
def test_profile_that_is_for_no_cluster_ends_before_any_work(
    calls, project, profile, capsys, given, words
):
    folder = profile(given)
    assert pipeline.main([PRESET, "--profile", folder]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: profile: {folder}/config.yaml: {words}")
    assert len(message.splitlines()) == 1
    assert calls == [] and not (project / "outputs").exists()


def test_jobs_of_the_command_replace_those_of_the_profile(profile):
    pipeline.check_profile(profile({"jobs": "-"}), jobs=2)
    with pytest.raises(ValueError, match="jobs = 0; a whole number"):
        pipeline.check_profile(profile({}), jobs=0)


# Kubernetes Jobs

# Leaves its arguments and input, and gives the answer it was told to.
ANSWERING = """#!/bin/sh
echo "$@" >> {folder}/arguments
case "$1" in create) cat > {folder}/given;; esac
cat {folder}/answer
exit $(cat {folder}/code)
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A kubectl in the place of the real one; `kubectl(answer, code)` says what it replies."""
    install(tmp_path, ANSWERING.format(folder=tmp_path), monkeypatch)

    def reply(answer: str, code: int = 0) -> Path:
        (tmp_path / "answer").write_text(answer)
        (tmp_path / "code").write_text(str(code))
        return tmp_path

    return reply


def install(folder: Path, kubectl: str, monkeypatch) -> None:
    program = folder / "kubectl"
    program.write_text(kubectl)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def ask(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = ["sh", str(JOBS), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("gpus", ["0", "1"])
def test_job_runs_the_script_here_with_what_the_stage_needs(kubectl, tmp_path, gpus):
    folder = kubectl("job.batch/relevit-x7\n")
    done = ask(tmp_path, "submit", "8", "48000", gpus, ".snakemake/stage.sh")
    assert (done.returncode, done.stdout) == (0, "job.batch/relevit-x7\n"), done.stderr
    body = yaml.safe_load((folder / "given").read_text())
    assert body["kind"] == "Job" and body["metadata"] == {"generateName": "relevit-"}
    pod = body["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["/bin/sh", ".snakemake/stage.sh"]
    assert container["workingDir"] == str(tmp_path)
    assert container["env"] == [{"name": "PATH", "value": f"{tmp_path}:/usr/bin:/bin"}]
    limits = {"memory": "48000M", "nvidia.com/gpu": gpus}
    assert container["resources"] == {"requests": {"cpu": "8", **limits}, "limits": limits}
    mounted = [each["name"] for each in container["volumeMounts"]]
    assert mounted == [volume["name"] for volume in pod["volumes"]]


def test_submission_that_is_refused_is_an_error(kubectl, tmp_path):
    kubectl("", code=1)
    assert ask(tmp_path, "submit", "1", "8000", "0", "stage.sh").returncode


@pytest.mark.parametrize(
    ("answer", "code", "word"),
    [
        ("Job ", 0, "running"),
        ("Job Complete", 0, "success"),
        ("Job SuccessCriteriaMet Complete", 0, "success"),
        ("Job SuccessCriteriaMet", 0, "running"),
        ("Job Failed", 0, "failed"),
        ("Job FailureTarget Failed", 0, "failed"),
        ("", 0, "failed"),  # somebody deleted it
        ("", 1, "running"),  # the cluster did not answer
    ],
)
def test_status_is_one_of_snakemakes_words(kubectl, tmp_path, answer, code, word):
    folder = kubectl(answer, code)
    done = ask(tmp_path, "status", "job.batch/relevit-x7")
    assert (done.returncode, done.stdout) == (0, f"{word}\n")
    assert "get job.batch/relevit-x7 --ignore-not-found" in (folder / "arguments").read_text()


def test_cancel_ends_all(kubectl, tmp_path):
    folder = kubectl("")
    assert ask(tmp_path, "cancel", "job.batch/a", "job.batch/b").returncode == 0
    assert (folder / "arguments").read_text().startswith("delete job.batch/a job.batch/b ")


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
    input: expand("outputs/run{n}/done.txt", n=[0, 1])
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
    done = pipeline.snakemake(
        "small", profile="profiles/kubernetes", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert {path.read_text() for path in project.glob("outputs/**/*.txt")} == {"8\n"}
    needs = [json.loads(path.read_text())[1]["requests"] for path in jobs.glob("*.json")]
    assert sorted(need["nvidia.com/gpu"] for need in needs) == ["0", "1", "1"]
    assert {need["cpu"] for need in needs} == {"8"}
    assert {need["memory"] for need in needs} == {"48000M", "8000M"}

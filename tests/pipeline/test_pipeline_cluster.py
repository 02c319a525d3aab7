"""The paper's sweep, and stages on a cluster: what is planned, and what Snakemake is told."""

from __future__ import annotations

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
from snakemake.cli import get_argument_parser

from relevit.config import PipelineParams
from relevit.pipeline import cluster
from relevit.pipeline import run as pipeline
from relevit.pipeline.cluster import Cluster, read_profile
from relevit.pipeline.sweep import sweep_runs

from .projects import PRESET, ROOT, edit

PROFILES = sorted(path.parent for path in (ROOT / "profiles").glob("*/config.yaml"))
PAPER = ROOT / "params" / "paper"
REAL = {"data": "imagenet", "data_root": "data"}
VALUES = {"executor": "slurm", "jobs": 4, "max-threads": 6}
SEVEN = ("vit-b", "vit-l", "ar-s", "ar-b", "ar-l", "deit-s", "deit-b")  # RobustViT Tab. 1
METHODS = {
    ("relevance", "published"),
    ("gradmask", "published"),
    ("gradmask", "described"),
    ("rrr", "published"),
    ("rrr", "described"),
}


def ids(folder: Path) -> str:
    return folder.name


# The paper's sweep


@pytest.fixture
def paper() -> PipelineParams:
    return PipelineParams.from_preset(PAPER)


def test_paper_is_seven_models_by_five_methods_by_two_masks_by_three_seeds(paper):
    runs = sweep_runs(paper)
    found = {(run.model, (run.method, run.protocol), run.masks, run.seed) for run in runs}
    assert found == set(product(SEVEN, METHODS, ("annotated", "tokencut"), (0, 1, 2)))
    assert len(runs) == 7 * 5 * 2 * 3
    assert len({run.name for run in runs}) == len(runs), "two runs would share a folder"


def test_snakemake_plans_every_run_of_the_paper(paper, project, monkeypatch):
    grids = [grid.model_dump() for grid in paper.sweep]
    edit(project, "common", benchmark=REAL)
    edit(project, "pipeline", sweep=grids)
    monkeypatch.chdir(project)
    stages = Counter(message.split(":")[0] for message in pipeline.todo(PRESET))
    runs = len(sweep_runs(paper))
    assert stages.pop("02_finetune") == runs + 1, "all runs, and the preset's own"
    assert stages.pop("03_comparison") == runs + len(SEVEN) + 1, "answers of each, and originals'"
    assert set(stages.values()) == {1}


def test_models_must_be_those_of_the_data(project, monkeypatch):
    monkeypatch.chdir(project)
    edit(project, "common", benchmark=REAL, model="vit-b")
    with pytest.raises(ValueError, match=r"pipeline.yaml: sweep = \['tiny'\], .*vit-b, .*deit-b"):
        pipeline.check(PRESET)
    edit(project, "common", benchmark={"data": "cutouts"}, model="tiny")
    edit(project, "pipeline", sweep=[{"models": ["deit-b"], "seeds": [0]}])
    with pytest.raises(ValueError, match=r"sweep = \['deit-b'\], .*dinov2-s, tiny, "):
        pipeline.check(PRESET)


def test_real_data_need_a_folder(project, monkeypatch):
    monkeypatch.chdir(project)
    edit(project, "common", benchmark={"data": "imagenet"})
    with pytest.raises(ValueError, match="without data_root; give the folder that holds the sets"):
        pipeline.check(PRESET)


# Profiles


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """A profile in `tmp_path`, whose executor counts as installed."""
    monkeypatch.setattr(cluster, "find_spec", lambda name: object())

    def write(**changes) -> Path:
        values = VALUES | {key.replace("_", "-"): value for key, value in changes.items()}
        given = {key: value for key, value in values.items() if value is not ...}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(given))
        return tmp_path

    return write


@pytest.mark.parametrize("folder", PROFILES, ids=ids)
def test_profile_has_options_that_snakemake_knows(folder):
    values = yaml.safe_load((folder / "config.yaml").read_text())
    known = {name for action in get_argument_parser()._actions for name in action.option_strings}
    own = [key for key in values if key.startswith(f"{values['executor']}-")]
    assert [key for key in values if f"--{key}" not in known and key not in own] == []
    assert {"jobs", "max-threads", "restart-times", "latency-wait"} <= set(values)


@pytest.mark.parametrize("folder", PROFILES, ids=ids)
def test_profile_gives_every_stage_memory_and_names_rules_that_exist(folder):
    values = yaml.safe_load((folder / "config.yaml").read_text())
    rules = (ROOT / "Snakefile").read_text()
    assert values["default-resources"]["mem_mb"] >= 16000
    assert all(f"\nrule {name}:" in rules for name in values["set-resources"])


@pytest.mark.parametrize("folder", PROFILES, ids=ids)
def test_shipped_profile_is_read_when_its_executor_is_there(folder, monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    executor = yaml.safe_load((folder / "config.yaml").read_text())["executor"]
    text = rf"executor '{executor}' is not installed; .*snakemake-executor-plugin-{executor}$"
    with pytest.raises(ValueError, match=text):
        read_profile(f"profiles/{folder.name}")
    monkeypatch.setattr(cluster, "find_spec", lambda name: object())
    assert read_profile(f"profiles/{folder.name}").profile == folder


def test_cores_follow_from_jobs_and_threads(profile):
    options = read_profile(str(profile())).options()
    assert options == [
        "--profile",
        str(profile()),
        "--jobs",
        "4",
        "--cores",
        "24",
        "--config",
        "threads=6",
        "gpus=0",
    ]
    assert read_profile(str(profile()), jobs=2) == Cluster(profile(), 2, 6)
    assert read_profile(str(profile(jobs=...)), jobs=2).jobs == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"executor": ...}, "executor = None; a cluster's is needed, like slurm: for this machine"),
        ({"executor": "local"}, "executor = 'local'; a cluster's is needed"),
        ({"jobs": ...}, "jobs = None; a whole number above 0 is needed, the stages at once"),
        ({"jobs": "all"}, "jobs = 'all'; a whole number"),
        ({"jobs": 0}, "jobs = 0; a whole number"),
        ({"max_threads": ...}, "max-threads = None; .* the processor cores of one stage"),
        ({"cores": 8}, r"\['cores'\] are set by the pipeline, from jobs and max-threads; leave"),
        ({"config": {"threads": 1}}, r"\['config'\] are set by the pipeline"),
    ],
)
def test_wrong_profile_is_refused(profile, changes, words):
    with pytest.raises(ValueError, match=rf"profile: .*config\.yaml: {words}"):
        read_profile(str(profile(**changes)))


@pytest.mark.parametrize("content", ["", "- slurm\n", "jobs: [1\n"])
def test_file_that_is_no_profile_is_refused(tmp_path, content):
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(ValueError, match=r"profile: .*config\.yaml: (needs|no valid)"):
        read_profile(str(tmp_path))


def test_missing_profile_names_those_that_are_there(tmp_path):
    text = r"config\.yaml is missing; .* like profiles/kubernetes or profiles/slurm"
    with pytest.raises(FileNotFoundError, match=text):
        read_profile(str(tmp_path / "profiles" / "slrum"))


# What Snakemake is told


@pytest.fixture
def calls(project, monkeypatch) -> list[tuple[str, ...]]:
    """Calls of Snakemake in a project, none of which is made but for planning."""
    monkeypatch.chdir(project)
    made, call = [], pipeline.subprocess.run

    def run(command, **kwargs):
        made.append(tuple(map(str, command)))
        if {"--dry-run", "--unlock"} & set(command):
            return call(command, **kwargs)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(pipeline.subprocess, "run", run)
    return made


def test_stages_go_to_the_cluster_and_the_plan_is_made_here(calls, project, profile):
    edit(project, "02_finetune", device="cuda:99")  # the nodes may have it
    assert pipeline.main([PRESET, "--profile", str(profile()), "-j", "3"]) == 0
    *planning, last = calls
    assert planning and not any("--profile" in command for command in planning)
    told = dict(pairwise(last))
    assert told["--profile"] == str(profile())
    assert (told["--jobs"], told["--cores"]) == ("3", "18")
    assert last.count("--cores") == last.count("--config") == 1
    assert "--resources" not in last, "GPUs of the cluster are not those of this machine"
    assert {"threads=6", "gpus=0", "--keep-going", "--rerun-incomplete"} <= set(last)


def test_wrong_profile_ends_before_any_work(calls, project, profile, capsys):
    assert pipeline.main([PRESET, "--profile", str(profile(executor="local"))]) == 2
    assert capsys.readouterr().err.startswith("error: profile: ")
    assert calls == [] and not (project / "outputs").exists()


@pytest.mark.parametrize("folder", PROFILES, ids=ids)
def test_profile_passes_a_dry_run_with_every_job_of_the_paper(folder, paper, monkeypatch):
    """With the executor itself: Snakemake refuses a name or an option that it does not know."""
    monkeypatch.chdir(ROOT)
    options = ("--dry-run", "--forceall", "--quiet", "host")
    told = read_profile(str(folder))
    done = pipeline.snakemake("paper", *options, cluster=told, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = re.findall(r"(?m)^Job \d+: (.+)$", done.stdout + done.stderr)
    swept = [
        f"02_finetune: {run.model}, {run.method} {run.protocol}, {run.masks} masks, seed {run.seed}"
        for run in sweep_runs(paper)
    ]
    assert sorted(job for job in jobs if job in set(swept)) == sorted(swept), "each of 210, once"
    others = Counter(job.split(":")[0] for job in jobs if job not in set(swept))
    assert others.pop("02_finetune") == len(paper.seeds), "the preset's own, a seed each"
    evaluated = len(swept) + len(SEVEN) - 1  # 03_robustness has the preset's own original
    assert others.pop("03_comparison") == evaluated + 1
    assert set(others.values()) == {1} and {"00_original", "99_report"} <= set(others)


def test_dry_run_refuses_an_option_that_the_executor_has_not(profile, monkeypatch):
    monkeypatch.chdir(ROOT)
    told = read_profile(str(profile(slurm_partitoin="gpu")))
    done = pipeline.snakemake("quick", "--dry-run", cluster=told, capture_output=True, text=True)
    assert done.returncode and "slurm-partitoin" in done.stdout + done.stderr


# A cluster of one machine

KUBECTL = """#!{python}
import json, pathlib, subprocess, sys
folder = pathlib.Path({folder!r})
if sys.argv[1] == "create":
    job = json.load(sys.stdin)
    box = job["spec"]["template"]["spec"]["containers"][0]
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
    kind = "Failed" if code else "Complete"
    print(json.dumps({{"status": {{"conditions": [{{"type": kind, "status": "True"}}]}}}}))
"""
SNAKEFILE = """
rule all:
    input: expand("outputs/run{n}/done.txt", n=[0, 1])
rule page:
    output: "outputs/first.txt"
    threads: workflow.cores
    shell: "echo {threads} > {output}"
rule sweep:
    input: "outputs/first.txt"
    output: "outputs/run{n}/done.txt"
    threads: config["threads"]
    resources: gpu=1
    shell: "echo {threads} > {output}"
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_stages_run_as_kubernetes_jobs(tmp_path, monkeypatch):
    """The shipped profile to the end, with a kubectl that makes each Job on this machine."""
    project, jobs = tmp_path / "project", tmp_path / "jobs"
    for folder in (project / "notebooks", project / "params" / "small", jobs):
        folder.mkdir(parents=True)
    shutil.copytree(ROOT / "profiles", project / "profiles")
    with (project / "profiles" / "kubernetes" / "config.yaml").open("a") as profile:
        profile.write("seconds-between-status-checks: 1\n")  # ten, unless told
    (project / "Snakefile").write_text(SNAKEFILE)
    for name in ("common", "seeds", "pipeline"):
        (project / "params" / "small" / f"{name}.yaml").write_text("preset: small\n")
    kubectl = jobs / "kubectl"
    kubectl.write_text(KUBECTL.format(python=sys.executable, folder=str(jobs)))
    kubectl.chmod(kubectl.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{jobs}:/usr/bin:/bin")
    monkeypatch.chdir(project)
    told = read_profile("profiles/kubernetes")
    done = pipeline.snakemake("small", cluster=told, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {path.read_text() for path in project.glob("outputs/**/*.txt")} == {"8\n"}
    needs = [yaml.safe_load(path.read_text())[1]["requests"] for path in jobs.glob("*.json")]
    assert [need.get("nvidia.com/gpu", "0") for need in needs].count("1") == 2
    assert {need["cpu"] for need in needs} == {"8"}
    assert {need["memory"] for need in needs} == {"48000M", "8000M"}

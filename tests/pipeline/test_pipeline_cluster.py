"""The paper's sweep, and stages on a cluster: what is planned, and what Snakemake is told."""

import os
import re
import subprocess
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import pytest
import yaml

from relevit.base.results import read_json
from reproduction.params.preset import read_preset
from reproduction.pipeline import plan
from reproduction.pipeline import run as pipeline
from reproduction.pipeline.machine import slurm
from reproduction.runs import grids
from reproduction.stages import preset_file

from .projects import PRESET, ROOT, edit

PROFILE = ROOT / "profiles" / "slurm"
SEVEN = ("vit-b", "vit-l", "ar-s", "ar-b", "ar-l", "deit-s", "deit-b")  # RobustViT Tab. 1
METHODS = {*product(("gradmask", "rrr"), ("published", "described")), ("relevance", "published")}


def test_paper_is_seven_models_by_five_methods_by_two_masks_by_three_seeds():
    paper = read_preset(preset_file("paper"))
    asked = grids.of(paper.stages["04a_cures"]).query("part == 'sweep' and arm == 'ours'")
    rows = asked["run"]
    runs = [row.params for row in rows]
    found = {(run.model, (run.method, run.protocol), run.masks, run.seed) for run in runs}
    assert found == set(product(SEVEN, METHODS, ("annotated", "tokencut"), (0, 1, 2)))
    assert len({row.name for row in rows}) == 7 * 5 * 2 * 3, "two runs would share a folder"


def test_profile_passes_a_dry_run_with_every_job(project, monkeypatch):
    """With the executor itself: Snakemake refuses a name or an option that it does not know."""
    monkeypatch.chdir(project)
    preset = read_preset(preset_file(PRESET))
    plan.write_plan(preset, 100, cluster=True)
    options = ("--dry-run", "--forceall", "--quiet", "host")
    how = {"profile": str(PROFILE), "capture_output": True, "text": True}
    done = pipeline.snakemake(PRESET, *options, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = re.findall(r"(?m)^Job \d+: (.+)$", done.stdout + done.stderr)
    kinds = Counter("runs" if job.startswith("runs ") else job.split(":")[0] for job in jobs)
    assert kinds.pop("runs") == len(grids.of_preset(preset)), "with so many places a job for each"
    assert kinds == dict.fromkeys(preset.stages, 1)


def test_the_papers_runs_are_as_few_jobs_as_the_page_says(tmp_path, monkeypatch):
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    (tmp_path / "params").symlink_to(ROOT / "params")
    monkeypatch.chdir(tmp_path)
    preset, page = (
        read_preset(preset_file("paper")),
        (ROOT / "docs" / "paper_preset.md").read_text(),
    )
    jobs = yaml.safe_load((PROFILE / "config.yaml").read_text())["jobs"]
    plan.write_plan(preset, jobs, cluster=True)
    batches = read_json(tmp_path / "outputs" / "paper" / plan.FOLDER / plan.PLAN)["batches"]
    runs = [run for batch in batches for run in batch["runs"]]
    assert sorted(runs) == sorted(grids.of_preset(preset))
    assert f"{len(batches) + len(preset.stages)} jobs: {len(preset.stages)} notebooks and" in page
    assert f"{len(runs)} finetuning runs in {len(batches)} jobs" in page


def commands(folder: Path, monkeypatch, **answers: str) -> None:
    """Commands of a Slurm that answers so, first in the path."""
    folder.mkdir(exist_ok=True)
    for name, answer in answers.items():
        (folder / name).write_text(f"#!/bin/sh\n{answer}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def calls(project, monkeypatch) -> list[tuple[str, ...]]:
    """Calls of Snakemake in a project, none of which is made but for planning."""
    monkeypatch.chdir(project)
    made, call = [], pipeline.subprocess.run

    def run(command, **kwargs):
        if "snakemake" not in command:
            return call(command, **kwargs)
        made.append(tuple(map(str, command)))
        if "--dry-run" in command:
            return call(command, **kwargs)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(pipeline.subprocess, "run", run)
    monkeypatch.setattr(pipeline.children, "call", run)
    return made


def test_stages_go_to_the_cluster_and_the_plan_is_made_here(calls, project, tmp_path, monkeypatch):
    edit(project, "02_finetune", device="cuda:99")  # the nodes may have it
    commands(tmp_path / "bin", monkeypatch, sbatch="exit 0", squeue="exit 0")
    folder = str(PROFILE)
    assert pipeline.main([PRESET, "--profile", folder, "-j", "3"]) == 0
    last = calls[-1]
    told = dict(pairwise(last))
    assert (told["--profile"], told["--jobs"]) == (folder, "3")
    assert not {"--cores", "--resources"} & set(last), "they are those of the profile"
    assert {"--keep-going", "--rerun-incomplete"} <= set(last)


PLAN = "error: pipeline: Snakemake cannot plan the run:\n"
LACKS = "lacks the line executor: slurm"


@pytest.mark.parametrize(
    ("given", "words", "planned"),
    [
        ("executor: slurmm", [LACKS], False),
        ("executor: slurm\nslurm-parts: 1", [PLAN, "unrecognized arguments: --slurm-par"], True),
        (None, ["has no profile or config.yaml"], False),
        ("jobs: 4", [LACKS], False),
        ("executor: [", ["is no YAML"], False),
        ("executor: slurm\ndefault-resources: {slurm_partition: night}",
         ["Slurm refuses such a job: invalid partition: night. Its partitions: day;"], False),
    ],
    ids=["executor", "option", "missing", "none", "words", "partition"],
)  # fmt: skip
def test_a_wrong_profile_ends_before_any_work(
    calls, project, capsys, monkeypatch, tmp_path, given, words, planned
):
    refusal = (
        'case "$*" in *=night*) echo "sbatch: error: invalid partition: night" >&2; exit 1;; esac'
    )
    commands(tmp_path / "bin", monkeypatch, sbatch=refusal, squeue="exit 0", sinfo="echo day")
    (project / "mine").mkdir()
    if given:
        (project / "mine" / "config.yaml").write_text(given)
    assert pipeline.main([PRESET, "--profile", str(project / "mine")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and len(message.splitlines()) < 10
    assert all(part in message for part in words)
    assert bool(calls) == planned and all("--dry-run" in call for call in calls)


def test_a_folder_with_a_space_is_refused(calls, project, capsys, monkeypatch):
    spaced = project.rename(project.with_name("my project"))
    monkeypatch.chdir(spaced)
    assert pipeline.main([PRESET, "--profile", str(PROFILE)]) == 2
    assert "my project' has a space" in capsys.readouterr().err


# What stands before Slurm's own commands

JOB = ("--job-name", "relevit-small_0", "--comment", "rule_00_start", "--wrap=true")
REFUSED = 'echo "sbatch: error: {}" >&2; exit 1'


@pytest.mark.parametrize(
    ("words", "there", "number", "tries"),
    [
        ("QOSMaxSubmitJobPerUserLimit", "", "7", 2),
        ("Batch job submission failed: Unable to contact slurm controller", "", "7", 2),
        ("Batch job submission failed: Socket timed out on send/recv", "5|rule_00_start", "5", 1),
        ("Batch job submission failed: Socket timed out on send/recv", "5|rule_01_masks", "7", 2),
        ("invalid partition specified: night", "", "", 1),
    ],
)
def test_a_submission_waits_only_for_what_passes(
    tmp_path, monkeypatch, words, there, number, tries
):
    refused = "if test -e tried; then echo x >> tried; echo 7; exit; fi; echo x > tried; "
    answers = {"sbatch": refused + REFUSED.format(words), "squeue": f"echo '{there}'"}
    commands(tmp_path / "bin", monkeypatch, **answers)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slurm, "AGAIN_S", 0)
    with (tmp_path / "said").open("w") as said:
        for name, value in slurm.commands(
            tmp_path / "ours", said.fileno(), os.environ["PATH"]
        ).items():
            monkeypatch.setenv(name, value)
        assert slurm.sbatch([*JOB]) == (0 if number else 1)
    noted = tmp_path / "ours" / slurm.NOTED
    assert (noted.read_text() if noted.is_file() else "") == (f"{number}\n" if number else "")
    assert (tmp_path / "tried").read_text() == "x\n" * tries
    waits = f"Waiting to submit rule_00_start: sbatch: error: {words}\n"
    assert (tmp_path / "said").read_text() == (waits if number else "")


def test_a_job_that_is_listed_no_more_has_ended(tmp_path, monkeypatch, capsys):
    commands(tmp_path / "bin", monkeypatch, squeue='test "$1" && echo "3|RUNNING"')
    monkeypatch.setenv(slurm.HERE, str(tmp_path))
    (tmp_path / slurm.NOTED).write_text("2\n3\n")
    assert slurm.squeue(["--noheader"]) == 0
    assert capsys.readouterr().out == "3|RUNNING\n2|COMPLETED\n"
    assert slurm.squeue([""]) == 1, "it does not answer"
    assert capsys.readouterr().out == ""


def test_jobs_of_a_folder_and_preset_alone_are_ours(tmp_path, monkeypatch):
    name = f"relevit-small_{'0' * 8}-{'0' * 4}-{'0' * 4}-{'0' * 4}-{'0' * 12}"
    rows = [
        f"1|RUNNING|{name}|rule_00_start|{tmp_path}",
        f"2|RUNNING|{name}|rule_00_start|{tmp_path.parent}",
        f"3|PENDING|{name.replace('small', 'smaller')}|rule_00_start|{tmp_path}",
        f"4|RUNNING|relevit-small|rule_00_start|{tmp_path}",
    ]
    lines = [f"echo '{row}'" for row in rows]
    commands(tmp_path / "bin", monkeypatch, squeue="\n".join(lines))
    assert slurm.jobs(tmp_path, "small") == {"1": "00_start"}
    with pytest.raises(RuntimeError, match=r"1 \(00_start\); .*: scancel 1\. What"):
        slurm.refuse_left(tmp_path, "small")

"""Stages as Kubernetes Jobs: the manifest, and what is made of kubectl's answers."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import yaml

from relevit.pipeline import pods

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "profiles" / "kubernetes" / "job.yaml"
STAGE = {"threads": 8, "resources": {"gpu": 1, "mem_mb": 48000, "device": " "}}
SCRIPT = "#!/bin/sh\n# properties = {}\necho stage\n"
# Leaves its arguments and input, and gives the answer it was told to.
KUBECTL = """#!/bin/sh
echo "$@" >> {folder}/arguments
case "$1" in create) cat > {folder}/given;; esac
cat {folder}/answer
exit $(cat {folder}/code)
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A kubectl in the place of the real one; `kubectl(answer, code)` says what it replies."""
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL.format(folder=tmp_path))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def reply(answer: str, code: int = 0) -> Path:
        (tmp_path / "answer").write_text(answer)
        (tmp_path / "code").write_text(str(code))
        return tmp_path

    return reply


def job(*conditions: tuple[str, str]) -> str:
    found = [{"type": kind, "status": holds} for kind, holds in conditions]
    return json.dumps({"status": {"conditions": found}})


def test_job_runs_the_script_here_with_what_the_stage_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/project/bin:/bin")
    body = pods.manifest(TEMPLATE, Path("stage.sh"), STAGE)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["/bin/sh", str(tmp_path / "stage.sh")]
    assert container["workingDir"] == str(tmp_path)
    assert {"name": "PATH", "value": "/project/bin:/bin"} in container["env"]
    needs = container["resources"]
    assert needs["requests"] == {"cpu": "8", "memory": "48000M", "nvidia.com/gpu": "1"}
    assert needs["limits"] == {"memory": "48000M", "nvidia.com/gpu": "1"}
    assert container["volumeMounts"] == _container(TEMPLATE)["volumeMounts"]


def _container(template: Path) -> dict:
    return yaml.safe_load(template.read_text())["spec"]["template"]["spec"]["containers"][0]


def test_stage_that_computes_nothing_asks_for_no_gpu():
    body = pods.manifest(TEMPLATE, Path("x"), {"threads": 1, "resources": {"mem_mb": 8000}})
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "8000M"}


@pytest.mark.parametrize("content", ["", "kind: Job\n", "spec: {template: {spec: []}}\n"])
def test_template_that_is_no_job_is_refused(tmp_path, content):
    template = tmp_path / "job.yaml"
    template.write_text(content)
    with pytest.raises(ValueError, match=r"pods: .*job\.yaml has no Job with one container; start"):
        pods.manifest(template, Path("x"), STAGE)
    template.unlink()
    with pytest.raises(FileNotFoundError, match=r"job\.yaml is missing; copy profiles/kubernetes"):
        pods.manifest(template, Path("x"), STAGE)


def test_submit_gives_snakemakes_script_to_the_cluster_and_prints_the_name(
    kubectl, tmp_path, capsys
):
    folder = kubectl("job.batch/relevit-x7\n")
    script = tmp_path / "stage.sh"
    script.write_text(SCRIPT.replace("{}", json.dumps(STAGE)))
    assert pods.main(["submit", str(TEMPLATE), str(script)]) == 0
    assert capsys.readouterr().out == "job.batch/relevit-x7\n"
    given = json.loads((folder / "given").read_text())
    assert given["kind"] == "Job" and given["metadata"] == {"generateName": "relevit-"}
    (container,) = given["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_submission_that_is_refused_is_an_error(kubectl, tmp_path, capsys):
    kubectl("", code=1)
    script = tmp_path / "stage.sh"
    script.write_text(SCRIPT.replace("{}", json.dumps(STAGE)))
    assert pods.main(["submit", str(TEMPLATE), str(script)]) == 1
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    ("answer", "code", "word"),
    [
        (job(), 0, "running"),
        ("{}", 0, "running"),
        (job(("Complete", "True")), 0, "success"),
        (job(("SuccessCriteriaMet", "True"), ("Complete", "True")), 0, "success"),
        (job(("Failed", "True")), 0, "failed"),
        (job(("Failed", "False")), 0, "running"),
        ("", 0, "failed"),  # somebody deleted it
        ("", 1, "running"),  # the cluster did not answer
    ],
)
def test_status_is_one_of_snakemakes_words(kubectl, capsys, answer, code, word):
    folder = kubectl(answer, code)
    assert pods.main(["status", "job.batch/relevit-x7"]) == 0
    assert capsys.readouterr().out == f"{word}\n"
    assert "get job.batch/relevit-x7 --ignore-not-found" in (folder / "arguments").read_text()


def test_cancel_ends_all(kubectl):
    folder = kubectl("")
    assert pods.main(["cancel", "job.batch/a", "job.batch/b"]) == 0
    assert (folder / "arguments").read_text().startswith("delete job.batch/a job.batch/b ")

"""The pipeline on a real Slurm of one node: it is killed and cut off, and leaves no job behind."""

import getpass
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import psutil
import pytest
import yaml

from pipeline.projects import PRESET, ROOT, copy_project, edit, results
from reproduction.pipeline.run import STOPPED

from .slurm import Node, missing, node
from .test_runs import wait_for, working_in

STAGES = ("00_start", "01_masks")
GONE_S, WAIT_S = 120.0, 900.0  # on a slow and busy machine

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=f"needs a real Slurm: {missing()} not installed"),
    pytest.mark.timeout(3600),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Node]:
    """With accounting, where that is installed."""
    with node(tmp_path_factory.mktemp("slurm"), accounting=not missing(True)) as one:
        yield one


@pytest.fixture
def project(tmp_path) -> Iterator[Path]:
    project = copy_project(tmp_path / "project")
    edit(project, "pipeline", disk_mb=1, notebooks=list(STAGES))
    fill_in(project)
    yield project
    for left in working_in(project):  # of a test that failed
        left.terminate()


def fill_in(project: Path, **asked: object) -> None:
    """The shipped profile, for a small node; `asked` of each job."""
    profile = yaml.safe_load((ROOT / "profiles" / "slurm" / "config.yaml").read_text())
    jobs = {"slurm_partition": "gpu", "gpu": 1, "mem_mb": 500, "runtime": 30} | asked
    profile |= {"jobs": 4, "cores": 1, "max-threads": 1, "latency-wait": 5, "restart-times": 1}
    profile |= {"default-resources": {key: value for key, value in jobs.items() if value}}
    (project / "mine").mkdir(exist_ok=True)
    (project / "mine" / "config.yaml").write_text(yaml.safe_dump(profile))


def start(cluster: Node, project: Path, stage_s: float, inside=(), **variables: str):
    """The pipeline as a user starts it; its stages do nothing for so many seconds."""
    stage = f"{sys.executable} -S {ROOT / 'tests' / 'hard' / 'stage.py'}"
    own = {"RELEVIT_START": stage, "STAGE_S": str(stage_s)}
    command = [sys.executable, "-m", "reproduction.pipeline.run", PRESET, "--profile", "mine"]
    with (project / "said").open("ab") as said:
        how = {"stdout": said, "stderr": said, "start_new_session": True}
        environment = cluster.environment | own | variables
        return subprocess.Popen([*inside, *command], cwd=project, env=environment, **how)


def said(project: Path) -> str:
    log = results(project) / "run.log"
    return (project / "said").read_text() + (log.read_text() if log.is_file() else "")


def noted(project: Path, what: str) -> list[str]:
    """The stages that have begun or ended, each time."""
    path = project / "noted"
    rows = [line.split() for line in path.read_text().splitlines()] if path.is_file() else []
    return [row[1] for row in rows if row[0] == what]


def queued(cluster: Node, project: Path | None = None) -> list[str]:
    return cluster.ask("squeue", "--noheader", "--format=%A").split()


def told(project: Path) -> list[tuple]:
    """The processes that still work in a project, and whose they are."""
    found = []
    for process in working_in(project):
        with suppress(psutil.Error):
            found.append((process.cmdline(), [parent.name() for parent in process.parents()]))
    return found


def soon(true, seconds: float = GONE_S) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.2)
    return true()


def begun(cluster: Node, project: Path) -> bool:
    return bool(noted(project, "begins"))


def pipeline_and_all(process: subprocess.Popen) -> None:
    """As when its machine crashes: nobody is left to end the jobs."""
    below = psutil.Process(process.pid).children(recursive=True)
    for each in (process.pid, *(child.pid for child in below)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def test_no_job_is_left_of_a_run_that_is_stopped_anyhow_and_it_goes_on(cluster, project):
    """Also where a script started it in the background, where Ctrl-C is ignored."""
    background = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
    for how, moment in product((signal.SIGKILL, signal.SIGTERM), (queued, begun)):
        (project / "noted").unlink(missing_ok=True)
        process = start(cluster, project, 600, background)
        wait_for(process, lambda moment=moment: moment(cluster, project))
        process.send_signal(how)
        assert process.wait(GONE_S) == (STOPPED if how == signal.SIGTERM else -how), said(project)
        assert soon(lambda: not queued(cluster)), (how, moment)
        assert soon(lambda: not working_in(project)), told(project)

    (project / "noted").unlink(missing_ok=True)
    as_a_job = ("srun", "--partition=gpu", "--mem=500", "--job-name=pipeline")
    process = start(cluster, project, 600, as_a_job)
    wait_for(process, lambda: begun(cluster, project))
    assert process.poll() is None, said(project)
    cluster.ask("scancel", "--name=pipeline")
    process.wait(GONE_S)
    assert soon(lambda: not queued(cluster))

    (project / "noted").unlink(missing_ok=True)
    process = start(cluster, project, 600)
    wait_for(process, lambda: begun(cluster, project))
    pipeline_and_all(process)
    assert queued(cluster) and start(cluster, project, 0).wait(WAIT_S) == 2
    last = (project / "said").read_text().splitlines()[-1]
    assert "jobs of an earlier call are queued or run: " in last and "00_start" in last
    cluster.ask(*re.search(r"scancel [\d ]+\d", last)[0].split())
    assert soon(lambda: not queued(cluster))

    assert start(cluster, project, 0).wait(WAIT_S) == 0, said(project)
    assert sorted(noted(project, "ends")) == [*STAGES], "each once"
    rows = [line.split() for line in (project / "noted").read_text().splitlines()]
    assert {tuple(row[3:]) for row in rows} == {("1", "1")}, "a job has the cores it asked for"
    assert queued(cluster) == []


def test_what_is_cut_off_is_made_again_and_an_absent_controller_waited_for(cluster, project):
    process = start(cluster, project, 20)
    wait_for(process, lambda: set(noted(project, "begins")) == {*STAGES})
    cluster.ask("scancel", queued(cluster)[0])
    servers = [name for name in ("slurmctld", "slurmdbd") if name in cluster.servers]
    for name in servers:
        cluster.end(name)
    time.sleep(60)
    for name in reversed(servers):
        cluster.start(name)
    assert process.wait(WAIT_S) == 0, said(project)
    assert sorted(noted(project, "ends")) == [*STAGES]
    assert len(noted(project, "begins")) == len(STAGES) + 1


def test_a_full_queue_is_waited_for(cluster, project):
    if "slurmdbd" not in cluster.servers:
        pytest.skip(f"needs accounting: {missing(True)} not installed")
    user = ("sacctmgr", "--immediate", "modify", "user", getpass.getuser(), "set")
    cluster.ask(*user, "MaxSubmitJobs=1")
    try:
        assert start(cluster, project, 0).wait(WAIT_S) == 0, said(project)
    finally:
        cluster.ask(*user, "MaxSubmitJobs=-1")
    assert re.search(r"Waiting to submit rule_0\w+: .*MaxSubmitJob", said(project))
    assert sorted(noted(project, "begins")) == [*STAGES], "no try is used up"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"slurm_partition": "night"}, "invalid partition specified: night"),
        ({"slurm_partition": None}, "Its partitions: gpu (up to 1-00:00:00)"),
        ({"runtime": 3000}, "Requested time limit is invalid"),
        ({"gpu": 3}, "Requested node configuration is not available"),
        ({"mem_mb": 900000}, "Requested node configuration is not available"),
    ],
)
def test_what_slurm_would_never_run_is_refused_before_any_work(cluster, project, asked, words):
    fill_in(project, **asked)
    assert start(cluster, project, 0).wait(GONE_S) == 2
    (line,) = (project / "said").read_text().splitlines()
    assert line.startswith("error: profile: ") and words in line
    assert not results(project).exists()


def test_a_job_that_fails_says_why_on_the_screen(cluster, project):
    fill_in(project, runtime=1)
    process = start(cluster, project, 600)
    assert process.wait(WAIT_S) == 1
    text = (project / "said").read_text()
    assert re.search(r"(?m)^Failed: 0\w+: TIMEOUT as job \d+ of Slurm: .*DUE TO TIME LIMIT", text)
    process = start(cluster, project, 0, RELEVIT_START="/not/here/python")
    assert process.wait(WAIT_S) == 1
    text = (project / "said").read_text()
    assert re.search(r"Failed: 0\w+: FAILED as job \d+ of Slurm: .*/not/here/python: No such", text)

"""One run at a time on a preset, and a run that is stopped in any way leaves nothing running."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from reproduction.pipeline import run as pipeline
from reproduction.pipeline.progress import LOG

from .projects import ROOT

SMALL = "small"
STOPPED_S = 5.0  # for all to be gone
PATIENCE_S = 60.0  # on a busy machine, for what must come
LINE = "Stopped. Results so far are kept: the same command goes on."
# The first stage waits for a file, beside a child that hears no SIGTERM.
SNAKEFILE = """
rule all:
    input: "outputs/small/second"
rule first:
    message: "first: waits"
    output: "outputs/small/first"
    shell: "(trap '' TERM; sleep 300) & echo $$ $! > pids; "
        "until test -e go; do sleep 0.1; done; kill -9 $!; touch {output}"
rule second:
    message: "second: is made"
    input: "outputs/small/first"
    output: "outputs/small/second"
    shell: "touch {output}"
"""
# The pipeline on that, without what takes long and is tested elsewhere.
DRIVER = """
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
import reproduction.pipeline
from reproduction.pipeline import run
of_pipeline = SimpleNamespace(gpu_mb=1, runs_alone=False)
preset = SimpleNamespace(
    path=Path("params/small.yaml"), stages={"second": None}, pipeline=of_pipeline
)
run.check = lambda name, stages: preset
run._gpus = lambda: 0
run._drawing = lambda *given: nullcontext()
run.forked.server = lambda *given: nullcontext(dict)
run.check_devices = run.fetch = lambda preset: None
nothing = lambda *given, **how: {}
calls = ('unmake_failed', 'write_plan', 'failures')
reproduction.pipeline.plan = SimpleNamespace(**dict.fromkeys(calls, nothing))
sys.exit(run.main(["small", *sys.argv[1:]]))
"""
HOLDER = """
import sys, time
from reproduction.pipeline.lock import held
with held("small"):
    print("held", flush=True)
    time.sleep(300)
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs groups of processes")


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    """A project of two stages that compute nothing."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / f"{SMALL}.yaml").touch()
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(code: str, *arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    hears = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a background job has it ignored
    return subprocess.Popen(command, text=True, preexec_fn=hears, **pipes, **options)


def soon(true, patience_s: float = PATIENCE_S) -> bool:
    until = time.monotonic() + patience_s
    while not (answer := true()) and time.monotonic() < until:
        time.sleep(0.05)
    return answer


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def planned(monkeypatch) -> list[str]:
    """Presets whose runs got past the lock; none is run."""
    seen = []
    monkeypatch.setattr(pipeline, "check", lambda name, stages: name)
    monkeypatch.setattr(pipeline, "_run", lambda name, *rest: seen.append(name) or 0)
    return seen


def test_second_run_is_refused_until_the_first_is_gone(small, planned, capsys):
    holder = start(HOLDER)
    try:
        assert holder.stdout.readline() == "held\n"
        assert pipeline.main([SMALL]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: pipeline: preset 'small' is being run by process ")
        assert f" process {holder.pid} on " in line and " since 20" in line
        assert line.endswith("; wait until that is done, or end that process first")
        assert pipeline.main(["another"]) == 0, "its results are others"
    finally:
        holder.kill()
        holder.communicate()
    assert pipeline.main([SMALL]) == 0, "a killed owner holds nothing"
    assert planned == ["another", SMALL]
    assert {path.name for path in small.iterdir()} <= {
        *("notebooks", "params", "Snakefile", "outputs", ".snakemake")
    }


def test_half_written_files_of_killed_runs_are_cleared(tmp_path):
    younger, older = (tmp_path / f".{name}.npz.7.tmp" for name in ("younger", "older"))
    for path in (younger, older):
        path.touch()
    now = time.time()
    os.utime(older, (now - 60, now - 60))
    (tmp_path / "runs" / "tokens").mkdir(parents=True)
    pipeline._clear_left(tmp_path, now - 30)
    (tmp_path / "runs").rmdir()  # which is empty
    assert {path.name for path in tmp_path.rglob("*")} == {younger.name}


def test_what_went_wrong_is_shown(small):
    (small / "go").touch()
    path = small / "Snakefile"
    before, _, after = path.read_text().rpartition("touch {output}")
    path.write_text(f"{before}echo no such thing >&2; exit 1{after}")
    run = start(DRIVER)
    out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 1 and "no such thing" in err and "Traceback" not in err
    assert f"All that was said: {small / 'outputs' / SMALL / LOG}" in out


@pytest.fixture
def running(small):
    """A run in its first stage, in a group of its own as a terminal's."""
    run = start(DRIVER, start_new_session=True)
    pids = small / "pids"
    began = soon(lambda: pids.is_file() and pids.read_text().strip())
    started = psutil.Process(run.pid).children(recursive=True)
    if began:
        yield run
    for process in [*started, run]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    run.communicate()


def stages_of(small: Path) -> list[int]:
    return [int(pid) for pid in (small / "pids").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_what_a_run_has_started_ends_with_it(small, running, number):
    started = psutil.Process(running.pid).children(recursive=True)
    assert {process.pid for process in started} >= set(stages_of(small))
    asked = time.monotonic()
    if number == signal.SIGINT:
        os.killpg(running.pid, number)  # as a terminal sends it
    else:
        running.send_signal(number)
    out, err = running.communicate(timeout=STOPPED_S)
    assert soon(lambda: not any(lives(process.pid) for process in started), STOPPED_S)
    assert time.monotonic() - asked < STOPPED_S
    assert not (small / "outputs" / SMALL / "second").exists()
    if number != signal.SIGKILL:
        assert running.returncode == pipeline.STOPPED
        assert err.splitlines()[-1] == LINE
    assert "Traceback" not in out + err


def test_same_command_goes_on_after_a_run_that_was_killed(small, running):
    """Whatever it has left: Snakemake's own lock, too."""
    running.kill()
    assert soon(lambda: not any(map(lives, stages_of(small))), STOPPED_S)
    left = small / ".snakemake" / "locks"
    left.mkdir(parents=True, exist_ok=True)
    (left / "0.output.lock").write_text("outputs/small/first\noutputs/small/second\n")
    (small / "go").touch()
    again = start(DRIVER)
    out, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, out + err
    assert (small / "outputs" / SMALL / "second").is_file()
    assert [line[-len("1 of 2 jobs done") :] for line in err.splitlines()] == [
        "1 of 2 jobs done", "2 of 2 jobs done"
    ]  # fmt: skip


FULL = """
rule all:
    input: "outputs/small/second"
rule second:
    message: "second: needs memory"
    output: "outputs/small/second"
    shell: "echo x >> tries; test `wc -l < tries` = {enough} && touch {{output}} || "
        "(echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate'; false)"
"""


@pytest.mark.parametrize(("enough", "code"), [(2, 0), (3, 1)])
def test_a_stage_without_memory_on_the_gpu_is_tried_once_alone(small, enough, code):
    (small / "Snakefile").write_text(FULL.format(enough=enough))
    out, err = (run := start(DRIVER, "--jobs", "4")).communicate(timeout=2 * PATIENCE_S)
    assert run.returncode == code, out + err
    assert (small / "tries").read_text() == "x\n" * 2
    assert f"{pipeline.FULL_GPU}; what is left has it alone" in err
    assert (f"{pipeline.FULL_GPU} alone, too: " in err) == bool(code)


def test_what_is_on_a_cluster_can_be_taken_back(tmp_path):
    """What is to be done last is done when the caller, or the command, is killed."""
    code = "import pathlib, time; pathlib.Path('on').touch(); time.sleep(300)"
    caller = (
        "import sys\nfrom reproduction.pipeline.children import call\n"
        "call([sys.executable, '-c', sys.argv[1]], last=['touch', 'cancelled'])"
    )
    calling = start(caller, code, cwd=tmp_path)
    assert soon((tmp_path / "on").is_file)
    calling.kill()
    calling.communicate()
    assert soon((tmp_path / "cancelled").is_file, STOPPED_S)


def test_stages_find_their_programs_without_a_path(small, monkeypatch):
    (small / "Snakefile").write_text("rule all:\n    output: 'done'\n    shell: 'env > {output}'\n")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("PATH")
    done = pipeline.snakemake(SMALL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = (small / "done").read_text().splitlines()
    assert f"PATH={Path(sys.executable).parent}{os.pathsep}{os.defpath}" in lines
    makefile = (ROOT / "Makefile").read_text()
    for name, value in pipeline.WAITING.items():
        assert f"{name}={value}" in lines and f"export {name} ?= {value}" in makefile

"""Forked stages: exit codes, what ends with what, and the same bytes as in a new process."""

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import nbformat
import psutil
import pytest

from reproduction.pipeline.machine import forked

START_S = 300  # to load everything on a busy machine
OURS = {"python", "jemalloc_bg_thd"}  # threads that fork knows of
SEEN = """
import hashlib, os, torch
from tqdm.auto import tqdm
torch.manual_seed(0)
made = torch.linalg.svd(torch.randn(200, 200))[0] @ torch.randn(200, 90)
print(hashlib.sha256(made.numpy().tobytes()).hexdigest(), torch.get_num_threads())
print(torch.cuda.is_initialized(), tqdm.__mro__, os.getcwd())
print([os.environ.get(name) for name in ("TOLD", "MPLBACKEND", "PYTORCH_NVML_BASED_CUDA_CHECK")])
"""

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone"),
    pytest.mark.timeout(2 * START_S),
]


@pytest.fixture(scope="module")
def server():
    """The process that forks, and the words before -m."""
    before = {*psutil.Process().children()}
    with forked.server(dict(os.environ)) as ready:
        start = shlex.split(ready()[forked.START])
        (process,) = {*psutil.Process().children()} - before
        yield process, start
    assert not process.is_running() and not Path(start[-1]).parent.exists()


def run(
    start: list[str], *words: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    how = {"capture_output": True, "text": True, "timeout": START_S, "cwd": cwd}
    return subprocess.run([*start, "-m", *words], env=os.environ | variables, **how)


def seen(start: list[str], folder: Path, threads: str) -> list[str]:
    """What a process sees of itself and computes."""
    (folder / "seen.py").write_text(SEEN)
    code = f"exec(open({str(folder / 'seen.py')!r}).read(), {{}})"
    done = run(start, "timeit", "-n1", "-r1", code, OMP_NUM_THREADS=threads, TOLD="yes")
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()[:-1]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_what_is_forked_is_like_a_new_process(server, tmp_path, threads):
    assert seen(server[1], tmp_path, threads) == seen([sys.executable], tmp_path, threads)


CELLS = [
    "import pandas as pd, matplotlib.pyplot as plt, torch\nfrom tqdm.auto import tqdm",
    "pd.DataFrame([range(1000, 1030)] * 70)",
    "plt.plot([1, 2]); plt.show(); tqdm.__mro__, torch.get_num_threads()",
    "import os, sys\nsys.path[1:], os.getcwd(), __name__, plt.get_backend()",
    "[pd.get_option(f'display.{name}') for name in ('max_columns', 'max_rows', 'width')]",
]


def test_a_notebook_is_like_one_in_a_new_process(server, tmp_path):
    """Packages that look for a notebook while they are loaded find one."""
    cells = [nbformat.v4.new_code_cell(text, id=f"cell{n}") for n, text in enumerate(CELLS)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "asked.ipynb")
    told = []
    for start in (server[1], [sys.executable]):
        words = ("papermill", "asked.ipynb", "made.ipynb", "--engine", "relevit", "-k", "python3")
        variables = {forked.START: shlex.join(start), "OMP_NUM_THREADS": "1"}
        done = run(start, *words, cwd=tmp_path, **variables)
        assert done.returncode == 0 and "loads everything" not in done.stderr, done.stderr
        made = nbformat.read(tmp_path / "made.ipynb", as_version=4)
        told.append([cell.outputs for cell in made.cells])
    assert told[0] == told[1] and all(told[0][1:])


def test_the_server_has_no_thread_that_a_fork_would_lose(server):
    tasks = Path(f"/proc/{server[0].pid}/task").glob("*/comm")
    assert {"python"} <= {path.read_text().strip() for path in tasks} <= OURS


@pytest.mark.parametrize(
    ("code", "ends"),
    [("pass", 0), ("raise SystemExit(3)", 3), ("raise SystemExit('no')", 1), ("1 / 0", 1)]
    + [(f"import os; os.kill(os.getpid(), {int(number)})", 128 + number) for number in (9, 15)],
)
def test_exit_codes_are_those_of_a_process(server, tmp_path, code, ends):
    (tmp_path / "told.py").write_text(code)
    done = run(server[1], "told", cwd=tmp_path)
    assert done.returncode == ends and "loads everything" not in done.stderr
    assert ("ZeroDivisionError" in done.stderr) == ("/" in code)
    assert done.stderr.strip() == "no" or "no" not in code


@pytest.mark.parametrize("between", [[], ["sh", "-c", '"$@"; :', "sh"]], ids=["client", "caller"])
def test_a_job_ends_with_its_client_and_that_with_its_caller(server, between):
    job = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"
    command = [*between, *server[1], "-m", "timeit", "-n1", "-r1", job]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        there = psutil.Process(int(client.stdout.readline()))
        client.send_signal(signal.SIGKILL)
    with suppress(psutil.NoSuchProcess):
        there.wait(30)
    assert not there.is_running()


def test_without_a_server_a_stage_is_a_process_of_its_own(tmp_path):
    (tmp_path / "told.py").write_text("raise SystemExit(7)")
    start = [sys.executable, "-I", "-S", forked.__file__, str(tmp_path / "s")]
    done = run(start, "told", cwd=tmp_path)
    assert done.returncode == 7 and done.stderr.startswith("This stage loads everything itself (")


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        ("raise OSError('driver')", "driver"),
        ("os._exit(1)", "a forked process cannot open the GPU"),
    ],
)
def test_a_driver_that_fails_in_a_fork_is_told_in_a_sentence(fails, says):
    code = (
        f"import os\nfrom reproduction.pipeline.machine import forked\ndef work():\n    {fails}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + "print(forked._in_a_fork(work))"],
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == says, done.stderr


def test_where_none_loads_it_is_said_once_and_stages_start_plainly(monkeypatch, capsys):
    monkeypatch.setattr(forked, "__name__", "reproduction.pipeline.nothing")
    with forked.server(dict(os.environ)) as ready:
        assert ready() == {}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Stages start one by one, which takes longer: ")


def test_elsewhere_than_on_linux_nothing_is_forked(monkeypatch):
    monkeypatch.setattr(forked.sys, "platform", "darwin")
    with forked.server({}) as ready:
        assert ready() == {}


def test_a_server_ends_with_whoever_started_it(tmp_path):
    code = "import os, time\nfrom reproduction.pipeline.machine import forked\n"
    code += "with forked.server(dict(os.environ)) as ready:\n"
    code += "    print(ready(), flush=True)\n    time.sleep(300)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as one:
        path = Path(shlex.split(eval(one.stdout.readline())[forked.START])[-1])
        (process,) = psutil.Process(one.pid).children()
        one.kill()
    until = time.monotonic() + 30
    while process.is_running() and time.monotonic() < until:
        time.sleep(0.05)
    assert not process.is_running() and not path.parent.exists()

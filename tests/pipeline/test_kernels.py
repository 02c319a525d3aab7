"""Kernels of stages side by side: loaded ahead, and on sockets of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import papermill
import psutil
import pytest
from jupyter_client import KernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from nbformat.v4 import new_code_cell, new_notebook
from papermill.engines import NBClientEngine, papermill_engines

from relevit.pipeline import kernels
from relevit.pipeline.kernels import LONGEST_FOLDER, PROVISIONER, LocalEngine

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and pidfd")
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
SOURCE = """\
import os, sys
loaded = sorted({"torch", "timm", "pandas"} & set(sys.modules))
import matplotlib.pyplot as plt, torch
plt.plot([1, 2])
print(os.getpid(), torch.get_num_threads(), os.environ.get("RELEVIT_MARK"), *loaded)
"""

LOGGED = """\
import logging
log, shown = logging.getLogger("IPKernelApp"), logging.Handler("ERROR")
shown.emit = lambda record: print(record.getMessage())
log.addHandler(shown)
log.error("KeyboardInterrupt caught in kernel.")
log.error("a real error")
"""


@pytest.fixture(scope="module")
def warm():
    """One server for all tests, as the environment that asks for its kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(PROVISIONER, raising=False)
        with kernels.warm_kernels() as environment:
            yield environment


@pytest.fixture(autouse=True)
def _unread_environment():
    """jupyter_client reads the environment once, perhaps in another module's test."""
    KernelProvisionerFactory.clear_instance()
    yield
    KernelProvisionerFactory.clear_instance()


@pytest.fixture
def asked(warm, monkeypatch):
    for name, value in warm.items():
        monkeypatch.setenv(name, value)
    return warm


def start() -> KernelManager:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=os.environ.copy())
    return manager


def execute(
    folder: Path, *cells: nbformat.NotebookNode, **parameters: int
) -> nbformat.NotebookNode:
    """Run a notebook of these cells as the pipeline does."""
    nbformat.write(new_notebook(cells=cells, metadata=KERNEL), folder / "in.ipynb")
    return papermill.execute_notebook(
        folder / "in.ipynb",
        folder / "out.ipynb",
        parameters,
        engine_name="relevit",
        progress_bar=False,
    )


def gone(pid: int, patience_s: float = 20.0) -> bool:
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False


# Loaded ahead


@on_linux
def test_a_notebook_finds_the_libraries_loaded_and_shows_its_pictures(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("RELEVIT_MARK", "here")
    outputs = execute(tmp_path, new_code_cell(SOURCE)).cells[0].outputs
    pid, *told = next(o.text for o in outputs if o.output_type == "stream").split()
    assert told == ["1", "here", "pandas", "timm", "torch"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert gone(int(pid)), "the kernel outlived its notebook"


@on_linux
def test_an_interrupt_as_a_notebook_ends_is_not_told_as_an_error(asked, tmp_path):
    outputs = execute(tmp_path, new_code_cell(LOGGED)).cells[0].outputs
    assert [output.text for output in outputs] == ["a real error\n"]


@on_linux
def test_a_kernel_can_be_interrupted_and_killed(asked):
    manager = start()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    kernel = manager.provisioner.process
    assert isinstance(kernel, kernels.WarmKernel) and kernel.poll() is None
    asking = client.execute("import time; time.sleep(60)")
    time.sleep(1)
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=30))["parent_header"]["msg_id"] != asking:
        pass
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    assert gone(kernel.pid) and not manager.is_alive()


@on_linux
def test_a_kernel_ends_with_the_notebook_that_was_killed(warm):
    code = (
        "from jupyter_client import KernelManager; import time\n"
        "m = KernelManager(kernel_name='python3'); m.start_kernel()\n"
        "print(m.provisioner.process.pid, flush=True); time.sleep(60)"
    )
    asking = subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | warm, stdout=subprocess.PIPE, text=True
    )
    pid = int(asking.stdout.readline())
    assert psutil.pid_exists(pid)
    os.kill(asking.pid, signal.SIGKILL)
    asking.wait()
    assert gone(pid)


@on_linux
def test_without_the_process_kernels_start_as_always(warm, monkeypatch, tmp_path):
    monkeypatch.setenv(PROVISIONER, kernels.NAME)
    monkeypatch.setenv(kernels.SOCKET, str(tmp_path / "nobody"))
    manager = start()
    assert isinstance(manager.provisioner, kernels.WarmProvisioner), "it was asked"
    assert isinstance(manager.provisioner.process, subprocess.Popen)
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "command",
    [["R", "--slave", "-e", "IRkernel::main()"], [sys.executable, "-m", "xpython_launcher"]],
)
@on_linux
def test_kernels_of_other_kinds_are_left_alone(asked, command):
    assert kernels._fork([*command, "-f", "file"], {}) is None


@on_linux
def test_a_request_that_makes_no_sense_harms_nobody(asked):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(asked[kernels.SOCKET])
        connection.sendall(b"{}\n")
        assert connection.recv(10) == b""
    manager = start()
    assert isinstance(manager.provisioner.process, kernels.WarmKernel)
    manager.shutdown_kernel(now=True)


@on_linux
def test_the_process_ends_with_a_pipeline_that_was_killed():
    code = (
        "from relevit.pipeline.kernels import warm_kernels\nimport os, time\n"
        "with warm_kernels() as environment:\n"
        "    print(environment['RELEVIT_WARM_KERNELS'], flush=True); time.sleep(60)"
    )
    environment = {k: v for k, v in os.environ.items() if k != PROVISIONER}
    pipeline = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    path = pipeline.stdout.readline().strip()
    (server,) = psutil.Process(pipeline.pid).children()
    os.kill(pipeline.pid, signal.SIGKILL)
    pipeline.wait()
    assert gone(server.pid, patience_s=60)
    assert not Path(path).parent.exists(), "temporary files are left"


@on_linux
def test_temporary_files_of_stages_go_with_the_process():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(PROVISIONER, raising=False)
        with kernels.warm_kernels() as environment:
            folder = Path(environment["TMPDIR"])
            assert environment["JUPYTER_RUNTIME_DIR"] == str(folder)
            (folder / "of_a_stage").mkdir()
            (folder / "of_a_stage" / "file").touch()
    assert not folder.exists()


@on_linux
def test_those_with_a_provisioner_of_their_own_keep_it(monkeypatch):
    monkeypatch.setenv(PROVISIONER, "theirs")
    with kernels.warm_kernels() as environment:
        assert environment == {}


@on_linux
def test_no_module_that_is_loaded_ahead_opens_the_display_of_pictures():
    code = (
        "import sys\nfrom importlib import import_module\n"
        "from relevit.pipeline.kernels import LOADED\n"
        "for name in LOADED: import_module(name)\n"
        "print('matplotlib_inline.backend_inline' in sys.modules)"
    )
    environment = os.environ | {"MPLBACKEND": kernels.BACKEND}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


# Sockets of their own


@pytest.fixture
def options(monkeypatch):
    """What papermill's own engine is asked for, call by call, instead of running anything."""
    calls = []

    def note(cls, nb, kernel_name, **options):
        calls.append(options)
        return new_notebook()

    monkeypatch.setattr(NBClientEngine, "execute_notebook", classmethod(note))
    return calls


def test_papermill_knows_the_engine_by_name():
    assert papermill_engines.get_engine("relevit") is LocalEngine


def test_every_kernel_gets_sockets_in_files_of_its_own(options, monkeypatch, tmp_path):
    short = tmp_path / "run"
    monkeypatch.setattr(kernels, "LONGEST_FOLDER", len(str(short)))
    monkeypatch.setattr(kernels, "jupyter_runtime_dir", lambda: str(short))
    for _ in range(2):
        LocalEngine.execute_notebook(None, "python3", log_output=True)
    managers = [call["config"].KernelManager for call in options]
    assert {manager.transport for manager in managers} == {"ipc"}
    files = [Path(manager.connection_file) for manager in managers]
    assert {file.parent for file in files} == {short} and short.is_dir()
    assert len(set(files)) == 2
    assert all(call["log_output"] is True for call in options)


def test_long_folder_has_no_room_for_the_name_of_a_socket(options, monkeypatch):
    monkeypatch.setattr(kernels, "jupyter_runtime_dir", lambda: "/" + "x" * LONGEST_FOLDER)
    LocalEngine.execute_notebook(None, "python3")
    assert options[0]["config"] == {}


def test_notebook_runs_takes_its_parameters_and_leaves_no_socket(tmp_path, monkeypatch):
    runtime = Path(tempfile.mkdtemp(prefix="run"))  # pytest's folders have long names
    monkeypatch.setattr(kernels, "jupyter_runtime_dir", lambda: str(runtime))
    given = new_code_cell("number = 1", metadata={"tags": ["parameters"]})
    done = execute(tmp_path, given, new_code_cell("print(number)"), number=7)
    assert done.cells[-1].outputs[0].text == "7\n"
    assert list(runtime.iterdir()) == []
    runtime.rmdir()


# The same bytes

CHANCE = """\
import time, warnings
import pandas as pd
from ipywidgets import IntSlider
from IPython.display import HTML, display
from tqdm import tqdm
for step in tqdm(range(3), desc="steps"):
    time.sleep(time.time() % 0.1)
    print(step)
warnings.warn("of a cell", stacklevel=1)
frame = pd.DataFrame({"a": [1, 2]})
display(IntSlider(3), object(), frame.style.format("{:.1f}"), frame.style.hide())
"""


def test_two_runs_of_a_notebook_differ_in_papermills_times_alone(tmp_path):
    given = new_code_cell("number = 1", id="a", metadata={"tags": ["parameters"]})
    cells = [given, new_code_cell(CHANCE, id="b")]
    one, other = (execute(tmp_path, *cells, number=7) for _ in range(2))
    tables = [
        output.data.get("text/html", "") for output in one.cells[-1].outputs if "data" in output
    ]
    assert "T_00000" in tables[-2] and "T_00001" in tables[-1]
    for notebook in (one, other):
        for part in (notebook, *notebook.cells):
            del part.metadata["papermill"]
    assert nbformat.writes(one) == nbformat.writes(other)

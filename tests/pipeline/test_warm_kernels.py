"""Kernels that start with the libraries loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import papermill
import psutil
import pytest
from jupyter_client import KernelManager
from jupyter_client.provisioning import KernelProvisionerFactory

from relevit.pipeline import provisioner, warm_kernels

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and pidfd")
SOURCE = """\
import os, sys
loaded = sorted({"torch", "timm", "pandas"} & set(sys.modules))
import matplotlib.pyplot as plt, torch
plt.plot([1, 2])
print(os.getpid(), torch.get_num_threads(), os.environ.get("RELEVIT_MARK"), *loaded)
"""


@pytest.fixture(scope="module")
def warm():
    """One server for all tests, as the environment that asks for its kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JUPYTER_DEFAULT_PROVISIONER_NAME", raising=False)
        with warm_kernels.warm_kernels() as environment:
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


def start(monkeypatch, **variables: str) -> KernelManager:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=os.environ | variables)
    return manager


def gone(pid: int, patience_s: float = 20.0) -> bool:
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False


def test_a_notebook_finds_the_libraries_loaded_and_shows_its_pictures(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("RELEVIT_MARK", "here")
    path = tmp_path / "in.ipynb"
    cell = nbformat.v4.new_code_cell(SOURCE)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=kernel), path)
    done = papermill.execute_notebook(
        path, tmp_path / "out.ipynb", engine_name="relevit", progress_bar=False
    )
    outputs = done.cells[0].outputs
    pid, *told = next(o.text for o in outputs if o.output_type == "stream").split()
    assert told == ["1", "here", "pandas", "timm", "torch"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert gone(int(pid)), "the kernel outlived its notebook"


def test_a_kernel_can_be_interrupted_and_killed(asked, monkeypatch):
    manager = start(monkeypatch)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    kernel = manager.provisioner.process
    assert isinstance(kernel, provisioner.WarmKernel) and kernel.poll() is None
    asking = client.execute("import time; time.sleep(60)")
    time.sleep(1)
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=30))["parent_header"]["msg_id"] != asking:
        pass
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    assert gone(kernel.pid) and not manager.is_alive()


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


def test_without_the_process_kernels_start_as_always(warm, monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", warm_kernels.NAME)
    monkeypatch.setenv(warm_kernels.SOCKET, str(tmp_path / "nobody"))
    manager = start(monkeypatch)
    assert isinstance(manager.provisioner, provisioner.WarmProvisioner), "it was asked"
    assert isinstance(manager.provisioner.process, subprocess.Popen)
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "command",
    [["R", "--slave", "-e", "IRkernel::main()"], [sys.executable, "-m", "xpython_launcher"]],
)
def test_kernels_of_other_kinds_are_left_alone(asked, command):
    assert provisioner._fork([*command, "-f", "file"], {}) is None


def test_a_request_that_makes_no_sense_harms_nobody(asked, monkeypatch):
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(asked[warm_kernels.SOCKET])
        connection.sendall(b"{}\n")
        assert connection.recv(10) == b""
    manager = start(monkeypatch)
    assert isinstance(manager.provisioner.process, provisioner.WarmKernel)
    manager.shutdown_kernel(now=True)


def test_the_process_ends_with_a_pipeline_that_was_killed():
    code = (
        "from relevit.pipeline.warm_kernels import warm_kernels\nimport os, time\n"
        "with warm_kernels() as environment:\n"
        "    print(environment['RELEVIT_WARM_KERNELS'], flush=True); time.sleep(60)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "JUPYTER_DEFAULT_PROVISIONER_NAME"}
    pipeline = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    path = pipeline.stdout.readline().strip()
    (server,) = psutil.Process(pipeline.pid).children()
    os.kill(pipeline.pid, signal.SIGKILL)
    pipeline.wait()
    assert gone(server.pid, patience_s=60)
    Path(path).unlink(missing_ok=True)


def test_those_with_a_provisioner_of_their_own_keep_it(monkeypatch):
    monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", "theirs")
    with warm_kernels.warm_kernels() as environment:
        assert environment == {}


def test_no_module_that_is_loaded_ahead_opens_the_display_of_pictures():
    code = (
        "import sys\nfrom importlib import import_module\n"
        "from relevit.pipeline.warm_kernels import LOADED\n"
        "for name in LOADED: import_module(name)\n"
        "print('matplotlib_inline.backend_inline' in sys.modules)"
    )
    environment = os.environ | {"MPLBACKEND": warm_kernels.BACKEND}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"

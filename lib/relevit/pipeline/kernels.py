"""Kernels for stages that run side by side: loaded ahead, and on sockets of their own.

Loading torch and timm takes 5 to 10 seconds of a core, and a pipeline has a kernel for each of its
twenty to forty notebooks. So the pipeline keeps one process that loads them once, and pytest, where
it tests notebooks, another; a kernel is a fork of it. jupyter_client asks for one through
`WarmProvisioner`, so that papermill, nbval and the notebooks notice nothing. Linux only; elsewhere,
and where that process cannot be reached (another machine of a cluster), kernels start as always.

By default a kernel is given five TCP ports that were free a moment ago; two kernels that start
in the same instant can be given the same one, and a stage dies. Sockets in files have names of
their own. `papermill --engine relevit` asks for this; without it, all else is the same.

What this leans on that is no public interface, to look at first when an upgrade breaks it:

- jupyter_client: `LocalProvisioner` keeps its kernel as `process`, `pid` and `pgid`, and calls the
  methods of Popen that `WarmKernel` has; `launch_kernel` gets the command of the kernel's spec.
- ipykernel: a kernel is `kernelapp.launch_new_instance` with `sys.argv` set, and ends with the
  process named by `IPKernelApp.parent_handle`.
- papermill: an engine has the three functions of `LocalEngine` and hands `config` on to nbclient.
  papermill loads this module while it loads itself, so it is not imported before it is needed.
- Python: `atexit._run_exitfuncs` runs what a fork that ends by `os._exit` would leave out.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import LocalProvisioner
from jupyter_core.paths import jupyter_runtime_dir

NAME = "relevit-warm"  # of the entry point in pyproject.toml
SOCKET = "RELEVIT_WARM_KERNELS"
PROVISIONER = "JUPYTER_DEFAULT_PROVISIONER_NAME"  # jupyter_client's
BACKEND = "module://matplotlib_inline.backend_inline"  # what ipykernel sets before matplotlib loads
LAUNCHER = ["-m", "ipykernel_launcher"]
PATIENCE_S = 120.0  # for a slow disk that loads the libraries for the first time
LEAVING_S = 5.0  # for all that a killed pipeline has started to end
LONGEST_FOLDER = 75  # characters; a socket's path may have about 100, its name takes up to 25
# What nearly every notebook imports, and what relevit.plots does; not relevit.plots itself, since
# the notebook that first imports it must be the one that shows its pictures.
LOADED = (
    "ipykernel.ipkernel",
    "ipykernel.kernelapp",
    "matplotlib.pyplot",
    "networkx",
    "pandas",
    "seaborn",
    "timm",
    "torch",
    "relevit.evaluate.predictions",
    "relevit.finetune.runs",
    "relevit.iav",
)


@contextmanager
def warm_kernels() -> Iterator[dict[str, str]]:
    """Keep a process that kernels are forked from; yields the environment that asks for them.

    The process ends with the caller, even one that is killed, and its kernels with it. So does the
    folder for temporary files that the environment names. Where there is no fork, or for those who
    have set another provisioner, the environment is empty.
    """
    if not sys.platform.startswith("linux") or PROVISIONER in os.environ:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="relevit-", ignore_cleanup_errors=True) as folder:
        path = str(Path(folder) / "kernels")
        temporary = {"TMPDIR": folder, "JUPYTER_RUNTIME_DIR": folder}
        environment = os.environ | temporary | {"MPLBACKEND": BACKEND}
        with socket.socket(socket.AF_UNIX) as requests:
            requests.bind(path)
            requests.listen()  # from now on: they wait while the libraries load
            number = requests.fileno()
            command = [sys.executable, "-m", "relevit.pipeline.kernels", str(number)]
            server = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # it ends when nobody holds the other side
                env=environment,
                pass_fds=[number],
                start_new_session=True,  # the pipeline is what Ctrl-C stops
            )
        try:
            yield {PROVISIONER: NAME, SOCKET: path, **temporary}
        finally:
            server.stdin.close()
            server.terminate()  # while it loads the libraries it does not look
            server.wait()


# The process with the libraries


def serve(number: int) -> None:
    """Fork a kernel for each request on an inherited socket, until standard input ends."""
    server = socket.socket(fileno=number)
    for name in LOADED:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # kernels leave no zombies
    while True:
        ready, _, _ = select.select([server, sys.stdin], [], [])
        if server not in ready:
            _remove(Path(server.getsockname()).parent)
            return
        connection, _ = server.accept()
        with connection:
            request = connection.makefile().readline()
            if request and os.fork() == 0:
                server.close()
                _be_kernel(connection, request)


def _remove(folder: Path) -> None:
    """Remove a folder that kernels and stages may write to until they have ended as well."""
    until = time.monotonic() + LEAVING_S
    while folder.exists() and time.monotonic() < until:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.1)


def _be_kernel(connection: socket.socket, request: str) -> None:
    """Turn this fork into the kernel; never returns."""
    code = 1
    try:
        arguments, folder, environment = (
            json.loads(request)[key] for key in ("arguments", "folder", "environment")
        )
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update({k: v for k, v in environment.items() if k != "JPY_PARENT_PID"})
        _use_threads(environment.get("OMP_NUM_THREADS", ""))
        connection.sendall(f"{os.getpid()}\n".encode())
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        parent = f"--IPKernelApp.parent_handle={os.getppid()}"
        sys.argv = ["ipykernel_launcher", *arguments, parent]
        sys.path[:] = [entry for entry in sys.path if entry not in ("", os.getcwd())]
        from ipykernel import kernelapp

        logging.getLogger("IPKernelApp").addFilter(_no_interrupt)
        kernelapp.launch_new_instance()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


def _no_interrupt(record: logging.LogRecord) -> bool:
    """All but what reads like a failure in a run that is well.

    jupyter_client interrupts a kernel before it asks it to end. An idle kernel takes no notice; one
    that is about to become idle logs an error. Ctrl-C is told by the pipeline.
    """
    return "KeyboardInterrupt caught in kernel" not in record.getMessage()


def _use_threads(count: str) -> None:
    """As many as a new process would take from OMP_NUM_THREADS."""
    if count.isdecimal() and int(count):
        import torch
        from threadpoolctl import threadpool_limits

        torch.set_num_threads(int(count))
        threadpool_limits(int(count))


def _end_with(connection: socket.socket) -> None:
    """End at once when whoever asked for this kernel has gone."""
    try:
        connection.settimeout(None)
        connection.recv(1)
    finally:
        os._exit(1)


# Whoever asks for a kernel


class WarmProvisioner(LocalProvisioner):
    """Gives a notebook a forked kernel; a new process where that cannot be had."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        """Start the kernel; arguments and result as in jupyter_client."""
        warm = _fork(cmd, kwargs)
        if warm is None:
            return await super().launch_kernel(cmd, **kwargs)
        self.process, self.pid, self.pgid = warm, warm.pid, None
        return self.connection_info


class WarmKernel:
    """A kernel that is another process's child, with the few methods of Popen that are called."""

    stdin = stdout = stderr = None

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self._connection = connection  # the kernel ends when this side of it is gone
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return 0 if select.select([self._handle], [], [], 0)[0] else None

    def wait(self) -> int:
        select.select([self._handle], [], [])
        os.close(self._handle)
        self._connection.close()
        return 0

    def send_signal(self, number: int) -> None:
        signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def _fork(cmd: list[str], options: dict[str, Any]) -> WarmKernel | None:
    """Ask that process for a kernel; None when it is not there or the kernel is of another kind."""
    path = os.environ.get(SOCKET)
    if path is None or cmd[0] != sys.executable or cmd[1:3] != LAUNCHER:
        return None
    request = {
        "arguments": cmd[3:],
        "folder": os.path.abspath(options.get("cwd") or os.getcwd()),
        "environment": dict(options.get("env") or os.environ),
    }
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE_S)
    try:
        connection.connect(path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        return WarmKernel(connection, int(connection.makefile().readline()))
    except (OSError, ValueError):
        connection.close()
        return None


# papermill


def sockets_in_files() -> Any:
    """Configuration of nbclient that puts a kernel's sockets into files, where that works."""
    from traitlets.config import Config

    folder = Path(jupyter_runtime_dir())
    if os.name != "posix" or len(str(folder)) > LONGEST_FOLDER:
        return Config()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Without a name, all kernels of a folder would share one.
    name = str(folder / f"{uuid.uuid4().hex[:12]}.json")
    return Config({"KernelManager": {"transport": "ipc", "connection_file": name}})


class LocalEngine:
    """papermill's own engine, with the kernel on sockets in files where the system has them.

    Two runs with equal results leave the same notebook, but for papermill's own notes of times.
    """

    @staticmethod
    def execute_notebook(nb: Any, kernel_name: str, **options: Any) -> Any:
        """Run the notebook; arguments, result and errors as in papermill."""
        from papermill.engines import NBClientEngine

        from relevit.pipeline.notebooks import repeatable

        options |= {"config": sockets_in_files(), "coalesce_streams": True, "record_timing": False}
        return repeatable(NBClientEngine.execute_notebook(nb, kernel_name, **options))

    @staticmethod
    def nb_kernel_name(nb: Any, name: str | None = None) -> str:
        """The kernel that the notebook names, as in papermill."""
        from papermill.utils import nb_kernel_name

        return nb_kernel_name(nb, name)

    @staticmethod
    def nb_language(nb: Any, language: str | None = None) -> str:
        """The language that the notebook names, as in papermill."""
        from papermill.utils import nb_language

        return nb_language(nb, language)


if __name__ == "__main__":
    serve(int(sys.argv[1]))

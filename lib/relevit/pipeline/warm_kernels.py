"""Kernels that start with the libraries loaded.

Loading torch and timm takes 5 to 10 seconds of a core, and a pipeline has a kernel for each of its
twenty to forty notebooks. So the pipeline keeps one process that loads them once, and pytest, where
it tests notebooks, another; a kernel is a fork of it. jupyter_client asks for one through
`relevit.pipeline.provisioner`, so that papermill, nbval and the notebooks notice nothing. Linux
only; elsewhere kernels start as always.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

NAME = "relevit-warm"  # of the entry point in pyproject.toml
SOCKET = "RELEVIT_WARM_KERNELS"
BACKEND = "module://matplotlib_inline.backend_inline"  # what ipykernel sets before matplotlib loads
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

    The process ends with the caller, even one that is killed, and its kernels with it. Where
    there is no fork, or for those who have set another provisioner, the environment is empty.
    """
    if not sys.platform.startswith("linux") or "JUPYTER_DEFAULT_PROVISIONER_NAME" in os.environ:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="relevit-") as folder:
        path = str(Path(folder) / "kernels")
        environment = os.environ | {"MPLBACKEND": BACKEND}
        with socket.socket(socket.AF_UNIX) as requests:
            requests.bind(path)
            requests.listen()  # from now on: they wait while the libraries load
            number = requests.fileno()
            command = [sys.executable, "-m", "relevit.pipeline.warm_kernels", str(number)]
            server = subprocess.Popen(
                command, stdin=subprocess.PIPE, env=environment, pass_fds=[number]
            )
        try:
            yield {"JUPYTER_DEFAULT_PROVISIONER_NAME": NAME, SOCKET: path}
        finally:
            server.stdin.close()  # it ends when nobody holds the other side
            server.wait()


def serve(number: int) -> None:
    """Fork a kernel for each request on an inherited socket, until standard input ends."""
    server = socket.socket(fileno=number)
    for name in LOADED:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # kernels leave no zombies
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pipeline is what Ctrl-C stops
    while True:
        ready, _, _ = select.select([server, sys.stdin], [], [])
        if server not in ready:
            return
        connection, _ = server.accept()
        with connection:
            request = connection.makefile().readline()
            if request and os.fork() == 0:
                server.close()
                _be_kernel(connection, request)


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

        kernelapp.launch_new_instance()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


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


if __name__ == "__main__":
    serve(int(sys.argv[1]))

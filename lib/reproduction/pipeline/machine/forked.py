"""Stages that begin in a tenth of a second: forked from a process that has loaded everything.

A stage's process else loads torch and the suite first, for four seconds on a quick machine and
sixteen on one with CUDA's libraries. `server` starts one that loads them once, beside the planning.
What it says stands in a stage's command where `python` stands:

    python -I -S forked.py SOCKET -m reproduction.pipeline.make quick tiny.seed0-d6a0b6

That client hands over arguments, environment, folder and the three streams, and ends with the exit
code of what was forked; which ends with the client, however that ends. No process that forks has
opened a GPU, as what is forked could not use it. Linux alone: elsewhere the system's own libraries
do not stand it. Where anything is amiss, stages start as processes of their own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

START = "RELEVIT_START"  # variable: the words in place of `python` in a stage's command
READY = "ready"
LENGTH, CODE = struct.Struct("!I"), struct.Struct("!i")
STREAMS = (0, 1, 2)
COLUMNS = 20  # of a table that pandas shows in a notebook
LONGEST_S = 60  # for a GPU to open
# What takes long and nearly every stage loads. Not reproduction.runs, whose bars are others in a
# notebook, nor the backend of its pictures, which must find the notebook when it is loaded.
LOADED = (
    *(
        "tqdm.auto",
        "timm",
        "relevit.finetune.loop",
        "relevit.evaluate.predictions",
        "relevit.text.encoder",
    ),
    *("habitats.homes", "relevit_own.example", "seaborn", "ipywidgets", "ipykernel.kernelapp"),
    *("ipykernel.ipkernel", "papermill.cli"),
)
AT_LOADING = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # that of every kernel
    "OMP_NUM_THREADS": "1",  # none that a fork would lose; each stage has its own number
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # whether there is a GPU is asked without opening it
}


def client(path: str, arguments: list[str]) -> int:
    """Have a job forked and wait for its end; its exit code. Without a server, be the job."""
    line, parent = socket.socket(socket.AF_UNIX), os.getppid()
    try:
        line.connect(path)
    except OSError as error:  # it has ended, for want of memory say
        sys.stderr.write(f"This stage loads everything itself ({error}: {path})\n")
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *arguments])
    asked = {"argv": arguments[1:], "folder": os.getcwd(), "environment": dict(os.environ)}
    body = json.dumps(asked).encode()
    socket.send_fds(line, [LENGTH.pack(len(body))], STREAMS)
    line.sendall(body)
    for number in (signal.SIGINT, signal.SIGTERM):  # are for the job
        signal.signal(number, lambda number, _: line.sendall(bytes([number])))
    while not select.select([line], [], [], 1.0)[0]:
        if os.getppid() != parent:  # who asked for it was killed: a kernel's session is its own
            return 1
    code = line.recv(CODE.size)
    return CODE.unpack(code)[0] if len(code) == CODE.size else 1


@contextmanager
def server(environment: dict[str, str]) -> Iterator[Callable[[], dict[str, str]]]:
    """Have one load while the body runs, and end it then.

    Yields what waits for it and gives the variables of stages: none where they start as processes
    of their own, which it says with the reason.
    """
    if sys.platform != "linux":
        yield dict
        return
    import shlex
    import subprocess
    import tempfile

    path = os.path.join(tempfile.mkdtemp(prefix="relevit-"), "s")
    command = [sys.executable, "-m", __name__, "serve", path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    how = {"text": True, "start_new_session": True, "env": environment | AT_LOADING}
    with subprocess.Popen(command, **pipes, **how) as process:

        def variables() -> dict[str, str]:
            said = process.stdout.readline().strip()
            if said == READY:
                return {START: shlex.join([sys.executable, "-I", "-S", __file__, path])}
            why = said or "what was to start them has ended"
            sys.stderr.write(f"Stages start one by one, which takes longer: {why}.\n")
            return {}

        try:
            yield variables
        finally:
            process.stdin.close()  # its end
            process.terminate()  # also where it still loads
            _remove(os.path.dirname(path))


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def serve(path: str) -> None:
    """Load everything, say so or why not, and fork for each client until standard input ends."""
    import gc

    gc.disable()  # what is loaded stays
    try:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(64)
        before = {*os.environ}
        sys.stdout.write((_load() or READY) + "\n")
        by_libraries = {name: value for name, value in os.environ.items() if name not in before}
        sys.stdout.flush()
        gc.freeze()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            line, _ = listener.accept()
            if not os.fork():
                listener.close()
                try:
                    _mind(line, by_libraries)
                finally:
                    os._exit(1)  # what is below is the server's
            line.close()
    finally:
        _remove(os.path.dirname(path))


def _load() -> str:
    """Load what stages need; why their processes cannot be forked then, nothing where they can."""
    import importlib
    import threading

    from relevit.base.errors import one_line

    try:
        for name in LOADED:
            importlib.import_module(name)
        import torch
    except Exception as error:  # which the first stage will tell in full
        return one_line(error)
    if torch.cuda.is_initialized():
        return "a library has opened the GPU"
    if threading.active_count() > 1:
        return "a library has begun a thread"
    return _in_a_fork(_open_gpu) if torch.cuda.is_available() else ""


def _open_gpu() -> None:
    import torch

    torch.zeros(1, device="cuda")


def _in_a_fork(work: Callable[[], None]) -> str:
    """Do some work in a forked process: why it failed, nothing where it did not."""
    from relevit.base.errors import one_line

    read, write = os.pipe()
    if not os.fork():
        signal.alarm(LONGEST_S)
        try:
            work()
        except BaseException as error:
            os.write(write, one_line(error).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        why = said.read()
    return why if os.wait()[1] == 0 else "a forked process cannot open the GPU"


def _mind(line: socket.socket, variables: dict[str, str]) -> None:
    """Fork the job that a client asks for, and see that each ends with the other."""
    import threading

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(line, LENGTH.size, len(STREAMS))
    with line.makefile("rb") as body:
        asked = json.loads(body.read(LENGTH.unpack(head)[0]))
    if not (job := os.fork()):
        line.close()
        os.setpgid(0, 0)
        _be(asked | {"environment": variables | asked["environment"]}, streams)
    os.setpgid(job, job)  # whichever of both is first
    for stream in streams:
        os.close(stream)

    def end_with_client() -> None:
        while number := line.recv(1):
            os.kill(job, number[0])
        os.killpg(job, signal.SIGKILL)

    threading.Thread(target=end_with_client, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
    line.sendall(CODE.pack(code if code >= 0 else 128 - code))  # as a shell tells of signals
    os._exit(0)


def _be(asked: dict, streams: list[int]) -> None:
    """Become the process that was asked for."""
    import atexit
    import gc
    import runpy

    import numpy
    import pandas
    import threadpoolctl

    for stream, given in zip(STREAMS, streams, strict=True):
        os.dup2(given, stream)
        os.close(given)
    os.chdir(asked["folder"])
    sys.path[0] = asked["folder"]  # as after -m
    os.environ.clear()
    os.environ.update(asked["environment"])
    gc.enable()
    numpy.random.seed()  # noqa: NPY002 - as in any new process
    # What reads the number of threads once, while it is loaded; torch asks when it first computes.
    threads = os.environ.get("OMP_NUM_THREADS", "")
    threadpoolctl.threadpool_limits(int(threads) if threads.isdecimal() else None)
    sys.argv = asked["argv"]  # which begins with the module's name
    if sys.argv[0] == "ipykernel_launcher":  # these look for a notebook while they are loaded
        sys.modules.pop("tqdm.auto", None)
        sys.modules.pop("tqdm.autonotebook", None)
        pandas.set_option("display.max_columns", COLUMNS)
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(client(sys.argv[1], sys.argv[2:]))

"""A command that ends with its caller, and all that it has started with it.

Snakemake lives on when whoever called it is killed, and starts the next stages unseen. So a
process beside it, `python -m reproduction.pipeline.children PATIENCE COMMAND`, waits for its
standard input to end, which happens when nobody holds the other side. It ends them by
SIGKILL: stages must survive that anyway, and it is at once and silent. Not on Windows, which has no
groups of processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def call(
    command: list[str], *, patience_s: float = 0.0, **options: Any
) -> subprocess.CompletedProcess:
    """`subprocess.run`, but all that the command starts ends with it, and it with the caller.

    That is when an exception like KeyboardInterrupt leaves this function, or when the process is
    killed. With patience the command is interrupted first, and has so long to clear up.
    """
    if os.name != "posix":
        return subprocess.run(command, **options)
    with beside(command, patience_s=patience_s, **options) as process:
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode)


@contextmanager
def beside(
    command: list[str], *, patience_s: float = 0.0, **options: Any
) -> Iterator[subprocess.Popen]:
    """Run a command while the body runs; it ends as that of `call` does, or with the body."""
    beside = [sys.executable, "-m", __name__, str(patience_s), *command]
    # In a session of its own: Ctrl-C of a terminal is for the caller alone.
    process = subprocess.Popen(beside, stdin=subprocess.PIPE, start_new_session=True, **options)
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()


def main(patience_s: float, command: list[str]) -> int:
    """Run the command in a group of its own until it or standard input ends; its exit code."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    arguments = (process, patience_s)
    threading.Thread(target=_end_with_caller, args=arguments, daemon=True).start()
    code = process.wait()
    _kill_group(process)  # what it has left: it may have been killed itself
    return code


def _end_with_caller(process: subprocess.Popen, patience_s: float) -> None:
    sys.stdin.read()
    if patience_s:
        process.send_signal(signal.SIGINT)
        time.sleep(patience_s)
    _kill_group(process)


def _kill_group(process: subprocess.Popen) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says the second
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))

"""A command that ends with its caller, and all that it has started with it.

Snakemake lives on when whoever called it is killed, and starts the next stages unseen. So a
process beside it, `python -m reproduction.pipeline.children LAST COMMAND`, waits for its
standard input to end, which happens when nobody holds the other side. It ends them by
SIGKILL: stages must survive that anyway, and it is at once and silent. Then it does what is LAST,
which ends what was started on other machines. Not on Windows, which has no groups of processes.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any


def call(
    command: list[str], *, last: Sequence[str] = (), **options: Any
) -> subprocess.CompletedProcess:
    """`subprocess.run`, but all that the command starts ends with it, and it with the caller.

    That is when an exception like KeyboardInterrupt leaves this function, or when the process is
    killed. The `last` command is run when all has ended, however that was.
    """
    if os.name != "posix":
        return subprocess.run(command, **options)
    with beside(command, last=last, **options) as process:
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode)


@contextmanager
def beside(
    command: list[str], *, last: Sequence[str] = (), **options: Any
) -> Iterator[subprocess.Popen]:
    """Run a command while the body runs; it ends as that of `call` does, or with the body."""
    beside = [sys.executable, "-m", __name__, shlex.join(last), *command]
    # In a session of its own: Ctrl-C of a terminal is for the caller alone.
    process = subprocess.Popen(beside, stdin=subprocess.PIPE, start_new_session=True, **options)
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()


def main(last: str, command: list[str]) -> int:
    """Run the command in a group of its own until it or standard input ends; its exit code."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    # The end of a Slurm job is told to all its processes: this one has still something to do.
    signal.signal(signal.SIGTERM, lambda *_: _kill_group(process))
    threading.Thread(target=_end_with_caller, args=(process,), daemon=True).start()
    code = process.wait()
    _kill_group(process)  # what it has left: it may have been killed itself
    if last:
        subprocess.run(shlex.split(last), stdin=subprocess.DEVNULL)
    return code


def _end_with_caller(process: subprocess.Popen) -> None:
    sys.stdin.read()
    _kill_group(process)


def _kill_group(process: subprocess.Popen) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says the second
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

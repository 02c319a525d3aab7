"""Kernels forked from a process that has the libraries loaded (`relevit.pipeline.warm_kernels`).

A provisioner is what starts and ends a kernel for jupyter_client. Where that process cannot be
reached, on another machine of a cluster for example, kernels start as always.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from typing import Any

from jupyter_client.provisioning import LocalProvisioner

from relevit.pipeline.warm_kernels import SOCKET

LAUNCHER = ["-m", "ipykernel_launcher"]
PATIENCE_S = 120.0  # for a slow disk that loads the libraries for the first time


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

"""papermill's engine for notebooks that run side by side: `papermill --engine relevit`.

By default a kernel is given five TCP ports that were free a moment ago; two kernels that start
in the same instant can be given the same one, and a stage dies. Sockets in files have names of
their own.
"""

from __future__ import annotations

import os
import shlex
import uuid
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.paths import jupyter_runtime_dir
from papermill.engines import NBClientEngine
from traitlets.config import Config

from reproduction.pipeline.machine.forked import START

PATIENCE_S = 120  # for a cell's last output, which a busy machine may bring late
LONGEST_FOLDER = 75  # characters; a socket's path may have about 100, its name takes up to 25


class LocalEngine(NBClientEngine):
    """papermill's own engine, with the kernel on sockets in files where the system has them."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
        """Run the notebook; arguments, result and errors as in papermill.

        A kernel that is not here, as an editor elsewhere has saved, is that of this environment.
        """
        known = KernelSpecManager().find_kernel_specs()
        kernel_name = kernel_name if kernel_name in known else NATIVE_KERNEL_NAME
        options |= {"config": sockets_in_files(), "iopub_timeout": PATIENCE_S}
        options |= {"kernel_manager_class": ForkedKernels}
        return super().execute_managed_notebook(nb_man, kernel_name, **options)


class ForkedKernels(AsyncKernelManager):
    """Kernels that begin as stages do (`machine.forked`)."""

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        """jupyter's own words for a kernel, but for those before its module."""
        command = super().format_kernel_cmd(extra_arguments)
        start = shlex.split(os.environ.get(START, ""))
        return [*start, *command[command.index("-m") :]] if start and "-m" in command else command


def sockets_in_files() -> Config:
    """Configuration of nbclient that puts a kernel's sockets into files, where that works."""
    folder = Path(jupyter_runtime_dir())
    if os.name != "posix" or len(str(folder)) > LONGEST_FOLDER:
        return Config()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Without a name, all kernels of a folder would share one.
    name = str(folder / f"{uuid.uuid4().hex[:12]}.json")
    return Config({"KernelManager": {"transport": "ipc", "connection_file": name}})

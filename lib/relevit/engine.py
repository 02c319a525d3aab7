"""How papermill talks to the kernels of stages that run side by side.

By default a kernel is given five TCP ports that were free a moment ago; two kernels that start
in the same instant can be given the same one, and a stage dies. Sockets in files have names of
their own. `papermill --engine relevit` asks for this; without it, all else is the same.
"""

from __future__ import annotations

import os
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir
from papermill.engines import NBClientEngine
from traitlets.config import Config

LONGEST_FOLDER = 45  # characters; a socket's path may have about 100, its name takes 55


class LocalEngine(NBClientEngine):
    """papermill's own engine, with the kernel on sockets in files where the system has them."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
        """Run the notebook; arguments and errors as in papermill."""
        if os.name == "posix" and len(jupyter_runtime_dir()) <= LONGEST_FOLDER:
            options["config"] = Config({"KernelManager": {"transport": "ipc"}})
        return super().execute_managed_notebook(nb_man, kernel_name, **options)

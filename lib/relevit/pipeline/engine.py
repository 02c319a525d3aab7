"""How papermill talks to the kernels of stages that run side by side.

By default a kernel is given five TCP ports that were free a moment ago; two kernels that start
in the same instant can be given the same one, and a stage dies. Sockets in files have names of
their own. `papermill --engine relevit` asks for this; without it, all else is the same.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir
from papermill.engines import NBClientEngine
from traitlets.config import Config

LONGEST_FOLDER = 75  # characters; a socket's path may have about 100, its name takes up to 25


class LocalEngine(NBClientEngine):
    """papermill's own engine, with the kernel on sockets in files where the system has them."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
        """Run the notebook; arguments and errors as in papermill."""
        folder = Path(jupyter_runtime_dir())
        if os.name == "posix" and len(str(folder)) <= LONGEST_FOLDER:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Without a name, all kernels of a folder would share one.
            name = str(folder / f"{uuid.uuid4().hex[:12]}.json")
            options["config"] = Config(
                {"KernelManager": {"transport": "ipc", "connection_file": name}}
            )
        return super().execute_managed_notebook(nb_man, kernel_name, **options)

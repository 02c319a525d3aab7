"""What there is of this machine."""

from __future__ import annotations

import os


def cores() -> int:
    """The processor cores that this process may use, fewer than all in some containers."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(affinity(0)) if affinity else os.cpu_count() or 1

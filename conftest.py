"""Notebooks under test get kernels with the libraries loaded, as in the pipeline."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from nbval.plugin import IPyNbCell

from relevit.pipeline.kernels import warm_kernels

STARTED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first notebook's kernel; what kernels say is caught, and shown if a cell fails."""
    if not isinstance(item, IPyNbCell) or STARTED in item.config.stash:
        return
    item.config.stash[STARTED] = True
    ending = ExitStack()
    item.config.add_cleanup(ending.close)
    environment = ending.enter_context(pytest.MonkeyPatch.context())
    for name, value in ending.enter_context(warm_kernels()).items():
        environment.setenv(name, value)

"""Notebooks under test get kernels with the libraries loaded, as in the pipeline."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from relevit.warm_kernels import warm_kernels


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("nbval", False) or config.getoption("nbval_lax", False):
        kernels = ExitStack()
        os.environ.update(kernels.enter_context(warm_kernels()))
        config.add_cleanup(kernels.close)

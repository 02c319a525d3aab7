"""Projects to run the pipeline in, shared by its tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .projects import PRESET, Ended, copy_project, run


@pytest.fixture
def project(tmp_path) -> Path:
    return copy_project(tmp_path / "project")


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> tuple[Path, Ended]:
    """A project in which the pipeline has run from start to end. Not to be changed."""
    folder = copy_project(tmp_path_factory.mktemp("finished"))
    return folder, run(folder, PRESET)


@pytest.fixture
def changeable(finished, tmp_path) -> Path:
    """A copy of the finished project, times of the files included."""
    project, ended = finished
    assert ended.code == 0, ended.err
    return shutil.copytree(project, tmp_path / "project")

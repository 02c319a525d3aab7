"""Projects to run the pipeline in, shared by its tests."""

import shutil
from pathlib import Path

import pytest

from .projects import FEW, PRESET, Ended, copy_project, edit, run


@pytest.fixture
def project(tmp_path) -> Path:
    return copy_project(tmp_path / "project")


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> tuple[Path, Ended]:
    """A project in which the pipeline has made its FEW notebooks. Not to be changed."""
    folder = copy_project(tmp_path_factory.mktemp("finished"))
    edit(folder, "pipeline", notebooks=list(FEW))
    return folder, run(folder, PRESET)


@pytest.fixture
def changeable(finished, tmp_path) -> Path:
    """A copy of the finished project, times of the files included."""
    project, ended = finished
    assert ended.code == 0, ended.err
    return shutil.copytree(project, tmp_path / "project")

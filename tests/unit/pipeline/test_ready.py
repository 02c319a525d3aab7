"""`relevit doctor` without a folder: what is wrong with a machine, and what to do."""

import shutil
from collections import namedtuple
from importlib.metadata import PackageNotFoundError
from unittest.mock import Mock

import pytest

from relevit_own.cli import main
from reproduction.pipeline import doctor as ready

Usage = namedtuple("Usage", "total used free")


def test_this_machine_is_ready_and_what_is_not_fetched_yet_is_no_fault(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("RELEVIT_CACHE", str(tmp_path))
    assert main(["doctor"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "ready" and len(lines) == len(ready.LOOKS)
    assert all(line.startswith("ok ") for line in lines)
    assert any("not here: DINOv2, MiniLM, film reviews" in line for line in lines)


@pytest.mark.parametrize(
    ("where", "name", "value", "said"),
    [
        (ready.sys, "version_info", (3, 9, 2), "3.11 to 3.13 is needed: make setup PYTHON="),
        (
            ready,
            "version",
            Mock(side_effect=PackageNotFoundError),
            "torch, timm, jupyterlab, ipywidgets, papermill not installed",
        ),
        (shutil, "disk_usage", lambda _: Usage(0, 0, 2**28), "1000 MB are needed"),
        (ready, "SLOW_S", -1.0, "slow or busy"),
        (ready, "project_root", lambda: 1 / 0, "make setup installs all anew"),
    ],
)
def test_what_is_wrong_is_said_and_the_rest_is_looked_at(
    monkeypatch, capsys, where, name, value, said
):
    monkeypatch.setattr(where, name, value)
    assert main(["doctor"]) == 1
    *lines, last = capsys.readouterr().out.splitlines()
    (bad,) = (line for line in lines if line.startswith("NOT "))
    assert said in bad and last.startswith("not ready") and len(lines) == len(ready.LOOKS)

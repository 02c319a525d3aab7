"""`relevit doctor` without a folder: what is wrong with a machine, and what to do."""

from __future__ import annotations

import shutil
from collections import namedtuple
from importlib.metadata import PackageNotFoundError

import pytest

from reproduction.pipeline import doctor as ready
from reproduction.pipeline.cli import main

Usage = namedtuple("Usage", "total used free")


def test_this_machine_is_ready(capsys):
    assert main(["doctor"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "ready" and len(lines) == len(ready.LOOKS)
    assert all(line.startswith("ok ") for line in lines)


def lost(name: str) -> str:
    raise PackageNotFoundError(name)


@pytest.mark.parametrize(
    ("where", "name", "value", "said"),
    [
        (ready, "version", lost, "torch, timm, jupyterlab, ipywidgets, papermill not installed"),
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


def test_what_is_not_fetched_yet_is_told_and_no_fault(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("RELEVIT_CACHE", str(tmp_path))
    assert main(["doctor"]) == 0
    assert "not here: DINOv2, MiniLM, film reviews" in capsys.readouterr().out

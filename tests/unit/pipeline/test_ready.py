"""`relevit doctor` without a folder: what is wrong with a machine, and what to do."""

import shutil
from collections import namedtuple
from importlib.metadata import PackageNotFoundError
from unittest.mock import Mock

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from relevit_own.cli import main
from reproduction.pipeline import doctor as ready
from reproduction.pipeline import notebooks

Usage = namedtuple("Usage", "total used free")


def test_this_machine_is_ready_and_what_is_not_made_yet_is_no_fault(monkeypatch, capsys):
    lost = Mock(side_effect=FileNotFoundError)
    monkeypatch.setattr(notebooks, "finished_notebooks", lost)
    assert main(["doctor"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "ready" and len(lines) == len(ready.LOOKS)
    assert all(line.startswith("ok ") for line in lines)
    assert any("not made: make quick makes them before the day" in line for line in lines)


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
        (ready, "FREE_GIB", 1e6, "a notebook takes up to 1000000.0: close what else runs"),
        (
            KernelSpecManager,
            "get_kernel_spec",
            Mock(return_value=Mock(argv=["/usr/bin/python3"])),
            "notebooks run in /usr/bin/python3, another environment: ",
        ),
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


@pytest.mark.parametrize(("seconds", "advised"), [((2.0, 1.0), False), ((1.0, 2.0), True)])
def test_a_processor_that_bfloat16_slows_down_is_told_to_train_in_float32(
    monkeypatch, seconds, advised
):
    monkeypatch.setattr(ready, "choose_precision", lambda choice, device: "bfloat16")
    monkeypatch.setattr(ready.timeit, "repeat", Mock(side_effect=[[each] for each in seconds]))
    (row,) = (each for each in ready.ready() if each.what == "training")
    assert row.good and ("precision: float32" in row.said) == advised

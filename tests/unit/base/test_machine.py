"""What there is of this machine."""

from __future__ import annotations

import os

import pytest

from relevit.base.machine import cores


@pytest.mark.parametrize(("own", "found"), [({0, 3, 5}, 3), (None, 8)])
def test_cores_are_those_that_this_process_may_use(monkeypatch, own, found):
    """A container may have fewer than the machine; macOS cannot say which."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    if own is None:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: own, raising=False)
    assert cores() == found

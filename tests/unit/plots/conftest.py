"""Pictures are results: pyplot keeps none of them, or a notebook would show it twice."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def nothing_stays_with_pyplot():
    before = plt.get_fignums()
    yield
    assert plt.get_fignums() == before

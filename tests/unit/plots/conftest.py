"""Pictures are results: pyplot keeps none of them, or a notebook would show it twice."""

import matplotlib.pyplot as plt
import pytest

from habitats.homes import habitats

from ..micro_finetuning import SPEC, micro_model


@pytest.fixture(autouse=True)
def nothing_stays_with_pyplot():
    before = plt.get_fignums()
    yield
    assert plt.get_fignums() == before


@pytest.fixture
def network():
    return micro_model().eval()


@pytest.fixture
def spec():
    return SPEC


@pytest.fixture
def bench():
    return habitats()

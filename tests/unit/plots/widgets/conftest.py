"""A small model and what it is shown; how a widget's picture and text are read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from relevit.data.habitats import habitats

from ...micro_finetuning import SPEC, micro_model


@pytest.fixture
def network():
    return micro_model().eval()


@pytest.fixture
def spec():
    return SPEC


@pytest.fixture
def bench():
    return habitats()


@pytest.fixture
def shown() -> Callable:
    """What a widget shows: its picture, and its text without the marks around it."""

    def read(explorer) -> tuple[bytes, str]:
        return bytes(explorer.picture.value), explorer.state.value.split(">", 1)[1][
            : -len("</span>")
        ]

    return read

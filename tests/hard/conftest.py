"""The figures of hard use, printed at the end of `make hard`."""

from __future__ import annotations

import pytest

FIGURES = pytest.StashKey["Figures"]()


class Figures(dict[str, float]):
    """What was counted and what was the most, by its name."""

    def add(self, name: str, count: int = 1) -> None:
        self[name] = self.get(name, 0) + count

    def most(self, name: str, value: float) -> None:
        self[name] = max(self.get(name, value), value)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = Figures()


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> Figures:
    return pytestconfig.stash[FIGURES]


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if config.stash[FIGURES]:
        terminalreporter.section("hard use")
    for name, value in sorted(config.stash[FIGURES].items()):
        terminalreporter.write_line(f"{name}: {value:,.4g}")

"""Errors of other packages in our own words: quoted on one line, or missing altogether."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from relevit.choices.messages import short

# What only the notebook on text needs, and what to say without it.
NOTEBOOK_ON_TEXT = "09_text"
PACKAGES = ("tokenizers", "transformers")
INSTALL = "pip install relevit[text]"


class FailedError(RuntimeError):
    """A run that ended without results."""


def one_line(error: Exception) -> str:
    """The text of an error on one line, cut where it gets long; its type when it has none."""
    return short(" ".join(str(error).split())) or type(error).__name__


def absent() -> list[str]:
    """Those of PACKAGES that are not installed."""
    return [name for name in PACKAGES if find_spec(name) is None]


def need_packages(user: str, extra: str, *names: str) -> None:
    """Raise ImportError, before any work, that says what to install where some are missing."""
    if missing := [name for name in names if find_spec(name) is None]:
        raise ImportError(
            f"{user}: {' and '.join(missing)} not installed; pip install 'relevit[{extra}]'"
        )


@contextmanager
def text_extra(user: str) -> Iterator[None]:
    """For imports of PACKAGES and what comes with them: `user` needs them.

    Raises: ImportError that says what to install, in place of one that does not.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{user}: the package {error.name} is not installed; "
            f"{NOTEBOOK_ON_TEXT} needs it: {INSTALL}"
        ) from error

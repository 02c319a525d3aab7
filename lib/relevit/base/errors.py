"""Errors of other packages in our own words: quoted on one line, or missing altogether."""

from __future__ import annotations

from importlib.util import find_spec

from relevit.choices.messages import short

PACKAGES = ("tokenizers", "transformers")  # what only texts need


class FailedError(RuntimeError):
    """A run that ended without results."""


class MissingError(ImportError):
    """A package of an extra is not installed."""


def one_line(error: Exception) -> str:
    """The text of an error on one line, cut where it gets long; its type when it has none."""
    return short(" ".join(str(error).split())) or type(error).__name__


def need_packages(user: str, extra: str, *names: str) -> None:
    """Raise MissingError, before any work, that says what to install where some are missing."""
    if missing := [name for name in names if find_spec(name) is None]:
        raise MissingError(
            f"{user}: {' and '.join(missing)} not installed; pip install 'relevit[{extra}]'"
        )

"""The packages that only notebooks on text need: which they are, and what to say without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

NOTEBOOKS_ON_TEXT = ("11_text", "12_clip")
PACKAGES = ("tokenizers", "transformers")
INSTALL = "pip install relevit[text]"


def absent() -> list[str]:
    """Those of PACKAGES that are not installed."""
    return [name for name in PACKAGES if find_spec(name) is None]


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
            f"{' and '.join(NOTEBOOKS_ON_TEXT)} need it: {INSTALL}"
        ) from error

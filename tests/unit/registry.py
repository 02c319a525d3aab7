"""For tests on files that come from the package registry once, and from the cache later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from relevit.wheels import WrongWheel


@contextmanager
def registry_needed() -> Iterator[None]:
    """Skip a test that cannot reach the registry. One that was given another file fails."""
    try:
        yield
    except WrongWheel:
        raise
    except ConnectionError as error:
        pytest.skip(f"no package registry, and nothing in the cache: {error}")

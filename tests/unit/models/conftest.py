"""Micro networks under the names of the papers' models."""

from __future__ import annotations

import pytest

from replicas import weights


@pytest.fixture
def micro_models(monkeypatch):
    """timm makes the papers' architectures in micro sizes, and reaches no hub."""
    weights.make_small(monkeypatch)

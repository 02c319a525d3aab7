"""Micro networks: under the names of the papers' models, and of any of timm's."""

from __future__ import annotations

import pytest
import timm
import torch

from replicas import weights

SMALL = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}


@pytest.fixture
def micro_models(monkeypatch):
    """timm makes the papers' architectures in micro sizes, and reaches no hub."""
    weights.make_small(monkeypatch)


def made(name="vit_tiny_patch16_224", **options):
    """A small model of timm's whose weights are not where one starts."""
    torch.manual_seed(1)
    model = timm.create_model(name, num_classes=5, **(SMALL | options)).eval()
    for part in model.parameters():
        torch.nn.init.normal_(part, std=0.2)
    return model


def same(model, tensors):
    """All tensors of a model, or of a file, are these to the bit."""
    state = model if isinstance(model, dict) else model.state_dict()
    return state.keys() == tensors.keys() and all(torch.equal(state[k], tensors[k]) for k in state)

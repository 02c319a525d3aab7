"""Golden values: numbers made by running the published code, beside this file.

RELEVIT_GOLDEN names another folder with files of the same shape to test against.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file


@pytest.fixture(scope="session")
def golden_folder() -> Path:
    folder = Path(os.environ.get("RELEVIT_GOLDEN", Path(__file__).parent))
    if not folder.is_dir():
        raise FileNotFoundError(f"RELEVIT_GOLDEN: {folder} is no folder; unset it or mend it")
    return folder


@pytest.fixture(scope="session")
def golden(golden_folder):
    """Read one .npz of the folder into a dict."""

    def read(name: str) -> dict[str, np.ndarray]:
        with np.load(golden_folder / f"{name}.npz") as values:
            return dict(values)

    return read


@pytest.fixture
def golden_model(golden_folder):
    """The four-block ViT that the golden values were made with, in float64, fresh each time."""
    model = timm.models.vision_transformer.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=48, depth=4, num_heads=3, num_classes=7
    )
    model.load_state_dict(load_file(golden_folder / "weights.safetensors"))
    return model.double().eval()


@pytest.fixture(scope="session")
def golden_inputs(golden) -> dict[str, torch.Tensor]:
    tensors = {key: torch.from_numpy(value) for key, value in golden("inputs").items()}
    return {k: v.double() if v.is_floating_point() else v for k, v in tensors.items()}

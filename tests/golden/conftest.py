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


SIZES = {"img_size": 32, "patch_size": 8, "num_heads": 3, "num_classes": 7}
SMALL = {"embed_dim": 24, "mlp_ratio": 2}
# Name of the values -> file of the weights, architecture.
MODELS = {
    "tiny": ("weights", {"embed_dim": 48, "depth": 4}),
    "deep": ("weights_deep", SMALL | {"depth": 8}),
    "avg": ("weights_avg", SMALL | {"depth": 4, "global_pool": "avg"}),
    # Weights of `avg` in the class that was public before: its norm comes before the mean (D4).
    "norm_before_pool": (
        "weights_avg",
        SMALL | {"depth": 4, "global_pool": "avg", "fc_norm": False},
    ),
}


@pytest.fixture(scope="session")
def golden_models(golden_folder):
    """Make one of the ViTs that the golden values were made with, in float64, fresh each time."""

    def make(name: str, **options):
        file, architecture = MODELS[name]
        model = timm.models.vision_transformer.VisionTransformer(**(SIZES | architecture | options))
        weights = load_file(golden_folder / f"{file}.safetensors")
        if name == "norm_before_pool":
            weights = {key.replace("fc_norm", "norm"): value for key, value in weights.items()}
        model.load_state_dict(weights)
        return model.double().eval()

    return make


@pytest.fixture
def golden_model(golden_models):
    return golden_models("tiny")


@pytest.fixture(scope="session")
def golden_inputs(golden) -> dict[str, torch.Tensor]:
    tensors = {key: torch.from_numpy(value) for key, value in golden("inputs").items()}
    return {k: v.double() if v.is_floating_point() else v for k, v in tensors.items()}

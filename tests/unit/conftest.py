"""Small models with known weights, shared by the unit tests."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

SIZES = {
    "img_size": 28,
    "patch_size": 7,
    "embed_dim": 16,
    "depth": 2,
    "num_heads": 2,
    "num_classes": 5,
}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "layer_scale": {"init_values": 0.5},
    "qk_norm": {"qk_norm": True},
    "scale_norm": {"scale_attn_norm": True, "scale_mlp_norm": True},
    "registers": {"reg_tokens": 3},
    "no_qkv_bias": {"qkv_bias": False},
    "average": {"global_pool": "avg"},
    "average_and_registers": {"global_pool": "avg", "reg_tokens": 2},
    "average_of_all_tokens": {"global_pool": "avg", "reg_tokens": 2, "pool_include_prefix": True},
    "distilled": {},
}
HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}  # of pixels: what black is


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """The models here are too small for threads to help."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def build_vit() -> Callable[..., nn.Module]:
    """Make a 2-layer float64 ViT of one of the KINDS, with weights that are far from zero."""

    def build(kind: str = "plain", *, seed: int = 0, **options: Any) -> nn.Module:
        cls = VisionTransformerDistilled if kind == "distilled" else VisionTransformer
        model = cls(**(SIZES | KINDS[kind] | options)).double().eval()
        model.pretrained_cfg = HALF
        random = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weights in model.named_parameters():
                gain = weights.ndim == 1 and name.endswith(("weight", "gamma"))
                draw = torch.randn(weights.shape, generator=random, dtype=weights.dtype)
                weights.copy_(0.3 * draw + float(gain))
        return model

    return build


@pytest.fixture(scope="session")
def images() -> Tensor:
    """Three normalised images, the first class of each being what the models make of them."""
    random = torch.Generator().manual_seed(1)
    return torch.randn(3, 3, SIZES["img_size"], SIZES["img_size"], generator=random).double()


@pytest.fixture(scope="session")
def state_of() -> Callable[[nn.Module], dict[str, Any]]:
    """Everything that a look at a model must leave as it was, module by module."""

    def state(model: nn.Module) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, module in model.named_modules():
            hooks = sum(len(v) for k, v in vars(module).items() if k.endswith("_hooks"))
            fused = getattr(module, "fused_attn", None)
            found[name] = (hooks, fused, module.training, "forward" in vars(module))
        for name, weights in model.named_parameters():
            found[f"{name} (weights)"] = (weights.requires_grad, weights.grad is None)
        return found

    return state


@pytest.fixture
def no_network(monkeypatch) -> None:
    """Let every attempt to reach another machine fail."""

    def refuse(self, address):
        raise AssertionError(f"this test tried to reach {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def project_of_one_preset(request, tmp_path, monkeypatch) -> Path:
    """A project in which `quick` is the PRESET of the test's module, and the folder one is in."""
    (tmp_path / "params").mkdir()
    (tmp_path / "notebooks").symlink_to(Path(__file__).parents[2] / "notebooks")
    (tmp_path / "params" / "quick.yaml").write_text(request.module.PRESET)
    monkeypatch.chdir(tmp_path)
    return tmp_path

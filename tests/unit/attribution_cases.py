"""What the tests of the attribution methods share: kinds of methods, calls of one form."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from relevit.attribution import METHODS

PROTOCOLS = ("published", "described")
LRP = ("partial_lrp", "lrp", "transformer_attribution")
START_BLOCK = ("rollout", "ga", "transformer_attribution", "head_wise", "token_wise")
OURS = ("head_wise", "token_wise")
PIXELS = ("smoothgrad", "integrated_gradients")
GRAPH = ("raw_attention", "rollout", "gradcam", "gae", "ga", "head_wise", "token_wise")
CLASS_AGNOSTIC = ("raw_attention", "rollout")
HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}


def know_black(model: nn.Module) -> nn.Module:
    """Tell a model how its inputs were normalised, as timm's factory does."""
    model.pretrained_cfg = HALF
    return model


def explain(name: str, model: nn.Module, images: Tensor, target: Any = None, **options: Any):
    """One method's map, with few steps where it integrates over pixels."""
    few = {"smoothgrad": {"draws": 3}, "integrated_gradients": {"steps": 4}}.get(name, {})
    return METHODS[name](model, images, target, **(few | options))

"""What a model sees in an image, as one vector: the input of its head."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from relevit.attention.class_token import shorten
from relevit.base.device import Precision, autocast
from relevit.models.spec import ModelSpec


@torch.no_grad()
def class_features(
    model: nn.Module,
    spec: ModelSpec,
    batches: Iterable[UInt8[Tensor, "batch 3 height width"]],
    precision: Precision = "float32",
) -> Float[Tensor, "images width"]:
    """Vectors that the head would classify, one an image, with the head taken off.

    Source: RobustViT supp. M, the representation of [CLS]. It is the class token after the
    last norm; a model that averages its patches gives their mean, as its head reads no other.
    `bfloat16` is mixed precision: products are rounded, sums along the blocks are not.
    Vectors come in float32 or better, on the model's device. The model is left as it was.
    Raises: ValueError for no images, or NaN or infinity in a vector.
    """
    network = copy.deepcopy(model).eval()
    shorten(network)
    like = next(network.parameters())
    parts = []
    for images in batches:
        with autocast(like.device, precision):
            tokens = network.forward_features(spec.normalise(images, like=like))
            vectors = network.forward_head(tokens, pre_logits=True)
        parts.append(vectors if vectors.dtype == torch.float64 else vectors.float())
    if not parts:
        raise ValueError("class_features: no images; give at least one batch")
    features = torch.cat(parts)
    if not features.isfinite().all():
        raise ValueError(
            f"class_features: NaN or infinity in a vector of {spec.name!r}; its training diverged: "
            "lower the learning rate, or use precision float32"
        )
    return features

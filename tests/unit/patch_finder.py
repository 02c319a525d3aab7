"""ViTs whose weights are made by hand so that one bright patch decides the class.

Every token says "token" (widths 6 and 7). A patch also says how bright it is (widths 0 and 1).
Attention looks at what is bright, stronger from bright patches, and writes what it found into
widths 2 and 3, where the head reads class 1. Small random weights break all ties; they are ones
that LRP can do with: its rule for sums turns the sign where two summands all but cancel.
"""

from __future__ import annotations

import torch
from timm.models.beit import Beit
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from .conftest import HALF

WIDTH, GRID, SIDE = 8, (3, 5), 4  # not square: a transposed grid would show
ROW, COLUMN = 0, 3
BRIGHT = ROW * GRID[1] + COLUMN
CLASS = 1
SIZES = {
    "img_size": (GRID[0] * SIDE, GRID[1] * SIDE),
    "patch_size": SIDE,
    "embed_dim": WIDTH,
    "depth": 2,
    "num_heads": 2,
    "num_classes": 3,
    "mlp_ratio": 1,
    "qkv_bias": True,
}
ALL_TOKENS = {"global_pool": "avg", "reg_tokens": 2, "pool_include_prefix": True}
KINDS = {
    "class_token": (VisionTransformer, {}),
    "class_token_and_registers": (VisionTransformer, {"reg_tokens": 3}),
    "registers_without_position": (VisionTransformer, {"reg_tokens": 3, "no_embed_class": True}),
    "average": (VisionTransformer, {"global_pool": "avg"}),
    "average_and_registers": (VisionTransformer, {"global_pool": "avg", "reg_tokens": 2}),
    "average_of_all_tokens": (VisionTransformer, ALL_TOKENS),
    "average_alone": (VisionTransformer, {"global_pool": "avg", "class_token": False}),
    "distilled": (VisionTransformerDistilled, {}),
    "beit": (Beit, {"use_rel_pos_bias": True, "use_abs_pos_emb": False, "init_values": 0.9}),
    "beit_class_token": (Beit, {"global_pool": "token", "use_shared_rel_pos_bias": True}),
}


def bright_patch_image() -> Tensor:
    """Dim noise and one bright patch, [1, 3, height, width]."""
    random = torch.Generator().manual_seed(0)
    image = 0.05 * torch.randn(1, 3, *SIZES["img_size"], generator=random).double()
    top, left = ROW * SIDE, COLUMN * SIDE
    image[:, :, top : top + SIDE, left : left + SIDE] += 1
    return image


def build(kind: str) -> nn.Module:
    cls, options = KINDS[kind]
    model = cls(**(SIZES | options)).double().eval()
    model.pretrained_cfg = HALF
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            gain = weights.ndim == 1 and ("norm" in name and name.endswith("weight"))
            noise = 0.01 * torch.randn(weights.shape, generator=random).double()
            weights.copy_(noise + float(gain or "gamma" in name))
        _write_by_hand(model)
    return model


def _write_by_hand(model: nn.Module) -> None:
    token = torch.zeros(WIDTH).double()
    token[6:] = torch.tensor([1.0, -1.0])
    patches = model.patch_embed.proj
    patches.weight[0] += 1 / (3 * SIDE**2)
    patches.weight[1] -= 1 / (3 * SIDE**2)
    patches.bias += token
    for name in ("cls_token", "reg_token", "dist_token"):
        if getattr(model, name, None) is not None:
            getattr(model, name).add_(token)
    for block in model.blocks:
        layer = block.attn
        beit = hasattr(layer, "q_bias")
        query_bias = layer.q_bias if beit else layer.qkv.bias[:WIDTH]
        value_bias = layer.v_bias if beit else layer.qkv.bias[2 * WIDTH :]
        for head in range(0, WIDTH, WIDTH // 2):
            query_bias[head] += 2
            value_bias[head] += 0.3  # GradCAM's heads need a gradient that is positive on average
            layer.qkv.weight[head, 0] += 1
            layer.qkv.weight[WIDTH + head, 0] += 1.5
            layer.qkv.weight[2 * WIDTH + head, 0] += 1
            block.attn.proj.weight[2, head] += 0.5
            block.attn.proj.weight[3, head] -= 0.5
    for name in ("head", "head_dist"):
        if getattr(model, name, None) is not None:
            getattr(model, name).weight[CLASS, 2] += 1
            getattr(model, name).weight[CLASS, 3] -= 1

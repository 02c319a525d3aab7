"""Vision Transformers of transformers and torchvision under timm's names: tables, and nothing else.

The same tensors in timm's anatomy compute the same function: logits agree to the bit, or to the
rounding of the format, for timm multiplies query, key and value at once. What has no place there is
refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

Config = Mapping[str, Any]

# What stands before the names of a network under a head, in files old and new.
WRAPPED = r"(?:vit|deit|beit|data2vec_vision|dinov2|dinov2_with_registers|vision_model)\."
BEFORE = f"^{WRAPPED}"
# In order: files before and since version 5 of transformers, torchvision's.
NAMES = [
    (r"^encoder\.layers\.encoder_layer_(\d+)\.", r"blocks.\1."),
    (r"^(?:encoder\.)?layers?\.(\d+)\.", r"blocks.\1."),
    (r"(attention\.attention\.|attention\.|self_attn\.)(q)(uery|_proj)\.", "attn.q."),
    (r"(attention\.attention\.|attention\.|self_attn\.)(k)(ey|_proj)\.", "attn.k."),
    (r"(attention\.attention\.|attention\.|self_attn\.)(v)(alue|_proj)\.", "attn.v."),
    (r"(attention\.output\.dense|attention\.o_proj|self_attn\.out_proj)\.", "attn.proj."),
    (r"self_attention\.out_proj\.", "attn.proj."),
    (r"self_attention\.in_proj_", "attn.qkv."),
    (r"(?:attention\.attention\.)?relative_position_bias\.relative", "attn.relative"),
    (r"(?<=\d\.)(intermediate\.dense|mlp\.weights_in|mlp\.0|mlp\.linear_1)\.", "mlp.fc1."),
    (r"(?<=\d\.)(output\.dense|mlp\.weights_out|mlp\.down_proj)\.", "mlp.fc2."),
    (r"(?<=\d\.)(mlp\.3|mlp\.linear_2)\.", "mlp.fc2."),
    (r"(layernorm_before|layer_norm1|ln_1)\.", "norm1."),
    (r"(layernorm_after|layer_norm2|ln_2)\.", "norm2."),
    (r"layer_scale(\d)\.lambda1", r"ls\1.gamma"),
    (r"(?<=\d\.)lambda_(\d)", r"gamma_\1"),
    (r"^embeddings\.(cls_token|class_embedding)$", "cls_token"),
    (r"^class_token$", "cls_token"),
    (r"^(embeddings\.position_embeddings|embeddings\.position_embedding\.weight)$", "pos_embed"),
    (r"^encoder\.pos_embedding$", "pos_embed"),
    (r"^(embeddings\.patch_embeddings\.projection|embeddings\.patch_embedding|conv_proj)\.",
     "patch_embed.proj."),
    (r"^embeddings\.distillation_token$", "dist_token"),
    (r"^embeddings\.register_tokens$", "reg_token"),
    (r"^(layernorm|post_layernorm|encoder\.ln)\.", "norm."),
    (r"^pre_layrnorm\.", "norm_pre."),
    (r"^pooler\.layernorm\.", "fc_norm."),
    (r"^(classifier|cls_classifier|heads\.head|visual_projection)\.", "head."),
    (r"^distillation_classifier\.", "head_dist."),
]  # fmt: skip
# A name that each such network has, after whatever it is wrapped in.
ANCHOR = re.compile(
    rf"(?:^|(?P<outer>.*?)\.)(?:{WRAPPED})*"
    r"(?:embeddings\.patch_embeddings\.projection|embeddings\.patch_embedding|conv_proj)\.weight$"
)
UNUSED = r"^head\.|mask_token|position_ids|position_index|^pooler\.dense|^decoder|^lm_head"
ACTIVATIONS = {"gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh",
               "quick_gelu": "quick_gelu", "relu": "relu"}  # fmt: skip


@dataclass(frozen=True)
class Foreign:
    """How a network of others stands in timm's anatomy: an architecture, its options, and what no
    option says: the `epsilon` of its norms, what its head reads, and what its tensors still need
    once they are named (`last`). Without a `head` its outputs are no classes."""

    timm_name: str
    options: Mapping[str, Any]
    epsilon: float | None = None
    both: bool = False  # its head reads class token and mean patch, one behind the other
    head: bool = True
    last: tuple[Callable[[dict[str, Tensor], int], dict[str, Tensor]], ...] = field(default=())

    def named(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors under timm's names. Raises: ValueError for what has no place there, and for
        one that is missing."""
        found = named_as_timm(tensors)
        for change in self.last:
            side = int(self.options["img_size"]) // int(self.options["patch_size"])
            with _whole():
                found = change(found, side)
        return found


def inside(tensors: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """The tensors of a network of transformers or torchvision, without what it is wrapped in; None
    where there is none."""
    found = [match for match in map(ANCHOR.search, tensors) if match]
    if not found:
        return None
    outer = f"{found[0]['outer']}." if found[0]["outer"] else ""
    return {k.removeprefix(outer): v for k, v in tensors.items() if k.startswith(outer)}


def named_as_timm(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of transformers or torchvision by timm's names, query, key and value as one.

    Raises: ValueError where one of what becomes one is missing.
    """
    found: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        name = key
        while (shorter := re.sub(BEFORE, "", name)) != name:
            name = shorter
        if re.search(UNUSED, name):
            continue
        for pattern, ours in NAMES:
            name = re.sub(pattern, ours, name)
        found[name] = tensor
    if found.get("cls_token", torch.empty(1, 1, 1)).ndim == 1:
        found["cls_token"] = found["cls_token"][None, None]
    if found.get("pos_embed", torch.empty(1, 1, 1)).ndim == 2:
        found["pos_embed"] = found["pos_embed"][None]
    with _whole():
        return _joined(found)


@contextmanager
def _whole() -> Iterator[None]:
    try:
        yield
    except KeyError as lost:
        raise ValueError(f"{lost.args[0]}, in timm's words, is missing") from lost


def _joined(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """One qkv of each block, with BEiT's two biases where keys have none; SwiGLU's gates as one."""
    for name in [name for name in found if name.endswith("attn.q.weight")]:
        block = name.removesuffix("q.weight")
        parts = [found.pop(f"{block}{part}.weight") for part in "qkv"]
        found[f"{block}qkv.weight"] = torch.cat(parts)
        biases = {part: found.pop(f"{block}{part}.bias", None) for part in "qkv"}
        if all(bias is not None for bias in biases.values()):
            found[f"{block}qkv.bias"] = torch.cat(list(biases.values()))
        else:
            found |= {f"{block}{part}_bias": b for part, b in biases.items() if b is not None}
    for name in [name for name in found if ".mlp.gate_proj." in name]:
        up = found.pop(name.replace("gate_proj", "up_proj"))
        found[name.replace("gate_proj", "fc1")] = torch.cat([found.pop(name), up])
    return found


# What is not a matter of names


def class_position(found: dict[str, Tensor], _side: int) -> dict[str, Tensor]:
    """DINOv2 with registers: timm has the class token's position in the token itself."""
    position = found["pos_embed"]
    moved = {"cls_token": found["cls_token"] + position[:, :1], "pos_embed": position[:, 1:]}
    return found | moved


def resized(found: dict[str, Tensor], side: int) -> dict[str, Tensor]:
    """Positions for pictures of another size, as transformers does it in each forward pass."""
    position = found["pos_embed"]
    rest = int(position.shape[1] ** 0.5)  # the side of the largest square among the tokens
    before, patches = position[:, : position.shape[1] - rest**2], position[:, -(rest**2) :]
    if rest == side:
        return found
    grid = patches.unflatten(1, (rest, rest)).permute(0, 3, 1, 2).float()
    made = interpolate(grid, size=(side, side), mode="bicubic", align_corners=False)
    made = made.permute(0, 2, 3, 1).flatten(1, 2).to(position.dtype)
    return found | {"pos_embed": torch.cat([before, made], dim=1)}


def without_norm(found: dict[str, Tensor], _side: int) -> dict[str, Tensor]:
    """CLIP's last norm, which stands behind what its classifier reads."""
    return {key: each for key, each in found.items() if not key.startswith("norm.")}


def registers(found: dict[str, Tensor], _side: int) -> dict[str, Tensor]:
    """A distillation token that no head reads is a register."""
    return {("reg_token" if key == "dist_token" else key): each for key, each in found.items()}


# The families


def _sizes(config: Config, **more: Any) -> dict[str, Any]:
    width = config["hidden_size"]
    inside = config.get("intermediate_size", width * config.get("mlp_ratio", 4))
    act = config.get("hidden_act", "gelu")
    if act not in ACTIVATIONS:
        raise ValueError(
            f"weights: their hidden_act {act!r} is not read here; read are {', '.join(ACTIVATIONS)}"
        )
    return {
        "img_size": config.get("image_size", 224),
        "patch_size": config.get("patch_size", 16),
        "in_chans": config.get("num_channels", 3),
        "embed_dim": width,
        "depth": config["num_hidden_layers"],
        "num_heads": config["num_attention_heads"],
        "mlp_ratio": inside / width,
        **({} if act == "gelu" else {"act_layer": ACTIVATIONS[act]}),
        **more,
    }


def _architecture(config: Config) -> str:
    return (config.get("architectures") or [""])[0]


def _vit(config: Config, _side: int) -> Foreign:
    options = _sizes(config, qkv_bias=config.get("qkv_bias", True))
    head = "ImageClassification" in _architecture(config)
    return Foreign("vit_base_patch16_224", options, config.get("layer_norm_eps", 1e-12), head=head)


def _deit(config: Config, _side: int) -> Foreign:
    options, epsilon = _sizes(config), config.get("layer_norm_eps", 1e-12)
    if "Teacher" in _architecture(config):
        return Foreign("deit_base_distilled_patch16_224", options, epsilon)
    head = "ImageClassification" in _architecture(config)
    options |= {"reg_tokens": 1}
    return Foreign("vit_base_patch16_224", options, epsilon, head=head, last=(registers,))


def _beit(config: Config, _side: int) -> Foreign:
    if config.get("use_shared_relative_position_bias"):
        raise ValueError(
            "weights: BEiT's pretraining, whose blocks share one table of positions, is not read "
            "from transformers' form; take timm's beit_base_patch16_224"
        )
    options = _sizes(
        config,
        use_abs_pos_emb=config.get("use_absolute_position_embeddings", False),
        use_rel_pos_bias=config.get("use_relative_position_bias", False),
        init_values=config.get("layer_scale_init_value", 0.1),
        global_pool="avg" if config.get("use_mean_pooling", True) else "token",
    )
    head = "ImageClassification" in _architecture(config)
    return Foreign("beit_base_patch16_224", options, config.get("layer_norm_eps", 1e-12), head=head)


def _dinov2(config: Config, side: int) -> Foreign:
    tokens = config.get("num_register_tokens", 0)
    options = _sizes(config, qkv_bias=config.get("qkv_bias", True), init_values=1.0, img_size=side)
    name = "vit_base_patch14_reg4_dinov2" if tokens else "vit_base_patch14_dinov2"
    if config.get("use_swiglu_ffn"):
        inside = (int(options["mlp_ratio"] * options["embed_dim"] * 2 / 3) + 7) // 8 * 8
        options["mlp_ratio"] = (2 * inside + 0.5) / options["embed_dim"]
        name = name.replace("base", "giant")
    options |= {"reg_tokens": tokens} if tokens else {}
    head = "ImageClassification" in _architecture(config)
    last = (resized, class_position) if tokens else (resized,)
    return Foreign(
        name, options, config.get("layer_norm_eps", 1e-6), both=head, head=head, last=last
    )


def _siglip(config: Config, _side: int) -> Foreign:
    if "ImageClassification" not in _architecture(config):
        raise ValueError(
            "weights: SigLIP's tower pools by attention of its own, which no method here "
            "explains; take SiglipForImageClassification, or timm's *_siglip_gap_*: both average"
        )
    options = _sizes(_vision(config, "gelu_pytorch_tanh"))
    epsilon = config["vision_config"].get("layer_norm_eps", 1e-6)
    return Foreign("vit_base_patch16_siglip_gap_224", options, epsilon)


def _clip(config: Config, _side: int) -> Foreign:
    vision, kind = _vision(config, "quick_gelu"), _architecture(config)
    options, epsilon = _sizes(vision), vision.get("layer_norm_eps", 1e-5)
    if "ImageClassification" in kind:  # reads the mean of the patches, before the last norm
        options |= {"global_pool": "avg", "final_norm": False}
        last = (without_norm,)
        return Foreign("vit_base_patch32_clip_224", options, epsilon, last=last)
    return Foreign("vit_base_patch32_clip_224", options, epsilon, head=False)


def _vision(config: Config, act: str) -> Config:
    """The image side of a config of two towers, with the defaults of its class."""
    own = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
           "intermediate_size": 3072, "hidden_act": act, "image_size": 224,
           "patch_size": 32 if act == "quick_gelu" else 16}  # fmt: skip
    return own | dict(config.get("vision_config", config))


FAMILIES: dict[str, Callable[[Config, int], Foreign]] = {
    "vit": _vit,
    "vit_msn": _vit,
    "deit": _deit,
    "beit": _beit,
    "data2vec-vision": _beit,
    "dinov2": _dinov2,
    "dinov2_with_registers": _dinov2,
    "siglip": _siglip,
    "clip": _clip,
    "clip_vision_model": _clip,
}

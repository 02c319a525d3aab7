"""CLIP of transformers as a `DualEncoder`: the same weights, the same similarities."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from timm.data import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from relevit.clip.dual import DualEncoder
from relevit.errors import one_line
from relevit.extras import text_extra
from relevit.model_spec import ModelSpec
from relevit.paths import from_project
from relevit.text.convert import CLIP_NAMES, block_tensors, from_clip_text
from relevit.text.tokens import load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CLIP = "clip-b32"  # its folder below weights_root
PAPER_CLIP = "openai/clip-vit-base-patch32"  # Beyond Intuition Sec. 4.2
TIMM_NAME = "vit_base_patch32_clip_quickgelu_224"  # timm's model of the same anatomy
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_ACTIVATIONS = ("quick_gelu", "gelu")


def from_clip(
    model: nn.Module,
    mean: tuple[float, float, float] = OPENAI_CLIP_MEAN,
    std: tuple[float, float, float] = OPENAI_CLIP_STD,
) -> DualEncoder:
    """A `CLIPModel` of transformers, its image side as timm's Vision Transformer, in eval mode.

    `mean` and `std` are of the pixels it was trained with. The weights are copied.
    Raises: ValueError for another architecture or activation.
    """
    try:
        vision = model.config.vision_config
        image = _image_tower(model.state_dict(), vision)
        text = from_clip_text(model)
        projection = nn.Linear(vision.hidden_size, model.config.projection_dim, bias=False)
        projection.to(model.visual_projection.weight)
        projection.load_state_dict(model.visual_projection.state_dict())
        scale = model.logit_scale.detach().exp()
    except (AttributeError, KeyError, RuntimeError) as error:
        raise ValueError(
            f"clip: {type(model).__name__} is not of CLIP's kind: its parts do not fit "
            f"({one_line(error)}); use transformers' CLIPModel"
        ) from error
    image.pretrained_cfg = {"mean": mean, "std": std}
    spec = ModelSpec("clip", TIMM_NAME, vision.image_size, tuple(mean), tuple(std))
    return DualEncoder(image, text, projection, text.head, scale, spec).to(scale.device)


def clip_folder(weights_root: str) -> Path:
    """Folder with PAPER_CLIP's files: `clip-b32` below `weights_root`, or fetched from the hub.

    Raises: FileNotFoundError for a folder that lacks one, ConnectionError when the hub cannot be
    reached, ImportError without the extra `text`.
    """
    if weights_root:
        folder = from_project(weights_root) / CLIP
        _need_files(folder)
        return folder
    with text_extra("12_clip"):
        from huggingface_hub import snapshot_download
    patterns = ["*.json", "model*.safetensors", "merges.txt"]
    try:
        return Path(snapshot_download(PAPER_CLIP, allow_patterns=patterns))
    except Exception as error:  # the hub's errors are of many kinds
        raise ConnectionError(
            f"12_clip: {PAPER_CLIP} cannot be had from the hub ({one_line(error)}); give "
            f"weights_root, a folder with {CLIP}/ and in it config.json, tokenizer.json and "
            f"{WEIGHTS[0]}"
        ) from error


def load_clip(folder: Path) -> tuple[DualEncoder, Tokenizer]:
    """CLIP and its tokenizer from `folder`.

    It has `config.json`, `tokenizer.json` and `model.safetensors`, as the hub has them. No pickle
    is read, and no code of the folder is run. Pixel statistics are those of its
    `preprocessor_config.json`, where it has one, else CLIP's.
    Raises: FileNotFoundError for a missing file, ValueError for a model of another kind,
    ImportError without the extra `text`.
    """
    with text_extra("12_clip"):
        from transformers import CLIPModel
    _need_files(folder)
    tokenizer = load_tokenizer(folder)
    try:
        model = CLIPModel.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ValueError(
            f"clip: {folder} holds no CLIP model that transformers can read ({one_line(error)}); "
            f"copy the files of {PAPER_CLIP} again"
        ) from error
    return from_clip(model.float().eval(), *_pixel_statistics(folder)), tokenizer


def _image_tower(tensors: dict[str, Tensor], config: Any) -> VisionTransformer:
    if config.hidden_act not in _ACTIVATIONS:
        raise ValueError(
            f"clip: activation {config.hidden_act!r} of the image side; known are {_ACTIVATIONS}"
        )
    with torch.random.fork_rng(devices=[]):  # its own random weights are overwritten
        tower = VisionTransformer(
            img_size=config.image_size, patch_size=config.patch_size, in_chans=config.num_channels,
            num_classes=0, embed_dim=config.hidden_size, depth=config.num_hidden_layers,
            num_heads=config.num_attention_heads, pre_norm=True, act_layer=config.hidden_act,
            # Half a unit more, as timm rounds the product down.
            mlp_ratio=(config.intermediate_size + 0.5) / config.hidden_size,
            norm_layer=partial(nn.LayerNorm, eps=config.layer_norm_eps),
        )  # fmt: skip
    source = {k.removeprefix("vision_model."): v for k, v in tensors.items()}
    renamed = {
        "cls_token": source["embeddings.class_embedding"][None, None],
        "pos_embed": source["embeddings.position_embedding.weight"][None],
        "patch_embed.proj.weight": source["embeddings.patch_embedding.weight"],
    }
    for theirs, ours in (("pre_layrnorm", "norm_pre"), ("post_layernorm", "norm")):
        renamed |= {f"{ours}.{kind}": source[f"{theirs}.{kind}"] for kind in ("weight", "bias")}
    for i in range(config.num_hidden_layers):
        start = f"encoder.layers.{i}."
        layer = {k.removeprefix(start): v for k, v in source.items() if k.startswith(start)}
        renamed |= block_tensors(layer, CLIP_NAMES, f"blocks.{i}.")
    tower.to(renamed["pos_embed"]).load_state_dict(renamed)
    return tower.eval()


def _need_files(folder: Path) -> None:
    if not any((folder / name).is_file() for name in WEIGHTS):
        raise FileNotFoundError(
            f"clip: {folder} has no {WEIGHTS[0]}; pickled weights (.bin, .pt) are not read: put "
            f"config.json, tokenizer.json and {WEIGHTS[0]} of {PAPER_CLIP} there"
        )
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"clip: {folder} has no {name}; copy it from where the weights came from"
            )


def _pixel_statistics(folder: Path) -> tuple[tuple[float, ...], tuple[float, ...]]:
    path = folder / "preprocessor_config.json"
    if not path.is_file():
        return OPENAI_CLIP_MEAN, OPENAI_CLIP_STD
    found = json.loads(path.read_text())
    return tuple(found["image_mean"]), tuple(found["image_std"])

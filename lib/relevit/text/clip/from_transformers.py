"""CLIP of transformers as a `DualEncoder`: the same weights, the same similarities.

Also a random one in the paper's shape, so that its preset can be rehearsed without its weights.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timm.data import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from relevit.attention.class_token import with_short_last_block
from relevit.base.errors import one_line, text_extra
from relevit.base.files import from_project
from relevit.base.seeding import seeded
from relevit.models.spec import ModelSpec
from relevit.text.clip.dual import DualEncoder
from relevit.text.convert import CLIP_NAMES, block_tensors, from_clip_text
from relevit.text.pretrained import CUT_BLOCKS, from_hub, read_weights
from relevit.text.tokens import load_tokenizer, word_tokenizer, words_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CLIP = "clip-b32"  # its folder below weights_root
PAPER_CLIP = "openai/clip-vit-base-patch32"  # Beyond Intuition Sec. 4.2
# Its main branch holds a pickle alone. This commit is the hub's own conversion of it, which others
# load by the same id; it was not fetched here.
REVISION = "c237dc49a33fc61debc9276459120b7eac67e7ef"
TIMM_NAME = "vit_base_patch32_clip_quickgelu_224"  # timm's model of the same anatomy
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
FILES = ("config.json", "tokenizer.json")  # beside them
PIXELS = "preprocessor_config.json"
# One line of Python that makes the file from a pickle, which is then read as tensors and no code.
CONVERT = (
    "import torch; from safetensors.torch import save_file; "
    "t = torch.load('pytorch_model.bin', weights_only=True); "
    "save_file({k: v.contiguous() for k, v in t.items()}, 'model.safetensors', {'format': 'pt'})"
)
_ACTIVATIONS = ("quick_gelu", "gelu")
Colour = tuple[float, float, float]  # red, green, blue


def from_clip(
    model: nn.Module, mean: Colour = OPENAI_CLIP_MEAN, std: Colour = OPENAI_CLIP_STD
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
    spec = ModelSpec("clip", TIMM_NAME, vision.image_size, mean, std)
    return DualEncoder(image, text, projection, text.head, scale, spec).to(scale.device)


def clip_folder(weights_root: str) -> Path:
    """Folder with PAPER_CLIP's files: `clip-b32` below `weights_root`, or fetched from the hub.

    Raises: FileNotFoundError for a folder that lacks one, also a fetched one, ConnectionError when
    the hub cannot be reached, ImportError without the extra `text`.
    """
    if weights_root:
        folder = from_project(weights_root) / CLIP
        _need_files(folder, "12_clip: weights_root", "or leave it empty to fetch them")
        return folder
    own = f"give weights_root, a folder with {CLIP}/ and in it {', '.join((*FILES, WEIGHTS[0]))}"
    folder = from_hub("12_clip", PAPER_CLIP, ("*.json", "model*.safetensors"), own, REVISION)
    _need_files(folder, f"12_clip: commit {REVISION[:8]} from the hub", f"or {own}")
    return folder


def load_clip(folder: Path | str) -> tuple[DualEncoder, Tokenizer]:
    """CLIP and its tokenizer from `folder`.

    It has `config.json`, `tokenizer.json` and `model.safetensors`, as the hub has them. No pickle
    is read, and no code of the folder is run. Pixel statistics are those of its
    `preprocessor_config.json`, where it has one, else CLIP's.
    Raises: FileNotFoundError for a missing file, ValueError for a model of another kind or one that
    lacks tensors and for a damaged file, ImportError without the extra `text`.
    """
    with text_extra("12_clip"):
        from transformers import CLIPModel
    folder = Path(folder)
    _need_files(folder, "clip", f"as {PAPER_CLIP} has them")
    tokenizer, statistics = load_tokenizer(folder), _pixel_statistics(folder / PIXELS)
    problem = f"clip: {folder} holds no CLIP model that transformers can read"
    model = read_weights(CLIPModel, folder, problem, f"copy the files of {PAPER_CLIP} again")
    return from_clip(model.float().eval(), *statistics), tokenizer


def random_clip(prompts: Sequence[str], seed: int = 0) -> tuple[DualEncoder, Tokenizer]:
    """Random weights in the shape of ViT-B/32's CLIP, CUT_BLOCKS blocks a side, for rehearsals."""
    from transformers import CLIPConfig, CLIPModel

    tokenizer = word_tokenizer(words_of(prompts))
    first, last = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    text = {
        "vocab_size": tokenizer.get_vocab_size(),
        "num_hidden_layers": CUT_BLOCKS,
        "bos_token_id": first,
        "eos_token_id": last,
        "pad_token_id": 0,
    }
    config = CLIPConfig(text_config=text, vision_config={"num_hidden_layers": CUT_BLOCKS})
    with seeded(seed):
        return from_clip(CLIPModel(config).eval()), tokenizer


def _image_tower(tensors: dict[str, Tensor], config: Any) -> VisionTransformer:
    if config.hidden_act not in _ACTIVATIONS:
        raise ValueError(
            f"clip: activation {config.hidden_act!r} of the image side; known are {_ACTIVATIONS}"
        )
    with seeded(0):  # its own random weights are overwritten
        tower = VisionTransformer(
            img_size=config.image_size,
            patch_size=config.patch_size,
            in_chans=config.num_channels,
            num_classes=0,
            embed_dim=config.hidden_size,
            depth=config.num_hidden_layers,
            num_heads=config.num_attention_heads,
            pre_norm=True,
            act_layer=config.hidden_act,
            # Half a unit more, as timm rounds the product down.
            mlp_ratio=(config.intermediate_size + 0.5) / config.hidden_size,
            norm_layer=partial(nn.LayerNorm, eps=config.layer_norm_eps),
        )
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
    return with_short_last_block(tower.eval())


def _need_files(folder: Path, where: str, remedy: str) -> None:
    """Raise FileNotFoundError unless a folder has weights and FILES."""
    absent = [name for name in FILES if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in WEIGHTS):
        raise FileNotFoundError(
            f"{where}: {folder} has no {', '.join((WEIGHTS[0], *absent))}; pickled weights (.bin, "
            f".pt) are not read: put {WEIGHTS[0]}, {' and '.join(FILES)} there, {remedy}. Where "
            f"there is a pytorch_model.bin alone, run once in its folder: python -c "
            f'"{CONVERT}"'
        )
    if absent:
        raise FileNotFoundError(
            f"{where}: {folder} has no {', '.join(absent)}; copy it from where the weights came "
            f"from, {remedy}"
        )


def _pixel_statistics(path: Path) -> tuple[Colour, Colour]:
    """Mean and standard deviation of red, green and blue, of pixels in [0, 1]."""
    if not path.is_file():
        return OPENAI_CLIP_MEAN, OPENAI_CLIP_STD
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        mean, std = (tuple(map(float, found[key])) for key in ("image_mean", "image_std"))
        if len(mean) != 3 or len(std) != 3 or not min(std) > 0:
            raise ValueError(f"image_mean {mean}, image_std {std}")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"clip: {path} is damaged or of another kind ({one_line(error)}); needed are image_mean"
            " and image_std, three numbers each: copy it again, or delete it to take CLIP's own"
        ) from error
    return mean, std

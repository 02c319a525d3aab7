"""CLIP of transformers as a `DualEncoder`: the same weights, the same similarities.

Also a random one in the paper's shape, so that its preset can be rehearsed without its weights.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import timm
from torch import nn

from relevit.base.errors import PACKAGES, need_packages
from relevit.base.seeding import seeded
from relevit.choices.words import CLIP, CLIP_ON_HUB
from relevit.models.foreign import named_as_timm
from relevit.models.spec import ModelSpec
from relevit.text.clip.dual import DualEncoder
from relevit.text.encoder import from_clip_text
from relevit.text.files import CUT_BLOCKS, model_folder, read_weights
from relevit.text.tokens import load_tokenizer, word_tokenizer, words_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import CLIPModel

# Its main branch holds a pickle alone. This commit is the hub's own conversion of it, which others
# load by the same id; it was not fetched here.
REVISION = "c237dc49a33fc61debc9276459120b7eac67e7ef"
TIMM_NAME = "vit_base_patch32_clip_quickgelu_224"  # timm's model of the same anatomy
FILES = ("config.json", "tokenizer.json", "model.safetensors")
PIXELS = "preprocessor_config.json"
# One line of Python that makes the file from a pickle, which is then read as tensors and no code.
CONVERT = (
    "import torch; from safetensors.torch import save_file; "
    "t = torch.load('pytorch_model.bin', weights_only=True); "
    "save_file({k: v.contiguous() for k, v in t.items()}, 'model.safetensors', {'format': 'pt'})"
)


def from_clip(
    model: CLIPModel,
    mean: Sequence[float] = timm.data.OPENAI_CLIP_MEAN,
    std: Sequence[float] = timm.data.OPENAI_CLIP_STD,
) -> DualEncoder:
    """A CLIP of transformers, its image side as timm's Vision Transformer, in eval mode.

    `mean` and `std` are of the pixels it was trained with. The weights are copied.
    """
    image, text = _image_tower(model), from_clip_text(model)
    image.head = copy.deepcopy(model.visual_projection)
    image.pretrained_cfg = {"mean": tuple(mean), "std": tuple(std)}
    side = model.config.vision_config.image_size
    spec = ModelSpec("clip", TIMM_NAME, side, tuple(mean), tuple(std))
    scale = model.logit_scale.detach().exp()
    return DualEncoder(image, text, scale, spec).to(scale.device)


def clip_folder(weights_root: str) -> Path:
    """Folder with CLIP's files: `clip-b32` below `weights_root`, or fetched from the hub."""
    note = (
        ". Pickled weights (.bin, .pt) are not read: where there is a pytorch_model.bin alone, run "
        f'once in its folder: python -c "{CONVERT}"'
    )
    about = {"more": [PIXELS], "revision": REVISION, "note": note}
    return model_folder("09_text", weights_root, CLIP, CLIP_ON_HUB, FILES, **about)


def load_clip(folder: Path, user: str = "09_text") -> tuple[DualEncoder, Tokenizer]:
    """CLIP and its tokenizer from `clip_folder`. No pickle is read, and no code of it is run.

    Pixel statistics are those of its `preprocessor_config.json`, where it has one, else CLIP's.
    """
    need_packages(user, "text", *PACKAGES)
    from transformers import CLIPImageProcessor, CLIPModel

    model = read_weights(user, CLIPModel, folder)
    told = (folder / PIXELS).is_file()
    pixels = CLIPImageProcessor.from_pretrained(folder) if told else CLIPImageProcessor()
    dual = from_clip(model.float().eval(), pixels.image_mean, pixels.image_std)
    return dual, load_tokenizer(folder)


def random_clip(prompts: Sequence[str], seed: int = 0) -> tuple[DualEncoder, Tokenizer]:
    """Random weights in the shape of ViT-B/32's CLIP, CUT_BLOCKS blocks a side, for rehearsals."""
    need_packages("09_text", "text", *PACKAGES)
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


def _image_tower(model: CLIPModel) -> nn.Module:
    config = model.config.vision_config
    with seeded(0):  # its own random weights are overwritten
        tower = timm.create_model(
            TIMM_NAME,
            num_classes=0,
            img_size=config.image_size,
            patch_size=config.patch_size,
            embed_dim=config.hidden_size,
            depth=config.num_hidden_layers,
            num_heads=config.num_attention_heads,
            act_layer=config.hidden_act,
            # Half a unit more, as timm rounds the product down.
            mlp_ratio=(config.intermediate_size + 0.5) / config.hidden_size,
        )
    tensors = named_as_timm(model.vision_model.state_dict())
    tower.to(tensors["pos_embed"]).load_state_dict(tensors)
    return tower.eval()

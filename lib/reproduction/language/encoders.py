"""CLIP as the parameters of 09_text and 09a_text ask for it.

Source: Beyond Intuition Sec. 4.2 (CLIP ViT-B/32).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor, nn

from habitats.prompts import prompt
from relevit.base.device import choose_device
from relevit.protocols import options
from relevit.text.clip.dual import DualEncoder
from relevit.text.clip.from_transformers import CLIP, clip_folder, load_clip, random_clip
from reproduction.params.cells import Params

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class Encoder:
    """A dual encoder with one prompt a class."""

    dual: DualEncoder
    tokenizer: Tokenizer
    prompts: tuple[str, ...]
    name: str = CLIP

    def texts(self) -> Float[Tensor, "classes features"]:
        """Features of the prompts."""
        return self.dual.embed_phrases(self.tokenizer, self.prompts)

    def classifier(self) -> nn.Module:
        """The image side as a classifier whose classes are the prompts."""
        return self.dual.image_classifier(self.texts())


def ready_encoder(cfg: Params, classes: Sequence[str]) -> Encoder:
    """CLIP as published, or with `source` random two blocks of its shape, on `cfg.device`.

    `cfg` is of 09_text.
    """
    prompts = tuple(map(partial(prompt, **options(cfg.protocol, "prompt")), classes))
    if cfg.source == "random":
        dual, tokenizer = random_clip(prompts, cfg.seed)
    else:
        dual, tokenizer = load_clip(clip_folder(cfg.weights_root))
    return Encoder(dual.to(choose_device(cfg.device)), tokenizer, prompts)

"""A random CLIP in the paper's shape, so that its preset can be rehearsed without its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relevit.base.seeding import seeded
from relevit.text.clip.dual import DualEncoder
from relevit.text.clip.from_transformers import from_clip
from relevit.text.tokens import word_tokenizer, words_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CUT_BLOCKS = 2  # of each side


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

"""A tiny random CLIP of transformers, and texts for it."""

from __future__ import annotations

import torch
from torch import nn

from ..builders import tokens

FIRST, END = 48, 49  # the tokens around every text


def hf_clip(*, act="quick_gelu", words=50, end=END, attention="sdpa", **vision):
    """`CLIPModel` in float64 with weights that are far from zero, sizes that nobody would guess.

    `attention="eager"` keeps its maps, whose softmax it rounds to float32.
    """
    import transformers

    text = {"hidden_size": 16, "intermediate_size": 22, "num_hidden_layers": 3, "hidden_act": act}
    text |= {"num_attention_heads": 2, "vocab_size": words, "max_position_embeddings": 9}
    text |= {"bos_token_id": FIRST, "eos_token_id": end, "pad_token_id": 1}
    image = {"hidden_size": 24, "intermediate_size": 50, "num_hidden_layers": 4, "hidden_act": act}
    image |= {"num_attention_heads": 3, "image_size": 28, "patch_size": 7} | vision
    config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=10)
    config._attn_implementation = attention
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = transformers.CLIPModel(config).double().eval()
        for name, weights in model.named_parameters():
            if name != "logit_scale":
                nn.init.normal_(weights, std=0.3)
    return model


def text(*ids):
    """Tokens of one text: these ids between the two special ones."""
    return tokens(*ids, ends=(FIRST, END))


TEXTS = (text(3, 4, 5), text(7), text(9, 9, 1, 2))


def images(count=3):
    return torch.randn(count, 3, 28, 28, generator=torch.Generator().manual_seed(5)).double()


def theirs(model, pixels, texts, **options):
    """What transformers answers, texts padded to one length."""
    most = max(map(len, texts))
    ids = torch.tensor([[*t.ids, *[1] * (most - len(t))] for t in texts])
    mask = torch.tensor([[1] * len(t) + [0] * (most - len(t)) for t in texts])
    return model(input_ids=ids, attention_mask=mask, pixel_values=pixels, **options)

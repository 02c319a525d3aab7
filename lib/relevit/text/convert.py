"""Models of transformers as `TextTransformer`: the same weights, the same answers.

One encoder serves all methods: with the anatomy of timm's ViT the code for images explains texts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from relevit.base.seeding import seeded
from relevit.text.encoder import Pooler, Reads, TextBlock, TextTransformer, TokenEmbedding

_BERT_NAMES = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "attn.proj",
    "attention.output.LayerNorm": "post_norm1",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
    "output.LayerNorm": "post_norm2",
}
CLIP_NAMES = {
    "self_attn.q_proj": "q",
    "self_attn.k_proj": "k",
    "self_attn.v_proj": "v",
    "self_attn.out_proj": "attn.proj",
    "layer_norm1": "norm1",
    "layer_norm2": "norm2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
_KINDS = ("weight", "bias")


@seeded(0)  # new layers draw weights, which are overwritten
def from_bert(
    model: nn.Module, *, classes: int | None = None, reads: Reads = "first", seed: int = 0
) -> TextTransformer:
    """BERT or MiniLM of transformers (`BertModel`, or one with its classifier), in eval mode.

    With its classifier when it has one. Otherwise a head for `classes` is drawn from `seed`, or
    without these the head is the identity. `reads="mean"` leaves the pooler out.
    """
    config = model.config
    plain = getattr(config, "position_embedding_type", None) in (None, "absolute")
    if config.model_type != "bert" or config.is_decoder or not plain:
        raise ValueError(
            f"text: {type(model).__name__} is of the kind {config.model_type!r}; needed is an "
            "encoder of BERT's with absolute positions: use transformers' BertModel, or "
            "BertForSequenceClassification"
        )
    encoder = getattr(model, "bert", model)
    width, drop = config.hidden_size, config.hidden_dropout_prob
    source = encoder.embeddings.state_dict()
    words, positions = (source[f"{kind}_embeddings.weight"] for kind in ("word", "position"))
    norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
    dropped = {"drop": drop, "attn_drop": config.attention_probs_dropout_prob}
    result = TextTransformer(
        TokenEmbedding(len(words), len(positions), width, norm=norm, drop=drop),
        _blocks(config, norm_first=False, **dropped),
        head=nn.Identity(),
        reads=reads,
        pad_id=config.pad_token_id or 0,
    )
    tensors = {
        "embedding.words.weight": words,
        # Every token of a single text has the first type: it is part of the positions here.
        "embedding.positions.weight": positions + source["token_type_embeddings.weight"][0],
    }
    tensors |= {f"embedding.norm.{kind}": source[f"LayerNorm.{kind}"] for kind in _KINDS}
    for i, layer in enumerate(encoder.encoder.layer):
        tensors |= block_tensors(layer, _BERT_NAMES, f"blocks.{i}.")
    _fill(result, tensors)
    if reads == "first" and encoder.pooler is not None:
        result.fc_norm = Pooler(width, drop)
        _fill(result.fc_norm.dense, encoder.pooler.dense.state_dict())
    if getattr(model, "classifier", None) is not None:
        result.head = copy.deepcopy(model.classifier)
    elif classes is not None:
        with seeded(seed):
            result.head = nn.Linear(width, classes)
            nn.init.normal_(result.head.weight, std=0.02)
            nn.init.zeros_(result.head.bias)
    return result.to(encoder.device).eval()


@seeded(0)
def from_clip_text(model: nn.Module) -> TextTransformer:
    """The text tower of transformers' `CLIPModel`, in timm's anatomy, eval mode.

    The head is the projection into the space that both towers share.
    """
    config, source = model.config.text_config, model.text_model.state_dict()
    words = source["embeddings.token_embedding.weight"]
    positions = source["embeddings.position_embedding.weight"]
    result = TextTransformer(
        TokenEmbedding(len(words), *positions.shape),
        _blocks(config, norm_first=True),
        head=nn.Identity(),
        norm=nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
        reads="last",
        family="clip",
        pad_id=config.pad_token_id or 0,
    )
    tensors = {"embedding.words.weight": words, "embedding.positions.weight": positions}
    tensors |= {f"norm.{kind}": source[f"final_layer_norm.{kind}"] for kind in _KINDS}
    for i, layer in enumerate(model.text_model.encoder.layers):
        tensors |= block_tensors(layer, CLIP_NAMES, f"blocks.{i}.")
    _fill(result, tensors)
    result.head = copy.deepcopy(model.text_projection)
    return result.to(words).eval()


def block_tensors(layer: nn.Module, names: Mapping[str, str], prefix: str) -> dict[str, Tensor]:
    """One block's tensors under timm's names, query, key and value joined."""
    source, result = layer.state_dict(), {}
    for kind in _KINDS:
        parts = {ours: source[f"{theirs}.{kind}"] for theirs, ours in names.items()}
        joint = torch.cat([parts.pop(part) for part in ("q", "k", "v")])
        result |= {f"{prefix}{ours}.{kind}": tensor for ours, tensor in parts.items()}
        result[f"{prefix}attn.qkv.{kind}"] = joint
    return result


def _blocks(config: Any, **options: Any) -> list[TextBlock]:
    from transformers.activations import ACT2FN

    made = ACT2FN[config.hidden_act]
    # timm builds its layer from a class; exact GELU is torch's own.
    act = nn.GELU if config.hidden_act == "gelu" else lambda: type(made)()
    sizes = config.hidden_size, config.num_attention_heads, config.intermediate_size
    options |= {"eps": config.layer_norm_eps, "act": act}
    return [TextBlock(*sizes, **options) for _ in range(config.num_hidden_layers)]


def _fill(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load all tensors of a module in their own precision."""
    module.to(next(iter(tensors.values())).dtype).load_state_dict(dict(tensors))

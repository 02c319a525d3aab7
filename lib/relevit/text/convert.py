"""Models of transformers as `TextTransformer`: the same weights, the same answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from relevit.base.seeding import seeded
from relevit.text.encoder import Pooler, Reads, TextBlock, TextTransformer, TokenEmbedding

# Their positions begin after the padding token's.
_COUNTED_FROM_PADDING = ("roberta", "xlm-roberta", "camembert")
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
_KINDS = ("weight", "bias")
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


def from_bert(
    model: nn.Module, *, classes: int | None = None, reads: Reads = "first", seed: int = 0
) -> TextTransformer:
    """A BERT-type encoder of transformers (BERT, MiniLM, RoBERTa) in timm's anatomy, eval mode.

    With its classifier when it has one. Otherwise a head for `classes` is drawn from `seed`, or
    without these the head is the identity. `reads="mean"` leaves the pooler out.
    Raises: ValueError for another architecture: one whose parts are named differently, or whose
    answers, compared on a short text, turn out different.
    """
    encoder = getattr(model, getattr(model, "base_model_prefix", ""), model)
    config = model.config
    try:
        with seeded(seed):  # random weights that are overwritten are drawn, too
            result = _bert(encoder, config, reads)
            tensors = _bert_embedding(encoder.state_dict(), result.embedding)
            for i, layer in enumerate(encoder.encoder.layer):
                tensors |= block_tensors(layer.state_dict(), _BERT_NAMES, f"blocks.{i}.")
            _fill(result, tensors)
            _bert_head(result, model, encoder, classes, seed)
    except (AttributeError, KeyError, RuntimeError) as error:
        raise ValueError(_unknown(model, f"its parts do not fit ({error})")) from error
    result = result.to(encoder.device).eval()
    _check_answers(model, encoder, result)
    return result


def from_clip_text(model: nn.Module) -> TextTransformer:
    """The text tower of transformers' CLIP, up to its projection, in timm's anatomy, eval mode.

    The head is the projection into the space that both towers share, where there is one.
    Raises: ValueError for another architecture.
    """
    tower = getattr(model, "text_model", model)
    config = getattr(model.config, "text_config", model.config)
    try:
        source = tower.state_dict()
        words = source["embeddings.token_embedding.weight"]
        positions = source["embeddings.position_embedding.weight"]
        with seeded(0):  # random weights that are overwritten are drawn, too
            result = TextTransformer(
                TokenEmbedding(*words.shape[:1], *positions.shape),
                _blocks(config, norm_first=True),
                head=nn.Identity(),
                norm=nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
                reads="last",
                family="clip",
                pad_id=getattr(config, "pad_token_id", None) or 0,
            )
        tensors = {"embedding.words.weight": words, "embedding.positions.weight": positions}
        tensors |= {f"norm.{kind}": source[f"final_layer_norm.{kind}"] for kind in _KINDS}
        for i, layer in enumerate(tower.encoder.layers):
            tensors |= block_tensors(layer.state_dict(), CLIP_NAMES, f"blocks.{i}.")
        _fill(result, tensors)
        result.head = _copied(getattr(model, "text_projection", None))
    except (AttributeError, KeyError, RuntimeError) as error:
        raise ValueError(_unknown(model, f"its parts do not fit ({error})")) from error
    return result.to(words).eval()


def block_tensors(
    source: Mapping[str, Tensor], names: Mapping[str, str], prefix: str = ""
) -> dict[str, Tensor]:
    """One block's tensors under timm's names, query, key and value joined."""
    result = {}
    for kind in _KINDS:
        parts = {ours: source[f"{theirs}.{kind}"] for theirs, ours in names.items()}
        joint = torch.cat([parts.pop(part) for part in ("q", "k", "v")])
        result |= {f"{prefix}{ours}.{kind}": tensor for ours, tensor in parts.items()}
        result[f"{prefix}attn.qkv.{kind}"] = joint
    return result


def _bert(encoder: nn.Module, config: Any, reads: Reads) -> TextTransformer:
    width, drop = config.hidden_size, config.hidden_dropout_prob
    first = config.pad_token_id + 1 if config.model_type in _COUNTED_FROM_PADDING else 0
    positions = encoder.embeddings.position_embeddings.num_embeddings
    norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
    attn_drop = config.attention_probs_dropout_prob
    return TextTransformer(
        TokenEmbedding(config.vocab_size, positions, width, first=first, norm=norm, drop=drop),
        _blocks(config, norm_first=False, drop=drop, attn_drop=attn_drop),
        head=nn.Identity(),
        reads=reads,
        pad_id=config.pad_token_id or 0,
    )


def _blocks(config: Any, **options: Any) -> list[TextBlock]:
    sizes = config.hidden_size, config.num_attention_heads, config.intermediate_size
    options |= {"eps": config.layer_norm_eps, "act": _activation(config.hidden_act)}
    return [TextBlock(*sizes, **options) for _ in range(config.num_hidden_layers)]


def _bert_embedding(source: Mapping[str, Tensor], embedding: TokenEmbedding) -> dict[str, Tensor]:
    # Every token of a single text has the first type: it is part of the positions here.
    positions = source["embeddings.position_embeddings.weight"]
    kinds = source.get("embeddings.token_type_embeddings.weight")
    return {
        "embedding.words.weight": source["embeddings.word_embeddings.weight"],
        "embedding.positions.weight": positions if kinds is None else positions + kinds[0],
        "embedding.norm.weight": source["embeddings.LayerNorm.weight"],
        "embedding.norm.bias": source["embeddings.LayerNorm.bias"],
    }


def _bert_head(
    result: TextTransformer, model: nn.Module, encoder: nn.Module, classes: int | None, seed: int
) -> None:
    """The pooler and the classifier, wherever they are, or a new one."""
    width, drop = model.config.hidden_size, model.config.hidden_dropout_prob
    classifier = getattr(model, "classifier", None)
    dense = getattr(classifier, "dense", None)  # RoBERTa's head is both
    if dense is None and getattr(encoder, "pooler", None) is not None:
        dense = encoder.pooler.dense
    if result.reads == "first" and dense is not None:
        result.fc_norm = Pooler(width, drop)
        _fill(result.fc_norm.dense, dense.state_dict())
    if classifier is not None:
        result.head = _copied(getattr(classifier, "out_proj", classifier))
    elif classes is not None:
        with seeded(seed):
            result.head = nn.Linear(width, classes)
            nn.init.normal_(result.head.weight, std=0.02)
            nn.init.zeros_(result.head.bias)


def _activation(name: str) -> Callable[[], nn.Module]:
    from transformers.activations import ACT2FN

    made = ACT2FN[name]
    # timm builds its layer from a class; exact GELU is torch's own.
    return nn.GELU if name == "gelu" else lambda: type(made)()


def _copied(layer: nn.Module | None) -> nn.Module:
    if layer is None:
        return nn.Identity()
    made = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None)
    _fill(made, layer.state_dict())
    return made


def _fill(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load tensors in their own precision. Raises: RuntimeError where one does not fit."""
    if tensors:
        module.to(next(iter(tensors.values())).dtype)
    expected = set(module.state_dict())
    missing = module.load_state_dict(dict(tensors), strict=False)
    if missing.unexpected_keys or expected & set(missing.missing_keys):
        raise RuntimeError(f"keys {missing}")


@torch.no_grad()
def _check_answers(model: nn.Module, encoder: nn.Module, made: TextTransformer) -> None:
    """Compare with transformers on one short text, where both compute the same thing."""
    count = min(8, made.limit)
    known = made.embedding.words.num_embeddings
    ids = torch.arange(count, device=encoder.device)[None] * 7 % known
    ids[ids == made.pad_id] = (made.pad_id + 1) % known
    training = model.training
    model.eval()
    try:
        theirs = encoder(input_ids=ids).last_hidden_state
        if getattr(model, "classifier", None) is not None and made.reads == "first":
            theirs, ours = model(input_ids=ids).logits, made(made.embed(ids))
        else:
            tokens = made.embed(ids)
            for block in made.blocks:
                tokens = block(tokens)
            ours = made.norm(tokens)
    finally:
        model.train(training)
    limit = torch.finfo(ours.dtype).eps ** 0.5 * theirs.abs().amax().clamp(min=1)
    if ours.shape != theirs.shape or bool((ours - theirs).abs().amax() > limit):
        raise ValueError(_unknown(model, "it answers differently with the parts of BERT"))


def _unknown(model: nn.Module, why: str) -> str:
    return (
        f"text: {type(model).__name__} is not of BERT's or CLIP's kind: {why}; use transformers' "
        "BertModel, RobertaModel, CLIPModel, or one that takes sequences of these with its head"
    )

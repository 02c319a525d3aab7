"""Text encoders of transformers, called with embedded tokens as a ViT is with images.

Their own blocks stand where timm's Vision Transformer has its, and their attention goes through a
layer in which it is recorded: so every attribution of images explains texts.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from relevit.base.errors import PACKAGES, need_packages
from relevit.base.seeding import seeded
from relevit.text.tokens import Tokens, same_length

Reads = Literal["first", "mean", "last"]
ATTENTION = "relevit"  # among the implementations that transformers knows
# Where a block has what timm's has under these names.
BERT_PARTS = {
    "attn": "attention.self",
    "attn.qkv": "attention.self.value",
    "attn.proj": "attention.output.dense",
    "post_norm1": "attention.output.LayerNorm",
}
CLIP_PARTS = {
    "attn": "self_attn",
    "attn.qkv": "self_attn.v_proj",
    "attn.proj": "self_attn.out_proj",
    "norm1": "layer_norm1",
}


class TextTransformer(nn.Module):
    """The parts of a text encoder of transformers, and a head for what it reads.

    `reads` is what the head sees: the `first` token (BERT's class token), the `mean` over all
    tokens (sentence encoders) or the `last` one (CLIP, whose attention is causal). There the
    tokens are reordered so that the last comes first: then it stands where a class token does.
    Attributions are made of whole texts, without padding; `mask` is for answers alone.
    """

    def __init__(
        self,
        embedding: nn.Module,
        blocks: nn.ModuleList,
        *,
        head: nn.Module,
        norm: nn.Module | None = None,
        pooler: nn.Module | None = None,
        reads: Reads = "first",
        family: str = "bert",
        pad_id: int | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.blocks = embedding, blocks
        self.norm, self.fc_norm, self.head = norm or nn.Identity(), pooler or nn.Identity(), head
        self.reads, self.family, self.pad_id = reads, family, pad_id or 0
        self.has_class_token = reads != "mean"
        self.num_prefix_tokens = int(self.has_class_token)
        self.global_pool = "token" if self.has_class_token else "avg"
        self.part_names = BERT_PARTS if hasattr(blocks[0], "attention") else CLIP_PARTS
        for block in blocks:
            layer = block.get_submodule(self.part_names["attn"])
            layer.attn_drop = nn.Dropout(getattr(layer.dropout, "p", layer.dropout))
            layer.fused_attn, layer.qkv = True, None  # three layers in place of timm's one

    @property
    def limit(self) -> int:
        """The longest text in tokens, special ones included."""
        return self.embedding.position_ids.shape[1]

    @property
    def words(self) -> nn.Embedding:
        """The embedding of token ids."""
        return next(part for part in self.embedding.children() if isinstance(part, nn.Embedding))

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.words.weight.device

    def embed(
        self, ids: Int[Tensor, "batch tokens"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        """Embedded tokens, in the order that the blocks see them.

        `mask` is False on padding, which comes last; only `reads="last"` needs it here.
        """
        embedded = self.embedding(ids)
        return embedded if self.reads != "last" else _last_first(embedded, mask)

    def forward(
        self,
        embedded: Float[Tensor, "batch tokens width"],
        mask: Bool[Tensor, "batch tokens"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """Logits; where `mask` is False nothing is attended to, nor averaged."""
        tokens, bias = embedded, self._bias(embedded, mask)
        for block in self.blocks:
            tokens = block(tokens, bias)
        return self.forward_head(self.norm(tokens), mask)

    def forward_head(
        self,
        tokens: Float[Tensor, "batch tokens width"],
        mask: Bool[Tensor, "batch tokens"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """Logits of tokens that have passed the last norm, as timm's models have it."""
        if self.reads != "mean":
            pooled = tokens[:, 0]
        elif mask is None:
            pooled = tokens.mean(dim=1)
        else:
            kept = mask.to(tokens)[..., None]
            pooled = (tokens * kept).sum(dim=1) / kept.sum(dim=1)
        return self.head(self.fc_norm(pooled))

    def path_baseline(
        self, embedded: Float[Tensor, "batch tokens width"]
    ) -> Float[Tensor, "1 tokens width"]:
        """As many padding tokens, embedded: where Beyond Intuition's path starts (D9)."""
        ids = torch.full((1, embedded.shape[1]), self.pad_id, device=embedded.device)
        return self.embed(ids).to(embedded).detach()

    def _bias(self, embedded: Tensor, mask: Tensor | None) -> Tensor | None:
        """What is added to attention before the softmax: minus infinity where none may go."""
        seen = None if mask is None else mask[:, None, None, :]
        if self.reads == "last":
            causal = _causal(embedded.shape[1], embedded.device)
            seen = causal if seen is None else causal & seen
        if seen is None:
            return None
        return torch.zeros_like(seen, dtype=embedded.dtype).masked_fill(~seen, -torch.inf)


def from_bert(
    model: nn.Module, *, classes: int | None = None, reads: Reads = "first", seed: int = 0
) -> TextTransformer:
    """BERT or MiniLM of transformers (`BertModel`, or one with its classifier), in eval mode.

    It is copied. With its classifier when it has one; otherwise a head for `classes` is drawn from
    `seed`, or without these the head is the identity. `reads="mean"` leaves the pooler out.
    """
    config = model.config
    plain = getattr(config, "position_embedding_type", None) in (None, "absolute")
    if config.model_type != "bert" or config.is_decoder or not plain:
        raise ValueError(
            f"text: {type(model).__name__} is of the kind {config.model_type!r}; needed is an "
            "encoder of BERT's with absolute positions: use transformers' BertModel, or "
            "BertForSequenceClassification"
        )
    model = recordable(model)
    encoder, head = getattr(model, "bert", model), getattr(model, "classifier", None)
    # A single text has one type, a constant: in training it would double the rate of positions.
    encoder.embeddings.token_type_embeddings.requires_grad_(False)
    if head is None and classes is not None:
        with seeded(seed):
            head = nn.Linear(config.hidden_size, classes)
            nn.init.normal_(head.weight, std=0.02)
            nn.init.zeros_(head.bias)
    pooler = None
    if reads == "first" and encoder.pooler is not None:
        parts = dict(encoder.pooler.named_children())  # of all tokens, where one is read here
        pooler = nn.Sequential(OrderedDict(parts, drop=nn.Dropout(config.hidden_dropout_prob)))
    return TextTransformer(
        encoder.embeddings,
        encoder.encoder.layer,
        head=nn.Identity() if head is None else head.to(encoder.device),
        pooler=pooler,
        reads=reads,
        pad_id=config.pad_token_id,
    ).eval()


def from_clip_text(model: nn.Module) -> TextTransformer:
    """The text tower of transformers' `CLIPModel`, copied, in eval mode.

    The head is the projection into the space that both towers share.
    """
    model = recordable(model)
    tower = model.text_model
    return TextTransformer(
        tower.embeddings,
        tower.encoder.layers,
        head=model.text_projection,
        norm=tower.final_layer_norm,
        reads="last",
        family="clip",
        pad_id=model.config.text_config.pad_token_id,
    ).eval()


def build_tiny(
    words: int,
    classes: int,
    *,
    width: int = 64,
    depth: int = 2,
    heads: int = 4,
    positions: int = 128,
    reads: Reads = "first",
    drop: float = 0.0,
    seed: int = 0,
) -> TextTransformer:
    """A small BERT with random weights; torch's own seed is left alone.

    Its weights are drawn as torch draws a layer's: transformers' own, of one small size whatever
    the width, are meant for large models.
    """
    need_packages("09_text", "text", *PACKAGES)
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=positions,
        type_vocab_size=1,
        hidden_dropout_prob=drop,
        attention_probs_dropout_prob=drop,
    )
    with seeded(seed):
        result = from_bert(BertModel(config), classes=classes, reads=reads)
    table = result.embedding
    with seeded(seed), torch.no_grad():
        table.token_type_embeddings.weight.zero_()
        nn.init.normal_(table.word_embeddings.weight)
        nn.init.normal_(table.position_embeddings.weight)
        for block in result.blocks:
            own = block.attention.self
            joint = nn.Linear(width, 3 * width).state_dict()
            for kind, tensor in joint.items():
                for layer, part in zip(
                    (own.query, own.key, own.value), tensor.chunk(3), strict=True
                ):
                    getattr(layer, kind).copy_(part)
            for part in (block.attention.output, block.intermediate, block.output):
                part.dense.reset_parameters()
        result.head.reset_parameters()
        if reads == "first":
            result.fc_norm.dense.reset_parameters()
    return result


@torch.no_grad()
def text_logits(model: TextTransformer, texts: Sequence[Tokens]) -> Float[Tensor, "texts classes"]:
    """What a model makes of texts, detached; those of one length are run together.

    Nothing is padded: what is made of a text does not depend on the others.
    """
    made: dict[int, Tensor] = {}
    for places in same_length(texts):
        ids = torch.tensor([texts[i].ids for i in places], device=model.device)
        made |= dict(zip(places, model(model.embed(ids)), strict=True))
    return torch.stack([made[i] for i in range(len(texts))])


def recordable(model: nn.Module) -> nn.Module:
    """A copy of a model of transformers whose attention can be recorded."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attend)
    model = copy.deepcopy(model)
    model.set_attn_implementation(ATTENTION)
    return model


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention as timm's: fused, or step by step with its map going through `attn_drop`."""
    if module.fused_attn:
        drop = module.attn_drop.p if module.training else 0.0
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=drop)
    else:
        scores = query * scaling @ key.transpose(-2, -1)
        scores = scores if bias is None else scores + bias
        mixed = module.attn_drop(scores.softmax(dim=-1)) @ value
    return mixed.transpose(1, 2), None


def _last_first(embedded: Tensor, mask: Tensor | None) -> Tensor:
    """Each text's last token, then the others; what follows them is padding."""
    batch, count, width = embedded.shape
    last = embedded.new_full((batch,), count, dtype=torch.long) if mask is None else mask.sum(dim=1)
    others = torch.arange(count - 1, device=embedded.device).expand(batch, -1)
    order = torch.cat([(last - 1)[:, None], others], dim=1)
    return embedded.gather(1, order[..., None].expand(-1, -1, width))


def _causal(count: int, device: torch.device) -> Bool[Tensor, "tokens tokens"]:
    """Tokens attend to themselves and to earlier ones; the first here is the text's last."""
    allowed = torch.ones(count, count, dtype=torch.bool, device=device).tril()
    allowed[0], allowed[1:, 0] = True, False
    return allowed

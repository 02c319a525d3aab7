"""Text encoders with the anatomy of timm's Vision Transformer, so that one method serves both.

An attribution takes a batch of embedded tokens where it takes images otherwise: `blocks`,
`attn.qkv`, `attn.attn_drop`, `mlp.fc1` and the tokens that the head reads are where timm has
them. `relevit.text.convert` makes such a model out of one of transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from timm.layers import Attention, Mlp
from torch import Tensor, nn

from relevit.base.seeding import seeded
from relevit.text.tokens import Tokens, same_length

Reads = Literal["first", "mean", "last"]


class TokenEmbedding(nn.Module):
    """Words plus positions (plus the first token type), normalised as BERT does or not."""

    def __init__(
        self,
        words: int,
        positions: int,
        width: int,
        *,
        norm: nn.Module | None = None,
        drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(positions, width)
        self.norm, self.drop = norm or nn.Identity(), nn.Dropout(drop)

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens width"]:
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.drop(self.norm(self.words(ids) + self.positions(places)))


class TextBlock(nn.Module):
    """Attention and MLP with residuals; norms before each (CLIP) or after each sum (BERT)."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        norm_first: bool,
        eps: float = 1e-12,
        act: Callable[[], nn.Module] = nn.GELU,
        drop: float = 0.0,
        attn_drop: float = 0.0,
    ) -> None:
        super().__init__()
        norms = [nn.LayerNorm(width, eps=eps) for _ in range(2)]
        none = [nn.Identity(), nn.Identity()]
        self.norm1, self.norm2 = norms if norm_first else none
        self.post_norm1, self.post_norm2 = none if norm_first else norms
        self.attn = Attention(width, heads, qkv_bias=True, attn_drop=attn_drop, proj_drop=drop)
        self.mlp = Mlp(width, hidden, act_layer=act, drop=(0.0, drop))

    def forward(
        self, tokens: Float[Tensor, "batch tokens width"], bias: Tensor | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        tokens = self.post_norm1(tokens + self.attn(self.norm1(tokens), attn_mask=bias))
        return self.post_norm2(tokens + self.mlp(self.norm2(tokens)))


class Pooler(nn.Module):
    """BERT's layer between the class token and the head: linear, tanh, dropout."""

    def __init__(self, width: int, drop: float = 0.0) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.drop = nn.Dropout(drop)

    def forward(self, pooled: Float[Tensor, "batch width"]) -> Float[Tensor, "batch width"]:
        return self.drop(torch.tanh(self.dense(pooled)))


class TextTransformer(nn.Module):
    """A text encoder and its head, called with embedded tokens as a ViT is with images.

    `reads` is what the head sees: the `first` token (BERT's class token), the `mean` over all
    tokens (sentence encoders) or the `last` one (CLIP, whose attention is causal). There the
    tokens are reordered so that the last comes first: then it stands where a class token does.
    Attributions are made of whole texts, without padding; `mask` is for answers alone.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        blocks: Sequence[TextBlock],
        *,
        head: nn.Module,
        norm: nn.Module | None = None,
        pooler: nn.Module | None = None,
        reads: Reads = "first",
        family: str = "bert",
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        self.embedding, self.blocks = embedding, nn.ModuleList(blocks)
        self.norm, self.fc_norm, self.head = norm or nn.Identity(), pooler or nn.Identity(), head
        self.reads, self.family, self.pad_id = reads, family, pad_id
        self.has_class_token = reads != "mean"
        self.num_prefix_tokens = int(self.has_class_token)
        self.global_pool = "token" if self.has_class_token else "avg"

    @property
    def limit(self) -> int:
        """The longest text in tokens, special ones included."""
        return self.embedding.positions.num_embeddings

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.embedding.words.weight.device

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
    """A small encoder of BERT's kind with random weights; torch's own seed is left alone."""
    with seeded(seed):
        return TextTransformer(
            TokenEmbedding(words, positions, width, norm=nn.LayerNorm(width, eps=1e-12), drop=drop),
            [
                TextBlock(width, heads, 4 * width, norm_first=False, drop=drop, attn_drop=drop)
                for _ in range(depth)
            ],
            head=nn.Linear(width, classes),
            pooler=Pooler(width, drop) if reads == "first" else None,
            reads=reads,
        ).eval()

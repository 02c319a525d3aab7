"""A dual encoder of CLIP's kind, and either side of it as a classifier.

Source of the target: Beyond Intuition Sec. 4.2 explains the similarity of an image and a text, in
the published Interpretor the logit of the pair. While one side is explained the other is a
constant: the image tower with the texts' features is an image classifier, whose class j is text
j, and the text tower with the images' features a text classifier. So every attribution of the
suite takes them as they are, with the index of the text (or image) as its target.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from relevit.models.spec import ModelSpec
from relevit.text.encoder import TextTransformer, text_logits
from relevit.text.tokens import SPECIAL, Tokens, encode

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Those of Beyond Intuition Table 3, and GAE, which its GA comes from. Rules of LRP read the weights
# of a head, and a cosine has none; the paper has no LRP for CLIP.
CLIP_METHODS = ("raw_attention", "rollout", "gradcam", "gae", "ga", "head_wise", "token_wise")
CHUNK = 50  # images run at once


class SimilarityHead(nn.Module):
    """Logits of a pooled token: scale times its cosine to each of the other side's features."""

    def __init__(
        self,
        projection: nn.Module,
        features: Float[Tensor, "classes features"],
        scale: Float[Tensor, ""],
    ) -> None:
        super().__init__()
        self.projection, self.out_features = projection, len(features)
        self.register_buffer("features", normalize(features.detach(), dim=1), persistent=False)
        self.register_buffer("scale", scale.detach().to(features), persistent=False)

    def forward(self, pooled: Float[Tensor, "batch width"]) -> Float[Tensor, "batch classes"]:
        return self.scale * normalize(self.projection(pooled), dim=-1) @ self.features.T


class DualEncoder(nn.Module):
    """An image tower and a text tower that meet in one space, in evaluation mode.

    The head of each projects its pooled token there. `scale` multiplies cosines. `spec` says how
    pixels are normalised.
    """

    def __init__(
        self,
        image_tower: nn.Module,
        text_tower: TextTransformer,
        scale: float | Float[Tensor, ""],
        spec: ModelSpec,
    ) -> None:
        super().__init__()
        self.image_tower, self.text_tower = image_tower, text_tower
        scale = torch.as_tensor(scale).detach()
        self.register_buffer("scale", scale.to(next(image_tower.parameters())))
        self.spec = spec
        self.eval()

    @torch.no_grad()
    def embed_images(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch features"]:
        """Features of length 1 of normalised images, detached."""
        made = [self.image_tower(part.to(self.scale)) for part in images.split(CHUNK)]
        return normalize(torch.cat(made), dim=1)

    @torch.no_grad()
    def embed_texts(self, texts: Sequence[Tokens]) -> Float[Tensor, "batch features"]:
        """Features of length 1 of texts, detached; a text's do not depend on the others."""
        return normalize(text_logits(self.text_tower, texts), dim=1)

    def embed_phrases(
        self, tokenizer: Tokenizer, phrases: Sequence[str]
    ) -> Float[Tensor, "batch features"]:
        """Features of texts as they are written: captions, or prompts of classes."""
        limit = self.text_tower.limit
        return self.embed_texts([encode_whole(tokenizer, text, limit) for text in phrases])

    def image_classifier(self, text_features: Float[Tensor, "classes features"]) -> nn.Module:
        """The image tower, shared, whose logits are the similarities to these texts.

        `scale` is a part of GAE's and GA's maps, where it weighs gradients against the identity;
        the other maps only grow with it. Settings as published are those for CLIP (differences
        D11, D12), but for one: the published Ours-H takes the number of blocks for that of heads
        (D11), the same in their ViT-B. Here heads are counted.
        """
        return self._classifier(self.image_tower, text_features)

    def text_classifier(self, image_features: Float[Tensor, "classes features"]) -> TextTransformer:
        """The text tower, shared, whose logits are the similarities to these images.

        For `relevit.text.attribute`. CLIP's text tower has 12 blocks and 8 heads, so that the
        published Ours-H, which takes one for the other (D11), gives other numbers there.
        """
        return self._classifier(self.text_tower, image_features)

    def _classifier(self, tower: nn.Module, features: Tensor) -> nn.Module:
        result = with_head(tower, SimilarityHead(tower.head, features.to(self.scale), self.scale))
        result.family = "clip"
        return result.eval()


def encode_whole(tokenizer: Tokenizer, text: str, limit: int) -> Tokens:
    """The tokens of a caption or prompt, all of them: as CLIP's own tokenizer, nothing is cut."""
    tokens = encode(tokenizer, text, limit)
    if len(tokens) == SPECIAL or tokens.unknown_share == 1:
        raise ValueError(
            f"clip: the model knows no word of text {text[:40]!r}; write it in the language that "
            "its captions have"
        )
    if tokens.left_out:
        raise ValueError(
            f"clip: text {text[:40]!r}... has {len(tokens) + tokens.left_out} tokens, the two "
            f"special ones included; the model reads at most {limit}: write a shorter one"
        )
    return tokens


def with_head(tower: nn.Module, head: nn.Module) -> nn.Module:
    """The same tower, with the same weights in memory, under another head.

    Only the outermost module is new; `tower` keeps its head, and hooks on one are not on the other.
    """
    result = copy.copy(tower)
    for name, value in vars(tower).items():
        if isinstance(value, dict):  # submodules, parameters, buffers and hooks by name
            object.__setattr__(result, name, copy.copy(value))
    result.head = head
    if hasattr(result, "num_classes"):
        result.num_classes = getattr(head, "out_features", 0)
    return result

"""A student and a teacher that is its running average: the networks and the loss of DINO.

Source: Caron et al. 2021, Emerging Properties in Self-Supervised Vision Transformers (DINO).
"""

from __future__ import annotations

import copy

import torch
from jaxtyping import Float
from timm.layers import resample_abs_pos_embed, trunc_normal_
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

GLOBAL = 2  # large views of an image; the teacher sees no others


class Projection(nn.Module):
    """DINO's head (App. C): three layers, then the cosine to each of the learned prototypes.

    The cosine is the published weight-normalised layer with all lengths kept at 1, its default.
    """

    def __init__(self, width: int, hidden: int, bottleneck: int, prototypes: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, bottleneck),
        )
        self.layers.apply(_init_linear)
        self.prototypes = nn.Linear(bottleneck, prototypes, bias=False)

    def forward(self, tokens: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows prototypes"]:
        places = normalize(self.layers(tokens), dim=1)
        return linear(places, normalize(self.prototypes.weight, dim=1))


class Network(nn.Module):
    """An encoder and its projection: student or teacher."""

    def __init__(self, encoder: VisionTransformer, projection: Projection):
        super().__init__()
        self.encoder, self.projection = encoder, projection

    def forward(self, views: list[Float[Tensor, "_ 3 _ _"]]) -> Float[Tensor, "rows prototypes"]:
        """Each entry of `views` has one size; the rows follow one another."""
        tokens = [encode(self.encoder, same_size)[:, 0] for same_size in views]
        return self.projection(torch.cat(tokens))


class SelfDistillation(nn.Module):
    """Student, teacher and centre: the whole state of the training but the optimiser's.

    `encoder` becomes the teacher's and is trained in place; the student's is a copy.
    """

    def __init__(self, encoder: VisionTransformer, hidden: int, bottleneck: int, prototypes: int):
        super().__init__()
        projection = Projection(encoder.embed_dim, hidden, bottleneck, prototypes)
        self.teacher = Network(encoder, projection)
        self.student = copy.deepcopy(self.teacher)
        for block in self.student.encoder.blocks:
            # On a CPU the products one by one are 4 % faster a step: their backward is cheaper.
            block.attn.fused_attn = False
        self.register_buffer("centre", torch.zeros(prototypes))

    def forward(
        self, views: list[Float[Tensor, "_ 3 _ _"]]
    ) -> tuple[Float[Tensor, "views batch prototypes"], Float[Tensor, "2 batch prototypes"]]:
        """Outputs of the student on all views, and of the teacher on the large ones, the first."""
        batch = len(views[0]) // GLOBAL
        with torch.no_grad():
            taught = self.teacher(views[:1])
        return self.student(views).unflatten(0, (-1, batch)), taught.unflatten(0, (-1, batch))

    @torch.no_grad()
    def update_teacher(self, momentum: float) -> None:
        """Teacher = m teacher + (1 - m) student, for all weights (DINO 3.1)."""
        pairs = zip(self.teacher.parameters(), self.student.parameters(), strict=True)
        for kept, learned in pairs:
            # Leaves the same bytes where both are equal, as in the model's own head.
            kept.lerp_(learned, 1 - momentum)

    @torch.no_grad()
    def update_centre(self, taught: Float[Tensor, "2 batch prototypes"], momentum: float) -> None:
        """Centre = m centre + (1 - m) mean of the teacher's outputs (DINO Eq. 4)."""
        self.centre.lerp_(taught.mean(dim=(0, 1)), 1 - momentum)


def encode(
    encoder: VisionTransformer, images: Float[Tensor, "batch 3 height width"]
) -> Float[Tensor, "batch tokens dim"]:
    """Class token, registers and patches after all blocks and the last norm.

    Images may have any size in whole patches; at the model's own this is its `forward_features`.
    Source: DINO's published interpolate_pos_encoding, but with timm's resampling, which averages
    when it shrinks.
    Raises: ValueError when the sides are not multiples of the patch.
    """
    side = encoder.patch_embed.patch_size[0]
    if images.shape[2] % side or images.shape[3] % side:
        raise ValueError(
            f"teacher: images of {images.shape[2]} x {images.shape[3]} px for patches of {side} px;"
            " sides must be multiples of the patch"
        )
    grid = encoder.patch_embed.proj(images)
    patches = encoder.patch_embed.norm(grid.flatten(2).transpose(1, 2))
    prefix = [t for t in (encoder.cls_token, encoder.reg_token) if t is not None]
    prefix = [t.expand(len(images), -1, -1) for t in prefix]
    placed = 0 if encoder.no_embed_class else encoder.num_prefix_tokens  # those with a position
    sizes = list(grid.shape[2:]), list(encoder.patch_embed.grid_size)
    position = resample_abs_pos_embed(encoder.pos_embed, *sizes, num_prefix_tokens=placed)
    if placed:
        tokens = torch.cat([*prefix, patches], dim=1) + position
    else:
        tokens = torch.cat([*prefix, patches + position], dim=1)
    return encoder.norm(encoder.blocks(encoder.norm_pre(encoder.pos_drop(tokens))))


def teacher_targets(
    taught: Float[Tensor, "2 batch prototypes"],
    centre: Float[Tensor, " prototypes"],
    temperature: float,
) -> Float[Tensor, "2 batch prototypes"]:
    """The teacher's distributions, centred and sharpened (DINO 3.1, Algorithm 1)."""
    return ((taught - centre) / temperature).softmax(dim=-1)


def distillation_loss(
    student: Float[Tensor, "views batch prototypes"],
    targets: Float[Tensor, "2 batch prototypes"],
    temperature: float,
) -> Float[Tensor, ""]:
    """Mean cross-entropy, in nats, of the student's distributions against the teacher's.

    Source: DINO Eq. 3: each large view of the teacher against all other views of the student.
    """
    predicted = (student / temperature).log_softmax(dim=-1)
    pairs = -torch.einsum("tbk,vbk->tv", targets, predicted) / student.shape[1]
    other = ~torch.eye(*pairs.shape, dtype=torch.bool, device=pairs.device)
    return pairs[other].mean()


def entropy(distributions: Float[Tensor, "*batch prototypes"]) -> Float[Tensor, "*batch"]:
    """Entropy in nats; 0 for one sure prototype, log(prototypes) for all alike."""
    return torch.special.entr(distributions).sum(dim=-1)


def _init_linear(module: nn.Module) -> None:
    """The published code's: normal weights of deviation 0.02, biases of zero."""
    if isinstance(module, nn.Linear):
        trunc_normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)

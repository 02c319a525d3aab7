"""Pretrain a Vision Transformer without labels: it learns to say what its own average says.

Source: Caron et al. 2021, Emerging Properties in Self-Supervised Vision Transformers (DINO).
Left out of the published code: some of the changes of colour (`pretraining.crops`),
stochastic depth, the rise of the weight decay, and the scaling of the rate with the batch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from timm.layers import resample_abs_pos_embed, trunc_normal_
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn.functional import linear, normalize
from torch.nn.utils import clip_grad_norm_

from pretraining.crops import draw_views
from pretraining.unlabelled import UnlabelledSettings, train_unlabelled
from relevit.base.seeding import seeded
from relevit.data.image_set import ImageSet
from relevit.finetune.epochs import History
from relevit.models.spec import ModelSpec

GLOBAL = 2  # large views of an image; the teacher sees no others
BETAS = (0.9, 0.999)  # the published code's, which are AdamW's own
LARGEST_GRADIENT = 3.0  # norm of each parameter's gradient, as in the published code


@dataclass(frozen=True)
class DistillationSettings(UnlabelledSettings):
    """Self-distillation.

    Views are squares with sides in pixels, multiples of the patch; areas are shares of the image.
    The teacher's momentum rises as a cosine from `momentum` to 1; its temperature stays, where DINO
    lets it rise first. `frozen_prototypes`, how long the last layer of the head keeps its weights,
    is a share of all steps, where DINO counts epochs.
    """

    weight_decay: float = 0.04
    global_px: int = 84
    local_px: int = 42
    local_crops: int = 4
    global_area: tuple[float, float] = (0.4, 1.0)
    local_area: tuple[float, float] = (0.05, 0.4)
    hidden: int = 256
    bottleneck: int = 64
    prototypes: int = 512
    student_temperature: float = 0.1
    teacher_temperature: float = 0.04
    momentum: float = 0.99
    centre_momentum: float = 0.9
    frozen_prototypes: float = 0.05

    def momentum_at(self, progress: float) -> float:
        """The teacher's momentum after this share of all steps (DINO 3.1)."""
        return 1 - (1 - self.momentum) * (1 + math.cos(math.pi * progress)) / 2


def pretrain(
    encoder: VisionTransformer,
    spec: ModelSpec,
    settings: DistillationSettings,
    folder: Path,
    *,
    train: ImageSet,
    validation: ImageSet,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
) -> History:
    """Train `encoder` in place without the labels of `train`; files and log: `train_unlabelled`.

    It ends as the teacher's, which DINO evaluates. The files hold the student and the heads too;
    take the weights from `encoder`. The model's own head stays as it is. Validation gives the
    `validation_figures`.
    Raises: as `fit`.
    """
    model = build_distillation(encoder, settings)
    shown = validation.read(range(len(validation))).images
    sets = [f"{part.name} {len(part)}" for part in (train, validation)]

    def step(
        optimizer: torch.optim.Optimizer, images: Tensor, rng: np.random.Generator, progress: float
    ) -> float:
        views = make_views(images, spec, settings, rng, like=encoder.pos_embed)
        return train_step(model, optimizer, views, settings, progress)

    return train_unlabelled(
        model,
        model.student,
        settings,
        folder,
        betas=BETAS,
        train=train,
        step=step,
        validate=lambda: validation_figures(model, spec, shown, settings),
        architecture=f"{spec.name} with student",
        identity={"kind": "self_distillation", "sets": sets},
        on_epoch=on_epoch,
    )


def build_distillation(
    encoder: VisionTransformer, settings: DistillationSettings
) -> SelfDistillation:
    """An untrained student and its equal as teacher, with heads drawn from the seed.

    The encoder, which answers by its class token, starts from the weights it has. Torch's own seed
    is left alone.
    """
    with seeded(settings.seed):
        model = SelfDistillation(encoder, settings.hidden, settings.bottleneck, settings.prototypes)
    return model.to(encoder.pos_embed)


def make_views(
    images: UInt8[Tensor, "batch 3 height width"],
    spec: ModelSpec,
    settings: DistillationSettings,
    rng: np.random.Generator,
    *,
    like: Tensor,
) -> list[Float[Tensor, "_ 3 _ _"]]:
    """Two large views of each image, then the small ones; all from `rng`.

    Device and dtype are those of `like`.
    """
    images = images.to(like.device)
    large = GLOBAL, settings.global_px, settings.global_area
    small = settings.local_crops, settings.local_px, settings.local_area
    views = [draw_views(images, rng, *asked) for asked in (large, small)]
    return [spec.normalise(same_size, like=like) for same_size in views]


def train_step(
    model: SelfDistillation,
    optimizer: torch.optim.Optimizer,
    views: list[Float[Tensor, "_ 3 _ _"]],
    settings: DistillationSettings,
    progress: float,
) -> float:
    """One step of the student, then of centre and teacher, after this share of all steps.

    Source: DINO Algorithm 1. Returns the loss before the step.
    """
    student, taught = model(views)
    targets = teacher_targets(taught, model.centre, settings.teacher_temperature)
    loss = distillation_loss(student, targets, settings.student_temperature)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    for weights in model.student.parameters():
        clip_grad_norm_(weights, LARGEST_GRADIENT)
    if progress < settings.frozen_prototypes:
        model.student.projection.prototypes.weight.grad = None
    optimizer.step()
    model.update_centre(taught, settings.centre_momentum)
    model.update_teacher(settings.momentum_at(progress))
    return float(loss.detach())


@torch.inference_mode()
def validation_figures(
    model: SelfDistillation,
    spec: ModelSpec,
    images: UInt8[Tensor, "images 3 height width"],
    settings: DistillationSettings,
) -> dict[str, float]:
    """The loss on `images`, and what shows a collapse (DINO 5.3), entropies in nats.

    - `target_entropy`: mean entropy of the teacher's distributions.
    - `usage_entropy`: entropy of their mean over images and views. It exceeds `target_entropy` by
      what a distribution tells about its image: 0 in a collapse, whether to one prototype
      (both 0) or to all alike (both log(prototypes)).
    - `feature_spread`: of the teacher's class tokens, scaled to length 1, the root of the summed
      variances over images: 0 when all are the same, 1 when they cancel out.

    The views are the same each time; the teacher's temperature is the final one.
    """
    model.eval()
    rng = np.random.default_rng(settings.seed)
    encoder = model.teacher.encoder
    losses, sharp, features = [], [], []
    for part in images.split(settings.batch_size):
        views = make_views(part, spec, settings, rng, like=encoder.pos_embed)
        student, taught = model(views)
        targets = teacher_targets(taught, model.centre, settings.teacher_temperature)
        losses.append(float(distillation_loss(student, targets, settings.student_temperature)))
        sharp.append(targets.flatten(0, 1))
        whole = spec.normalise(part, like=encoder.pos_embed)
        features.append(normalize(encode(encoder, whole)[:, 0], dim=1))
    targets, tokens = torch.cat(sharp), torch.cat(features)
    spread = tokens.std(dim=0, correction=0).square().sum().sqrt()
    return {
        "validation_loss": float(np.average(losses, weights=[len(f) for f in features])),
        "target_entropy": float(entropy(targets).mean()),
        "usage_entropy": float(entropy(targets.mean(dim=0))),
        "feature_spread": float(spread),
    }


# Student, teacher, and the loss between them


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
    """Class token and patches after all blocks and the last norm.

    Images may have any size in whole patches; at the model's own this is its `forward_features`.
    Source: DINO's published interpolate_pos_encoding, but with timm's resampling, which averages
    when it shrinks.
    """
    grid = encoder.patch_embed.proj(images)
    patches = encoder.patch_embed.norm(grid.flatten(2).transpose(1, 2))
    sizes = list(grid.shape[2:]), list(encoder.patch_embed.grid_size)
    position = resample_abs_pos_embed(encoder.pos_embed, *sizes, num_prefix_tokens=1)
    first = encoder.cls_token.expand(len(images), -1, -1)
    tokens = torch.cat([first, patches], dim=1) + position
    return encoder.norm(encoder.blocks(encoder.norm_pre(encoder.pos_drop(tokens))))


def teacher_targets(
    taught: Float[Tensor, "views batch prototypes"],
    centre: Float[Tensor, " prototypes"],
    temperature: float,
) -> Float[Tensor, "views batch prototypes"]:
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

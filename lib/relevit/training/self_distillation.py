"""Pretrain a Vision Transformer without labels: it learns to say what its own average says.

Source: Caron et al. 2021, Emerging Properties in Self-Supervised Vision Transformers (DINO).
Left out of the published code: some of the changes of colour (`relevit.training.crops`),
stochastic depth, the rise of the weight decay, and the scaling of the rate with the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils import clip_grad_norm_

from relevit.base.seeding import seeded
from relevit.data.labelled import Labelled
from relevit.models.spec import ModelSpec
from relevit.training.crops import draw_views
from relevit.training.epochs import History, epoch_plan, loss_figures, run_epochs
from relevit.training.optimizer import make_optimizer
from relevit.training.teacher import (
    GLOBAL,
    SelfDistillation,
    distillation_loss,
    encode,
    entropy,
    teacher_targets,
)

BETAS = (0.9, 0.999)  # the published code's, which are AdamW's own
LARGEST_GRADIENT = 3.0  # norm of each parameter's gradient, as in the published code


@dataclass(frozen=True)
class DistillationSettings:
    """Self-distillation: AdamW, linear warm-up, then a cosine to zero; new images each epoch.

    Views are squares with sides in pixels, multiples of the patch; areas are shares of the image.
    The teacher's momentum rises as a cosine from `momentum` to 1, its temperature linearly from
    `first_teacher_temperature` within `temperature_warmup`. That and `frozen_prototypes`, how long
    the last layer of the head keeps its weights, are shares of all steps, where DINO counts epochs.
    """

    lr: float
    images: int = 3200
    epochs: int = 1
    batch_size: int = 64
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
    first_teacher_temperature: float = 0.04
    temperature_warmup: float = 0.0
    momentum: float = 0.99
    centre_momentum: float = 0.9
    frozen_prototypes: float = 0.05
    seed: int = 0

    def momentum_at(self, progress: float) -> float:
        """The teacher's momentum after this share of all steps (DINO 3.1)."""
        return 1 - (1 - self.momentum) * (1 + math.cos(math.pi * progress)) / 2

    def temperature_at(self, progress: float) -> float:
        """The teacher's temperature after this share of all steps (DINO 4)."""
        first, last = self.first_teacher_temperature, self.teacher_temperature
        if progress >= self.temperature_warmup:
            return last
        return first + (last - first) * progress / self.temperature_warmup


def pretrain(
    encoder: VisionTransformer,
    spec: ModelSpec,
    settings: DistillationSettings,
    folder: Path,
    *,
    train: Labelled,
    validation: Labelled,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
) -> History:
    """Train `encoder` in place without the labels of `train`; files go to `folder`.

    It ends as the teacher's, which DINO evaluates. The files (`run_epochs`) hold the student
    and the heads too; take the weights from `encoder`. The model's own head stays as it is.
    Each row of the log has the epoch's mean loss, the losses in at most twenty parts of it
    (`curve`) and the `validation_figures`. Images, their order and views follow from (seed,
    epoch, step).
    Raises: ValueError when `train` has too few images; as `build_distillation` and `run_epochs`.
    """
    _need_images(train, settings)
    model = build_distillation(encoder, settings)
    per_epoch = math.ceil(settings.images / settings.batch_size)
    steps = settings.epochs * per_epoch
    optimizer, rates = make_optimizer(
        model.student, lr=settings.lr, weight_decay=settings.weight_decay, betas=BETAS, steps=steps
    )
    shown = validation.read(range(len(validation)))
    sets = [f"{part.name} {len(part)}" for part in (train, validation)]

    def train_epoch(epoch: int) -> dict[str, Any]:
        model.train()
        losses = []
        plan = epoch_plan(settings.images, settings.batch_size, settings.seed, epoch)
        for step, (rows, rng) in enumerate(plan, start=(epoch - 1) * per_epoch):
            images = train.read((rows + settings.images * (epoch - 1)).tolist())
            views = make_views(images, spec, settings, rng, like=encoder.pos_embed)
            rates.step_update(step + 1)
            losses.append(train_step(model, optimizer, views, settings, step / steps))
        return loss_figures(losses)

    return run_epochs(
        model,
        optimizer,
        folder,
        architecture=f"{spec.name} with student",
        identity={"kind": "self_distillation", "sets": sets, **asdict(settings)},
        epochs=settings.epochs,
        train_epoch=train_epoch,
        validate=lambda: validation_figures(model, spec, shown, settings),
        on_epoch=on_epoch,
    )


def build_distillation(
    encoder: VisionTransformer, settings: DistillationSettings
) -> SelfDistillation:
    """An untrained student and its equal as teacher, with heads drawn from the seed.

    The encoder starts from the weights it has. Torch's own seed is left alone.
    Raises: ValueError for settings out of range, or an encoder that DINO cannot train.
    """
    _check_settings(settings, encoder.patch_embed.patch_size[0])
    if encoder.cls_token is None or encoder.global_pool != "token" or _is_distilled(encoder):
        raise ValueError(
            f"self_distillation: a {type(encoder).__name__} that pools {encoder.global_pool!r}; "
            "DINO compares class tokens: build the model with global_pool='token' and without "
            "a distillation token"
        )
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
    """Two large views of each image, then the small ones where there are any; all from `rng`.

    Device and dtype are those of `like`.
    """
    images = images.to(like.device)
    views = [draw_views(images, rng, GLOBAL, settings.global_px, settings.global_area)]
    if settings.local_crops:
        small = settings.local_crops, settings.local_px, settings.local_area
        views.append(draw_views(images, rng, *small))
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
    targets = teacher_targets(taught, model.centre, settings.temperature_at(progress))
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


def _is_distilled(encoder: nn.Module) -> bool:
    return getattr(encoder, "dist_token", None) is not None


def _need_images(train: Labelled, settings: DistillationSettings) -> None:
    needed = settings.images * settings.epochs
    if len(train) < needed:
        raise ValueError(
            f"self_distillation: {settings.epochs} epochs of {settings.images} new images need "
            f"{needed}; {train.name!r} has {len(train)}: take fewer, or a larger set"
        )


def _check_settings(settings: DistillationSettings, patch: int) -> None:
    """Raise ValueError for the first setting that is out of its range."""
    shares = ("momentum", "centre_momentum", "temperature_warmup", "frozen_prototypes")
    positive = ("lr", "student_temperature", "teacher_temperature", "first_teacher_temperature")
    least = {"images": 1, "epochs": 1, "batch_size": 1, "local_crops": 0, "hidden": 1}
    least |= {"bottleneck": 1, "prototypes": 2}
    for name, value in asdict(settings).items():
        if name.endswith("_px") and (value < patch or value % patch):
            need = f"a multiple of the patch, which is {patch} px"
        elif name.endswith("_area") and not 0 < value[0] <= value[1] <= 1:
            need = "a smaller and a larger share of the image, above 0 and at most 1"
        elif name in shares and not 0 <= value <= 1:
            need = "a share in 0..1"
        elif name in positive and not value > 0:
            need = "a value above 0"
        elif name in least and value < least[name]:
            need = f"at least {least[name]}"
        else:
            continue
        raise ValueError(f"self_distillation: {name} {value}; it must be {need}")

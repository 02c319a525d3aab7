"""RobustViT: finetune a ViT so that its relevance map lies on the object.

Source: RobustViT Sec. 3-4 and, where text and published code differ, the choices A1-A16 of
the list of differences, each a named setting (`relevit.finetune.settings`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from relevit.base.device import sent, tensor_float32
from relevit.data.batch import Batch
from relevit.finetune.augmenting import augmented, backgrounds
from relevit.finetune.cuda_graph import Recorded
from relevit.finetune.epochs import History, Losses, descend, epoch_plan, fit, means
from relevit.finetune.settings import BASELINES, FinetuneSettings
from relevit.finetune.step import frozen_part, make_optimizer, products, step_losses
from relevit.models.spec import ModelSpec
from relevit.models.trunk import Frozen, Trunk, kept_tokens, open_trunk

CLASS_LOSSES = "validation_class_losses"  # of a log: those of each image
CROP_MARGIN = 8  # pixels an image may move in augmentation, out of 112; the paper's 256 -> 224


def finetune(
    model: nn.Module,
    spec: ModelSpec,
    train: Batch,
    validate: Callable[[nn.Module, FinetuneSettings], dict[str, float]],
    settings: FinetuneSettings,
    folder: Path,
    *,
    inputs: dict[str, Any],
    validated: Collection[int] | None = None,
    kept: Path | None = None,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
    on_step: Callable[[int, int, int], object] = lambda epoch, step, steps: None,
) -> History:
    """Finetune `model` in place on `train`, with checkpoints and the result in `folder`.

    `validate(model, settings)` gives the figures of the validation images, `loss_total` among them
    (`run.Start.figures` does). `inputs` says what the run is made from
    beside its settings (weights at the start, images), so that a changed input is not taken for the
    same run. `validated` as `fit`. `on_step` is told the epoch and the steps done of those
    in it. Tokens of blocks that are not trained are kept in the folder `kept`. Larger images are
    cropped (`augment`). Raises: as `fit`, `trained_weights`.
    """
    optimizer, others = make_optimizer(model, settings), backgrounds(train, settings.augmentation)
    trunk = open_trunk(model, None if kept is None else Frozen(kept, settings.trained_blocks))
    on_gpu = next(model.parameters()).device.type == "cuda"
    recorded = Recorded(optimizer) if on_gpu else None
    if on_gpu:
        _need_labels(train.labels, model)

    def step(batch: tuple[Tensor, np.random.Generator]) -> Losses:
        places, rng = batch
        shown = augmented(train.select(places), settings.augmentation, others, rng)
        return train_step(model, spec, optimizer, shown, rng, settings, trunk, recorded)

    about = {"inputs": inputs | frozen_part(model, settings.trained_blocks)}
    about |= {"kind": "relevance", "log": CLASS_LOSSES}
    with only(model, optimizer.param_groups[0]["params"]):
        return fit(
            model,
            optimizer,
            folder,
            partial(epoch_plan, len(train), settings.batch_size, settings.seed),
            step,
            rate=lambda epoch, *_: settings.rate_share(epoch),
            summary=lambda rows: {"lr": optimizer.param_groups[0]["lr"]} | means(rows),
            architecture=spec.name,
            identity=about | dict(settings.identity),
            epochs=settings.epochs,
            validate=lambda: {f"validation_{k}": v for k, v in validate(model, settings).items()},
            criterion="validation_loss_total" if settings.keep != "last" else None,
            validated=validated,
            on_epoch=on_epoch,
            on_step=lambda epoch, done, steps, losses: on_step(epoch, done, steps),
        )


@contextmanager
def only(model: nn.Module, trained: Collection[nn.Parameter]) -> Iterator[None]:
    """These weights alone need gradients inside: what lies before them runs without a graph."""
    kept = {id(weight) for weight in trained}
    frozen = [each for each in model.parameters() if id(each) not in kept and each.requires_grad]
    for weight in frozen:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in frozen:
            weight.requires_grad_(True)


def train_step(
    model: nn.Module,
    spec: ModelSpec,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    rng: np.random.Generator,
    settings: FinetuneSettings,
    trunk: Trunk | None = None,
    recorded: Recorded | None = None,
) -> Losses:
    """One step on a batch, augmented; returns its losses, which a GPU may still be working on.

    So the next batch is made meanwhile. A step of whole batches is `recorded` where that is given.
    """
    device = next(model.parameters()).device

    def step(images: Tensor, masks: Tensor, labels: Tensor, *outlined: Tensor) -> Losses:
        optimizer.zero_grad(set_to_none=True)  # the last step's make room for this one's maps
        pixels, whole = spec.normalise(images), outlined[0] if outlined else None
        with step_tokens(trunk, pixels, settings, train=True):
            losses = step_losses(model, pixels, masks.float(), labels, settings, outlined=whole)
        return descend(optimizer, losses.named)

    parts = (*augment(batch, rng, spec.image_size), batch.labels, batch.outlined)
    given = [sent(part, device) for part in parts if part is not None]
    with tensor_float32(device, products(settings.method, settings.precision) == "tf32"):
        if recorded is None or batch.outlined is not None:
            return step(*given)
        return recorded(step, *given)


def step_tokens(
    trunk: Trunk | None, images: Tensor, settings: FinetuneSettings, *, train: bool
) -> AbstractContextManager[None]:
    """Where `step_losses` of these images takes the tokens of its frozen blocks from files.

    Baselines look at the pixels, and a head alone has no map of its own: it is of all blocks.
    """
    looks = not (train and settings.weights["relevance"] == 0)
    if settings.method in BASELINES or (looks and not settings.trained_blocks):
        return nullcontext()
    ruled = looks and settings.explanation == "attn_lrp"
    return kept_tokens(trunk, images, settings.precision + (" by rules" if ruled else ""))


def _need_labels(labels: Tensor, model: nn.Module) -> None:
    """Raise ValueError for labels without an output, which a GPU dies of in the midst of a step."""
    outputs = getattr(getattr(model, "head", None), "out_features", None)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or (outputs is not None and high >= outputs):
        raise ValueError(
            f"finetune: labels from {low} to {high}, and the model has {outputs} outputs; give "
            "one from 0 on for each class, or a model with as many outputs"
        )


def augment(batch: Batch, rng: np.random.Generator, size: int) -> tuple[Tensor, Tensor]:
    """Random crop to `size` and left-right flip, the same for image and mask (differences B4).

    The published code resizes to 256 pixels and crops 224; so are images that are larger than
    `size`. Others, for which it can be left out, are mirrored outwards by CROP_MARGIN of 112
    pixels, in the same proportion, and cropped back to their size.
    """
    both = (batch.images, batch.masks)
    if batch.images.shape[-1] == size:
        margin = [CROP_MARGIN * size // 112] * 4
        both = tuple(pad(part.float(), margin, mode="reflect").to(part.dtype) for part in both)
    room = both[0].shape[-1] - size
    moves = [(*rng.integers(room + 1, size=2).tolist(), rng.random() < 0.5) for _ in batch.labels]
    images, masks = (
        torch.stack([_moved(x, size, *move) for x, move in zip(part, moves, strict=True)])
        for part in both
    )
    return images, masks


def _moved(picture: Tensor, size: int, top: int, left: int, mirrored: bool) -> Tensor:
    crop = picture[:, top : top + size, left : left + size]
    return crop.flip(-1) if mirrored else crop

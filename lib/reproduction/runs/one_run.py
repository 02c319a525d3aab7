"""Finetuning runs: what the parameters of a row ask for, from which weights and images."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch

from habitats.benchmark import Benchmark
from relevit.base.device import choose_device, choose_precision
from relevit.base.files import file_fingerprint
from relevit.choices.words import MaskSource
from relevit.data.batch import Batch
from relevit.finetune.epochs import History
from relevit.finetune.learning_rate import kept_epoch as kept_epoch
from relevit.finetune.loop import finetune
from relevit.finetune.settings import resolved
from relevit.finetune.validation import validation_figures
from relevit.masks import MASKS, AutomaticMasks, load_masks, masks_of
from relevit.models.loading import load_model
from relevit.models.spec import ModelSpec
from relevit.models.trunk import Frozen
from reproduction.params.cells import Params
from reproduction.stages import results_of


def finetune_at(
    cfg: Params,
    bench: Benchmark,
    lr: float,
    origin: Path,
    folder: Path,
    on_epoch: Callable[[dict], None] = lambda row: None,
    *,
    validated: Collection[int] | None = None,
    kept: Path | None = None,
) -> tuple[torch.nn.Module, History]:
    """One finetuning run as `cfg` describes it, at one learning rate.

    `origin` are the original model's weights. `validated` are the epochs after which validation
    images are looked at, 0 for before; None, and wherever they choose the epoch, after each, which
    takes a third of the time. `kept` as `finetune`, and resumes and raises as that.
    """
    device = choose_device(cfg.device)
    spec = bench.spec(cfg.model)
    settings = resolved(cfg, lr, choose_precision(cfg.precision, device))
    model = load_model(cfg.model, origin, device=device)
    figures = validation_figures(
        spec,
        images=cfg.validation_images,
        maps=cfg.validation_maps,
        precision=settings.precision,
        masks=validation_masks(cfg, bench),
        seed=bench.validation_seed(cfg.seed),
        draw=partial(bench.draw, **bench.masks_for(cfg.protocol)),
        frozen=None if kept is None else Frozen(kept, cfg.trained_blocks),
    )
    train = images_to_crop(cfg, bench)
    history = finetune(
        model,
        spec,
        train,
        figures,
        settings,
        folder,
        inputs=_inputs(cfg, bench, spec, train) | {"origin": file_fingerprint(origin)},
        validated=validated if cfg.keep == "last" else None,
        kept=kept,
        on_epoch=on_epoch,
    )
    return model, history


def _inputs(cfg: Params, bench: Benchmark, spec: ModelSpec, train: Batch) -> dict[str, Any]:
    """What a run's images and masks follow from: where they are others, it is another run."""
    names = ("images_per_class", "classes", "validation_images", "validation_maps")
    found: dict[str, Any] = {name: getattr(cfg, name) for name in names}
    if train.images.shape[-1] > spec.image_size:
        found["resized"] = train.images.shape[-1]
    if train.masks.is_floating_point():
        found["edges"] = "soft"
    if bench.composable:
        found["images"] = bench.rules
    if seed := bench.validation_seed(cfg.seed):
        found["validation_seed"] = seed
    if cfg.masks not in ("annotated", "tokencut"):
        found["masks"] = cfg.masks
    if cfg.masks == "tokencut":
        found["masks"] = file_fingerprint(results_of(cfg, "01_masks") / MASKS)
    return found


def finetuned_classes(cfg: Params, bench: Benchmark) -> list[int]:
    """Labels of the classes that a run is finetuned on: of A (Fig. 7), then of B."""
    first, others = bench.split(cfg.seed)
    return [*first, *others][: cfg.classes]


def training_images(cfg: Params, bench: Benchmark) -> Batch:
    """The images that a run with these parameters is finetuned on, with its kind of masks.

    With automatic masks, images that got none worth training on are left out (B15, B17), where the
    published code takes the next of their class (differences F10).
    """
    labels = finetuned_classes(cfg, bench) * cfg.images_per_class
    batch = bench.to_finetune(labels, cfg.seed, bench.spec(cfg.model).image_size)
    if cfg.masks != "tokencut":
        return with_masks(batch, cfg.masks)
    found = load_masks(results_of(cfg, "01_masks"), cfg.seed, batch.images)
    _need_kept(found, f"the training images of seed {cfg.seed}")
    return replace(batch, masks=found.refined).select(found.kept.nonzero()[:, 0])


def images_to_crop(cfg: Params, bench: Benchmark) -> Batch:
    """What training crops at random: `training_images`, or larger ones of the same photographs.

    Automatic masks are boolean, of the size that the model takes. Those images are mirrored
    outwards before the crop, like Cutouts; the published code squeezes them, too (F10).
    """
    if cfg.masks == "tokencut":
        return training_images(cfg, bench)
    labels = finetuned_classes(cfg, bench) * cfg.images_per_class
    size = bench.spec(cfg.model).image_size
    return with_masks(bench.to_crop(labels, cfg.seed, size, cfg.protocol), cfg.masks)


def with_masks(batch: Batch, source: MaskSource) -> Batch:
    """Images with cheaper masks than the annotated ones that they have.

    `boxes` are around each mask; `a_third` leaves those of one image in three of each class, with
    classes taking turns at whose first image it is. Three are controls, which know as much of an
    object's size and usual place and nothing of where it is: `others`, the mask of another image
    and class; `ellipse`, one in the middle for all, as large as masks are on average;
    `upside_down`.
    """
    if source == "a_third":
        labels = batch.labels.tolist()
        turns = {label: count(place) for place, label in enumerate(dict.fromkeys(labels))}
        return replace(batch, outlined=torch.tensor([next(turns[x]) % 3 == 0 for x in labels]))
    if source == "others":  # neighbours are of other classes
        return replace(batch, masks=batch.masks.roll(1, 0))
    if source == "ellipse":
        return replace(batch, masks=_in_the_middle(batch.masks))
    if source == "upside_down":
        return replace(batch, masks=batch.masks.flip(-2))
    if source != "boxes":
        return batch
    solid = (batch.masks > 0.5).byte()
    # From the first pixel of the object to the last, along both axes.
    rows, columns = (
        part.cummax(-1).values * part.flip(-1).cummax(-1).values.flip(-1)
        for part in (solid.amax(-1), solid.amax(-2))
    )
    boxes = rows[..., :, None] * columns[..., None, :]
    return replace(batch, masks=boxes.to(batch.masks.dtype))


def _in_the_middle(masks: torch.Tensor) -> torch.Tensor:
    height, width = masks.shape[-2:]
    rows, columns = torch.linspace(-1, 1, height)[:, None], torch.linspace(-1, 1, width)
    ellipse = rows**2 + columns**2 <= 4 / math.pi * masks.float().mean()
    return ellipse.to(masks.dtype).expand_as(masks).clone()


def validation_masks(cfg: Params, bench: Benchmark) -> AutomaticMasks | None:
    """Those of the images whose maps are looked at after each epoch; None: the annotated ones.

    01_masks has masks of the validation images of seed 0, and of the training images of each seed.
    For seed 0 both are the first photographs of their classes, and together of all classes, so
    that the photographs which another seed validates on are among them.
    """
    if cfg.masks != "tokencut":
        return None
    size, folder = bench.spec(cfg.model).image_size, results_of(cfg, "01_masks")
    draw = partial(bench.draw, "validation", range(cfg.validation_maps), size=size)
    images = draw().images
    found = load_masks(folder, "validation", images)
    if seed := bench.validation_seed(cfg.seed):
        first = cfg.model_copy(update={"seed": 0, "masks": "annotated"})
        trained = training_images(first, bench).images
        known = [(found, images), (load_masks(folder, 0, trained), trained)]
        found = masks_of(draw(seed=seed).images, known, "those of seed 0")
    _need_kept(found, "the validation images")
    return found


def _need_kept(masks: AutomaticMasks, of: str) -> None:
    if not bool(masks.kept.any()):
        raise ValueError(
            f"masks: 01_masks kept 0 of {len(masks.kept)} masks of {of}, so there is nothing to "
            "train on; give it another feature_model, key_bias or tau"
        )

"""Finetuning runs: what the parameters of 02_finetune ask for, from which weights and images."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from relevit.base.device import choose_device, choose_precision
from relevit.base.files import file_fingerprint
from relevit.base.stages import need_stage, read_summary
from relevit.config import FinetuneParams, Params, RobustnessParams
from relevit.config.words import Protocol
from relevit.data.batch import Batch
from relevit.data.benchmark import Benchmark
from relevit.finetune.hyperparameters import paper_rate
from relevit.finetune.loop import finetune
from relevit.finetune.settings import resolved
from relevit.finetune.validation import validation_figures
from relevit.masks import MASKS, AutomaticMasks, load_masks, masks_of
from relevit.models.loading import load_model
from relevit.models.registry import PAPER_MODELS, shipped_weights
from relevit.models.spec import ModelSpec
from relevit.training.epochs import WEIGHTS, History


def origin_weights(cfg: Params, model: str | None = None) -> Path:
    """The weights that finetuning starts from: the preset's own original, or another model's.

    Which model is the preset's own, 00_original has written down. Others are shipped, or models of
    the papers that it has made ready.
    Raises: ValueError for a model that is neither the preset's nor there.
    """
    model = model or cfg.model
    if model == cfg.model or model in PAPER_MODELS:
        folder = need_stage(cfg, "00_original")
        if model == read_summary(folder)["parameters"]["model"]:
            return folder / WEIGHTS
    if model not in PAPER_MODELS:
        return shipped_weights(model, cfg.benchmark.learned)
    weights = folder / f"{model}.safetensors"
    if not weights.is_file():
        raise ValueError(
            f"origin_weights: {weights} is missing; add {model!r} to others in "
            f"params/{cfg.preset}/00_original.yaml and run 00_original again"
        )
    return weights


def compared_weights(cfg: RobustnessParams) -> dict[str, Path]:
    """The weights of the models that 03_robustness compares: `original`, and `seed<N>` of each run.

    Runs that are not there yet are made. Raises as `need_stage`.
    """
    stages = {"original": need_stage(cfg, "00_original")}
    for seed in cfg.seeds:
        stages[f"seed{seed}"] = need_stage(cfg, "02_finetune", f"seed{seed}", seed=seed)
    return {run: folder / WEIGHTS for run, folder in stages.items()}


def rate(cfg: FinetuneParams) -> float:
    """The learning rate of a run: the one asked for, or the one that the paper's rule chose.

    The preset's own model takes that of 02_learning_rate; baselines and shipped models that of
    02_baselines, where a method without a rate that passes gets the lowest one tried. Other models
    of the papers take the papers' (T5-T7), or where these have none that of another (`paper_rate`).
    Raises: ValueError for a model, method and protocol that were not searched.
    """
    if cfg.lr is not None:
        return cfg.lr
    if cfg.method == "relevance":
        found = read_summary(need_stage(cfg, "02_learning_rate"))
        if cfg.model == found["parameters"]["model"]:
            return found["chosen_lr"]
    if cfg.model in PAPER_MODELS:
        return paper_rate(cfg.method, cfg.model)
    found = read_summary(need_stage(cfg, "02_baselines"))
    arm = arm_name(cfg.model, cfg.method, cfg.protocol)
    if arm not in found["lowest"]:
        raise ValueError(
            f"rate: 02_baselines has searched no rate for {arm}, only for "
            f"{', '.join(found['lowest'])}; give the parameter lr, or search there"
        )
    chosen = found["chosen"][arm]
    return found["lowest"][arm] if chosen is None else chosen


def arm_name(model: str, method: str, protocol: Protocol) -> str:
    """What the rate of a method on a model is called in 02_baselines."""
    return f"{model} {method}-{protocol}"


def finetune_at(
    cfg: FinetuneParams,
    bench: Benchmark,
    lr: float,
    origin: Path,
    folder: Path,
    on_epoch: Callable[[dict], None] = lambda row: None,
    *,
    validated: Collection[int] | None = None,
) -> tuple[torch.nn.Module, History]:
    """One finetuning run as `cfg` describes it, at one learning rate.

    `origin` are the original model's weights. `validated` are the epochs after which validation
    images are looked at, 0 for before; None, and wherever they choose the epoch, after each, which
    takes a third of the time. Resumes and raises as `finetune`.
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
        on_epoch=on_epoch,
    )
    return model, history


def _inputs(cfg: FinetuneParams, bench: Benchmark, spec: ModelSpec, train: Batch) -> dict[str, Any]:
    """What a run's images and masks follow from: where they are others, it is another run."""
    names = ("images_per_class", "classes", "validation_images", "validation_maps")
    found: dict[str, Any] = {name: getattr(cfg, name) for name in names}
    if train.images.shape[-1] > spec.image_size:
        found["resized"] = train.images.shape[-1]
    if train.masks.is_floating_point():
        found["edges"] = "soft"
    if bench.composable and bench.rules:
        found["images"] = bench.rules
    if seed := bench.validation_seed(cfg.seed):
        found["validation_seed"] = seed
    if cfg.masks == "tokencut":
        found["masks"] = file_fingerprint(need_stage(cfg, "01_masks") / MASKS)
    return found


def finetuned_classes(cfg: FinetuneParams, bench: Benchmark) -> list[int]:
    """Labels of the classes that a run is finetuned on: of A (Fig. 7), then of B."""
    first, others = bench.split(cfg.seed)
    return [*first, *others][: cfg.classes]


def training_images(cfg: FinetuneParams, bench: Benchmark) -> Batch:
    """The images that a run with these parameters is finetuned on, with its kind of masks.

    With automatic masks, images that got none worth training on are left out (B15, B17), where the
    published code takes the next of their class (differences F10).
    """
    labels = finetuned_classes(cfg, bench) * cfg.images_per_class
    batch = bench.to_finetune(labels, cfg.seed, bench.spec(cfg.model).image_size)
    if cfg.masks == "annotated":
        return batch
    found = load_masks(need_stage(cfg, "01_masks"), cfg.seed, batch.images)
    _need_kept(found, f"the training images of seed {cfg.seed}")
    return replace(batch, masks=found.refined).select(found.kept.nonzero()[:, 0])


def images_to_crop(cfg: FinetuneParams, bench: Benchmark) -> Batch:
    """What training crops at random: `training_images`, or larger ones of the same photographs.

    Automatic masks are boolean, of the size that the model takes. Those images are mirrored
    outwards before the crop, like Cutouts; the published code squeezes them, too (F10).
    """
    if cfg.masks != "annotated":
        return training_images(cfg, bench)
    labels = finetuned_classes(cfg, bench) * cfg.images_per_class
    return bench.to_crop(labels, cfg.seed, bench.spec(cfg.model).image_size, cfg.protocol)


def validation_masks(cfg: FinetuneParams, bench: Benchmark) -> AutomaticMasks | None:
    """Those of the images whose maps are looked at after each epoch; None: the annotated ones.

    01_masks has masks of the validation images of seed 0, and of the training images of each seed.
    For seed 0 both are the first photographs of their classes, and together of all classes, so
    that the photographs which another seed validates on are among them.
    """
    if cfg.masks == "annotated":
        return None
    size, folder = bench.spec(cfg.model).image_size, need_stage(cfg, "01_masks")
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


def kept_epoch(history: History, keep: str) -> int:
    """The epoch whose weights a run keeps: its last, or the lowest validation loss (A13)."""
    if keep == "last":
        return history[-1]["epoch"]
    return min(history[1:], key=lambda r: (r["validation_loss_total"], -r["epoch"]))["epoch"]

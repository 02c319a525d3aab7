"""The learning rate: RobustViT's rule, which looks at training and validation images alone.

Source: RobustViT Sec. 4: the highest rate of a grid at which validation accuracy falls by no
more than a limit (the paper: 2 to 3 points) and the classification loss does not rise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch

from relevit.checkpoints import file_fingerprint
from relevit.config import FinetuneParams
from relevit.data import cutouts
from relevit.data.foregrounds import class_split
from relevit.evaluate import validation_figures
from relevit.finetune import FinetuneSettings, finetune
from relevit.models import load_model, model_spec
from relevit.precision import choose_device, choose_precision
from relevit.training import History

RISE_PCT = 10.0  # what counts as a rise of the classification loss, beyond noise


def finetune_at(
    cfg: FinetuneParams,
    lr: float,
    origin: Path,
    folder: Path,
    on_epoch: Callable[[dict], None] = lambda row: None,
) -> tuple[torch.nn.Module, History]:
    """One finetuning run as `cfg` describes it, at one learning rate.

    `origin` are the original model's weights. Resumes and raises as `finetune`.
    """
    device = choose_device(cfg.device)
    spec = model_spec(cfg.model)
    settings = FinetuneSettings.from_params(cfg, lr, choose_precision(cfg.precision, device))
    model = load_model(cfg.model, origin, device)
    figures = validation_figures(
        spec,
        images=cfg.validation_images,
        maps=cfg.validation_maps,
        precision=settings.precision,
    )
    history = finetune(
        model,
        spec,
        training_images(cfg),
        figures,
        settings,
        folder,
        inputs={
            "origin": file_fingerprint(origin),
            "images_per_class": cfg.images_per_class,
            "validation_images": cfg.validation_images,
            "validation_maps": cfg.validation_maps,
        },
        on_epoch=on_epoch,
    )
    return model, history


def training_images(cfg: FinetuneParams) -> cutouts.Batch:
    """The images of classes A that a run with these parameters is finetuned on."""
    labels = class_split(cfg.seed)[0] * cfg.images_per_class
    size = model_spec(cfg.model).image_size
    return cutouts.draw("finetune", range(len(labels)), labels=labels, seed=cfg.seed, size=size)


def judge(lr: float, history: History, keep: str) -> dict[str, float | bool]:
    """What the rule looks at in one run; `keep` as in FinetuneSettings.

    `drop_pts` is the loss of validation top-1 at the kept epoch, in points. `rising` says
    whether the classification loss of the validation images is more than RISE_PCT above its
    value before finetuning: on the training images it falls at any rate, as it is trained there.
    """
    log = pd.DataFrame(history)
    before, kept = log.iloc[0], log.loc[kept_epoch(history, keep)]
    ceiling = before["validation_confidence_loss"] * (1 + RISE_PCT / 100)
    return {
        "lr": lr,
        "validation_top1_pct": kept["validation_top1_pct"],
        "drop_pts": before["validation_top1_pct"] - kept["validation_top1_pct"],
        "confidence_loss_before": before["validation_confidence_loss"],
        "confidence_loss": kept["validation_confidence_loss"],
        "rising": bool(kept["validation_confidence_loss"] > ceiling),
        "validation_loss_total": kept["validation_loss_total"],
    }


def kept_epoch(history: History, keep: str) -> int:
    """The epoch whose weights a run keeps: its last, or the lowest validation loss (A13)."""
    if keep == "last":
        return history[-1]["epoch"]
    return min(history[1:], key=lambda r: (r["validation_loss_total"], -r["epoch"]))["epoch"]


def choose_learning_rate(
    drops_pts: dict[float, float], rising: dict[float, bool], limit_pts: float
) -> float:
    """The paper's rule: the highest rate that harms neither accuracy nor the class term.

    Source: RobustViT Sec. 4. `drops_pts` maps each rate tried to the loss of validation
    top-1 in percentage points, `rising` to whether the classification loss rose. A rate
    passes when the drop is at most `limit_pts` (the paper: 2 to 3) and the loss did not rise.
    Looks at no test image.
    Raises: ValueError when no rate passes.
    """
    passing = [lr for lr in drops_pts if drops_pts[lr] <= limit_pts and not rising[lr]]
    if not passing:
        raise ValueError(
            f"choose_learning_rate: none of {sorted(drops_pts)} keeps validation top-1 within "
            f"{limit_pts} points without a rising classification loss; add lower rates"
        )
    return max(passing)

"""A run of 02_finetune, made by several processes (see `relevit.distributed`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relevit.base.stages import stage_folder
from relevit.config import FinetuneParams
from relevit.distributed import only_first
from relevit.finetune import runs


def make_run(cfg: FinetuneParams, say: Callable[[str], None]) -> str:
    """Make one run, all processes together; returns what to say about it."""

    def report(row: dict[str, Any]) -> None:
        say(f"epoch {row['epoch']}: validation loss {row['validation_loss_total']:.4f}")

    with only_first() as first:
        if first:  # makes the stages before it where they are missing; the others find them made
            runs.start(cfg)
    lr, origin = runs.start(cfg)
    folder = stage_folder(cfg, cfg.run_name)
    _, history = runs.finetune_at(cfg, lr, origin, folder, report)
    return f"weights of epoch {runs.kept_epoch(history, cfg.keep)} are in {folder}"

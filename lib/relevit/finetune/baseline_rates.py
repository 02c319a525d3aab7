"""The learning rate of each baseline on a shipped model, by the paper's rule."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pandas as pd

from relevit.config import BaselinesParams, FinetuneParams
from relevit.finetune.baselines import BASELINES, rate_factor
from relevit.finetune.rates import choose_learning_rate, judge
from relevit.finetune.runs import finetune_at, kept_epoch, origin_weights, preset_params

# What is compared: method and protocol.
ARMS: tuple[tuple[str, str], ...] = (
    ("relevance", "published"),
    *((method, protocol) for method in BASELINES for protocol in ("published", "described")),
)


def arm_params(cfg: BaselinesParams, method: str, protocol: str) -> FinetuneParams:
    """The parameters of the runs of one method: as `02_finetune` of the preset, but shorter.

    Model, seed and length are those of `cfg`, the weights of the losses the paper's.
    Raises: ValueError, FileNotFoundError as `preset_params`.
    """
    return preset_params(
        cfg,
        model=cfg.compared_model,
        method=method,
        protocol=protocol,
        seed=cfg.seed,
        epochs=cfg.epochs,
        images_per_class=cfg.images_per_class,
        validation_images=cfg.validation_images,
        validation_maps=cfg.validation_maps,
    )


def try_rates(
    cfg: BaselinesParams, folder: Path, on_run: Callable[[dict[str, Any]], None] = lambda row: None
) -> pd.DataFrame:
    """Finetune the compared model with every method at every rate; one row a run.

    Each grid is that of `cfg` times `rate_factor` (differences B12). Resumes what `folder` holds.
    Columns: `method`, `protocol`, `rate` (of the grid), `lr` (of the run), what
    `relevit.finetune.rates.judge` looks at, and the background term on the validation images,
    `background_before` and `background_after`. A run whose loss became infinite has an infinite
    `drop_pts` and NaN for what was not reached.
    Raises: ValueError for a model that is neither the preset's own nor shipped.
    """
    origin = origin_weights(cfg, cfg.compared_model)
    rows = []
    for method, protocol in ARMS:
        params = arm_params(cfg, method, protocol)
        for rate in sorted(cfg.rates):
            lr = rate * rate_factor(method, protocol)
            place = folder / f"{method}-{protocol}_lr_{lr:.1e}"
            row = {"method": method, "protocol": protocol, "rate": rate}
            rows.append(row | _try(params, lr, origin, place))
            on_run(rows[-1])
    return pd.DataFrame(rows)


def choose_rates(table: pd.DataFrame, limit_pts: float) -> dict[str, float | None]:
    """The highest rate that passes, by `method-protocol`; None where none does.

    `table` as from `try_rates`; the rule is `choose_learning_rate`.
    """
    chosen: dict[str, float | None] = {}
    for (method, protocol), rows in table.groupby(["method", "protocol"], sort=False):
        runs = rows.set_index("lr")
        try:
            lr = choose_learning_rate(runs["drop_pts"].to_dict(), runs["rising"], limit_pts)
        except ValueError:
            lr = None
        chosen[f"{method}-{protocol}"] = lr
    return chosen


def _try(params: FinetuneParams, lr: float, origin: Path, folder: Path) -> dict[str, Any]:
    try:
        _, history = finetune_at(params, lr, origin, folder)
    except FloatingPointError:  # the rate is far too high: a finding, not an accident
        return {"lr": lr, "drop_pts": inf, "rising": True, "background_after": nan}
    log = pd.DataFrame(history).set_index("epoch")["validation_loss_background"]
    after = log[kept_epoch(history, params.keep)]
    terms = {"background_before": float(log.iloc[0]), "background_after": float(after)}
    return judge(lr, history, params.keep) | terms

"""One table of all finetuning runs of a preset: which notebook asks for which."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pandas as pd

from relevit.base.stages import read_pipeline, read_stage
from relevit.config import (
    AblationsParams,
    CuresParams,
    FinetuneNotebookParams,
    FinetuneParams,
    RobustnessParams,
    SegmentationParams,
)
from relevit.config.preset import Preset
from relevit.config.robustvit import LOSS_WEIGHTS
from relevit.data.benchmark import open_benchmark
from relevit.finetune import controls, cures, runs, variants
from relevit.finetune.runs import Row

# Of a run, what the table shows; further differences stand in its name.
COLUMNS = ("model", "method", "protocol", "masks", "classes", "images_per_class", "seed", "lr")


def swept(cfg: Any) -> list[Row]:
    """The runs of a preset's sweep, in the order of its section `pipeline`.

    Each answers as many images as a notebook with `images_per_set` asks for. The weights of the
    terms that the preset gives are those of its method: a baseline has the paper's.
    """
    found = []
    for grid in read_pipeline(cfg.preset).sweep:
        for model, method, protocol, masks, seed in product(
            grid.models, grid.methods, grid.protocols, grid.masks, grid.seeds
        ):
            own = {"model": model, "method": method, "protocol": protocol, "masks": masks}
            own |= {"seed": seed} | ({} if method == "relevance" else dict.fromkeys(LOSS_WEIGHTS))
            params = read_stage(cfg, FinetuneParams, **own)
            found.append(Row(params, images_per_set=cfg.images_per_set))
    return list(runs.once(found).values())


def asked(preset: Preset) -> dict[str, dict[str, Row]]:
    """The rows that each notebook of a preset reads, by name."""
    found = {name: of(preset.stages[name]) for name, of in _ASKED.items() if name in preset.stages}
    return {name: runs.once(each) for name, each in found.items()}


def _finetune(cfg: FinetuneNotebookParams) -> list[Row]:
    return [*runs.rates_of_own(cfg), Row(cfg.run, validated=None)]


def _robustness(cfg: RobustnessParams) -> list[Row]:
    return list(controls.compared(cfg).values())


def _cures(cfg: CuresParams) -> list[Row]:
    sweep = swept(cfg)
    search = [row for arm in runs.searched_arms(cfg) for row in runs.rates_of_arm(cfg, *arm)]
    models = dict.fromkeys([cfg.model, *(row.params.model for row in sweep)])
    each = {"images_per_set": cfg.images_per_set}
    originals = [runs.original(cfg, model, **each) for model in models]
    arms = cures.cures(cfg).values()
    return [*originals, *runs.own_runs(cfg, cfg.seeds, **each), *sweep, *search, *arms]


def _ablations(cfg: AblationsParams) -> list[Row]:
    groups = variants.ablations(cfg).values()
    base = runs.original(cfg, cfg.compared_model, images_per_set=cfg.images_per_set)
    return [base, *(row for group in groups for row in group.values())]


def _segmentation(cfg: SegmentationParams) -> list[Row]:
    """Scenes are drawn without their parts for a run and its control; photographs cannot be."""
    control = controls.with_and_without(cfg)["without"]
    return [*_own(cfg), *([control] if open_benchmark(cfg).composable else [])]


def _own(cfg: Any) -> list[Row]:
    return runs.own_runs(cfg, cfg.seeds)


_ASKED: dict[str, Callable[..., list[Row]]] = {
    "02_finetune": _finetune,
    "03_robustness": _robustness,
    "04_cures": _cures,
    "05_ablations": _ablations,
    "07_segmentation": _segmentation,
    "06_attribution": lambda cfg: runs.own_runs(cfg, [cfg.seed]),
}
_ASKED |= dict.fromkeys(("08_iav", "99_report"), _own)


def of_preset(preset: Preset) -> dict[str, Row]:
    """All rows, each once, after those that it needs."""
    wanted = [row for each in asked(preset).values() for row in each.values()]
    before = [need for row in runs.once(wanted).values() for need in runs.needs(row)]
    return runs.once([*before, *wanted])


def shown(preset: Preset) -> pd.DataFrame:
    """The table for people: a row a run, and the notebooks that read it."""
    readers: dict[str, list[str]] = {}
    for notebook, each in asked(preset).items():
        for name in each:
            readers.setdefault(name, []).append(notebook)
    found = [
        {"run": name, "read by": ", ".join(readers.get(name, []))}
        | {key: getattr(row.params, key) for key in COLUMNS}
        | row.asked
        for name, row in of_preset(preset).items()
    ]
    return pd.DataFrame(found)

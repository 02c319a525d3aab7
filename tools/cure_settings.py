"""Which rate and weight each cure gets: by validation images of the animals alone.

`python tools/cure_settings.py` runs every arm of 04_cures and map of 05a_ablations in
params/study.yaml (or those that are named) on the workshop's
original (finish `00_start` of it first), seed 0, at each rate and weight below, and prints all of
them. Of those that harm neither accuracy nor the class loss (`learning_rate.judge`), the highest
rate is chosen, and of its weights the highest: the paper's rule for the rate, and its like for the
weight. Grids were fixed before any run.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import pandas as pd

from reproduction import runs
from reproduction.params.cells import FINETUNED, params_of
from reproduction.runs.run import Row
from reproduction.stages import preset_file, read_stage

RATES = (1e-6, 5e-6, 2.5e-5)
HEAD_RATES = (1e-4, 1e-3, 1e-2)  # of a head alone
WEIGHTS = {  # of `weight_relevance`; arms that are not named have the one of the study
    "cft": (0.08, 0.8),
    "energy": (0.03, 0.1, 0.3, 1.0),
    "l1": (0.1, 0.3, 1.0, 3.0),
}


def asked(arms: dict[str, dict[str, Any]]) -> list[tuple[str, Row]]:
    """Every arm at every rate and weight, as a row on the animals."""
    notebook = params_of("02_finetune").from_preset(preset_file("workshop"))
    base = read_stage(notebook, FINETUNED, validation_images=notebook.rate_images)
    found = []
    for arm, changes in arms.items():
        rates = HEAD_RATES if changes.get("trained_blocks") == 0 else RATES
        for lr, weight in product(rates, WEIGHTS.get(arm, (None,))):
            grid = {"lr": lr} | ({} if weight is None else {"weight_relevance": weight})
            params = params_of(FINETUNED).checked(
                base.model_dump() | changes | grid, f"arm {arm!r}"
            )
            found.append((arm, Row(params, validated=(0, params.epochs))))
    return found


def table(rows: list[tuple[str, Row]], limit_pts: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What each run came to, and the rate and weight that are chosen of each arm (NaN: none)."""
    found = runs.judged(row for _, row in rows)
    found["arm"] = [arm for arm, _ in rows]
    found["weight"] = [row.params.weight_relevance for _, row in rows]
    found["passes"] = (found["drop_pts"] <= limit_pts) & ~found["rising"].astype(bool)
    shown = ["arm", "lr", "weight", "drop_pts", "class_loss_before", "class_loss", "passes"]
    passing = found[found["passes"]].sort_values(["lr", "weight"])
    best = passing.groupby("arm")[["lr", "weight"]].last().reindex(list(dict(rows)))
    return found[shown], best


def main() -> None:
    """Run what is missing, several side by side, and print the table and what is chosen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--arms", nargs="+", help="these alone")
    options, study = parser.parse_args(), preset_file("study")
    arms = (
        params_of("04_cures").from_preset(study).arms
        | params_of("05a_ablations").from_preset(study).maps
    )
    limit_pts = params_of("02_finetune").from_preset(study).limit_pts
    rows = asked({name: arms[name] for name in options.arms or arms})
    with ProcessPoolExecutor(options.jobs) as pool:
        list(pool.map(runs.make, [row for _, row in rows]))
    for found in table(rows, limit_pts):
        print(found.to_string(), end="\n\n")


if __name__ == "__main__":
    main()

"""The numbers of a finished run as small CSV files, for `docs/results/`; columns: docs/results.md.

They are written with the notebooks' outputs (`relevit.pipeline.notebooks`), from the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from relevit.claims import ResultTables
from relevit.evaluate.paired import ORIGINAL
from relevit.finetune import cures

RUN = ["world", "arm", "seed", "dataset"]
KEYS = ["world", "masks", "images_per_class", "arm"]  # of a run beside the study
TEST = ["test", "model", "target", "measure", "method"]
DIGITS = 2  # of percent and points


def result_files(executed: Mapping[str, Path], preset: str) -> dict[str, str]:
    """The text of each file by its name, from the executed notebook of every stage.

    Raises: KeyError where a table of the run is missing.
    """
    tables = ResultTables({name: path.parent for name, path in executed.items()})
    made = {
        "sets": sets(tables["03_robustness/answers"]),
        "added": added(tables),
        "methods": methods(tables),
        "cures": with_study(tables["04_cures/cures"], "cures", preset),
        "maps": with_study(tables["05_ablations/maps"], "maps", preset),
        "claims": tables["99_report/claims"],
    }
    return {f"{name}.csv": _text(table) for name, table in made.items()}


def sets(answers: pd.DataFrame) -> pd.DataFrame:
    """Top-1 of each set, arm and seed: of the original, and finetuned without and with the terms.

    `answers` as from `finetune.controls.study`.
    """
    top1 = 100 * answers.groupby([*RUN, "relevance"], observed=True)["right"].mean()
    wide = top1.unstack("relevance").set_axis(["without_pct", "with_pct"], axis=1).reset_index()
    original = wide[wide["arm"] == ORIGINAL].rename(columns={"without_pct": "original_pct"})
    keys = [name for name in RUN if name != "arm"]
    found = wide[wide["arm"] != ORIGINAL].merge(original[[*keys, "original_pct"]], on=keys)
    return found[[*RUN, "original_pct", "without_pct", "with_pct"]].sort_values(RUN)


def added(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """What relevance adds, with intervals: set by set, and on the average of the shifted sets."""
    whole = tables["03_robustness/added"].assign(dataset="shifted_average")
    own = tables["03_robustness/columns"]
    others = whole[~whole["world"].isin(own["world"])]
    keys = ["world", "arm", "classes", "dataset"]
    found = pd.concat([own, others], ignore_index=True)
    return found[[*keys, *found.columns.drop(keys)]].sort_values(keys)


def methods(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Twelve attribution methods in the segmentation and the perturbation test."""
    outlined = tables["methods_segmentation"].rename(columns={"metric": "measure"})
    outlined = outlined.assign(test="segmentation", target="predicted")
    erased = tables["methods_perturbation"].rename(
        columns={"direction": "measure", "auc_pct": "value_pct"}
    )
    found = pd.concat([outlined, erased.assign(test="perturbation")], ignore_index=True)
    return found[[*TEST, "value_pct", "low_pct", "high_pct"]].sort_values(TEST)


def with_study(ours: pd.DataFrame, question: str, preset: str) -> pd.DataFrame:
    """The arms of the run, and those of the study; only what the study has of each."""
    study = cures.of_study(question)
    both = {preset: ours.reindex(columns=study.columns), "study": study}
    found = pd.concat([table.assign(run=run) for run, table in both.items()], ignore_index=True)
    keys = [name for name in KEYS if name in found]
    return found[["run", *study.columns]].sort_values(["run", *keys])


def _text(table: pd.DataFrame) -> str:
    rounded = table.round({name: DIGITS for name in table if str(name).endswith(("_pct", "_pts"))})
    return rounded.to_csv(index=False, float_format="%.6g", lineterminator="\n")

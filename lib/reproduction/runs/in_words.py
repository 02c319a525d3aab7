"""Tables of one finetuning run for a reader, in words: what came of it, by which rate, what a
changed parameter has done, and how much models lean on the background.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from relevit.base.results import read_rows
from relevit.evaluate.looking import Look
from relevit.finetune.epochs import LOG, History
from relevit.finetune.own_audit import Audited
from reproduction.config import Params
from reproduction.runs.runs import Row, read
from reproduction.stages import changed_from_preset, read_summary, results_of

FIGURES = "figures"  # what a summary calls those that `beside_preset` reads
NOT_MADE = "not made yet"


def before_and_after(looks: Sequence[Look], right_pct: Sequence[float]) -> pd.DataFrame:
    """Two looks at the same images, and the right answers in validation: before, after, change."""
    figures = {
        "relevance on the object, %": [float(seen.on_object_pct.mean()) for seen in looks],
        "overlap of map and mask (IoU), %": [float(seen.iou_pct.mean()) for seen in looks],
        "right answers, validation, %": list(right_pct),
    }
    table = pd.DataFrame(figures, index=["before", "after"], dtype=float).T
    return table.assign(change=table["after"] - table["before"])


def searched_logs(rows: Iterable[Row]) -> dict[float, History]:
    """The log of each run of a search by its rate, without those whose loss became infinite."""
    made = [row for row in rows if not read(row, or_diverged=True)["failed"]]
    return {row.params.lr: read_rows(row.folder / LOG) for row in made}


def rates_in_words(judged: pd.DataFrame, chosen: float | None) -> pd.DataFrame:
    """What the rule saw at each rate (`runs.judged`); a fall of validation top-1 has a minus."""
    return pd.DataFrame(
        {
            "learning rate": judged["lr"].map("{:g}".format),
            "change of validation top-1, points": judged["drop_pts"].map(lambda x: f"{-x:+z.1f}"),
            "class loss rises": judged["rising"].map({True: "yes", False: "no"}),
            "chosen": judged["lr"].eq(chosen).map({True: "yes", False: ""}),
        }
    ).set_index("learning rate")


def gaps_in_words(audits: Mapping[str, Audited]) -> pd.DataFrame:
    """The background gap of each audited model, by its name, with its verdict."""
    found = [(each.audit.gap_pts, each.audit.verdict) for each in audits.values()]
    shown = (
        {row.condition: row.images for row in each.audit.conditions} for each in audits.values()
    )
    return pd.DataFrame(
        {
            "images": [images["same"] for images in shown],
            "background gap, points": [f"{gap.value:+z.1f}" for gap, _ in found],
            "95 % interval": [f"{gap.low:+z.1f} to {gap.high:+z.1f}" for gap, _ in found],
            "verdict": [verdict for _, verdict in found],
        },
        index=pd.Index(audits, name="model"),
    )


def beside_preset(cfg: Params, yours: Mapping[str, float]) -> pd.DataFrame | None:
    """What was changed and what came of it, beside the preset's own run; None if nothing was.

    `yours` are figures by their words. Those of the preset's run are FIGURES in its summary.
    """
    changed = changed_from_preset(cfg)
    if not changed:
        return None
    try:
        theirs = dict(read_summary(results_of(cfg, cfg.notebook)).values_of(FIGURES))
    except (FileNotFoundError, ValueError):  # not made, or by other parameters than now
        theirs = {}
    rows = {name: [_written(value) for value in pair] for name, pair in changed.items()}
    rows |= {name: [_written(theirs.get(name, NOT_MADE)), _written(yours[name])] for name in yours}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["the preset's run", "yours"])


def _written(value: Any) -> str:
    """A number with one decimal, or exactly where that is too few, such as a rate."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:g}"

"""The learning rate: RobustViT's rule.

Source: RobustViT Sec. 4: the highest rate of a grid at which validation accuracy falls by no
more than a limit (the paper: 2 to 3 points) and the classification loss does not rise. It looks
at training and validation images alone.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy

from relevit.choices.words import MAP_LOSSES
from relevit.finetune.epochs import History
from relevit.finetune.loop import CLASS_LOSSES
from relevit.finetune.settings import FinetuneChoices

# What counts as a rise of the classification loss: at 0.01 nats the right class is 1 % less
# probable, in the geometric mean. A share of the loss says nothing where that is nearly 0.
RISE_NATS = 0.01
CHANCE = 0.05  # of a rise as large by the draw of images alone


def kept_epoch(history: History, keep: str) -> int:
    """The epoch whose weights a run keeps: its last, or the lowest validation loss (A13)."""
    if keep == "last":
        return history[-1]["epoch"]
    return min(history[1:], key=lambda r: (r["validation_loss_total"], -r["epoch"]))["epoch"]


def class_loss_column(params: FinetuneChoices) -> str:
    """Where the log of a run has the classification loss of the rule: that of its own class term.

    A model that relies less on its context is less sure of its answers, so that their confidence
    says nothing of harm where labels are trained, as baselines do too.
    """
    own_answers = params.method in MAP_LOSSES and params.class_term == "confidence"
    return "validation_confidence_loss" if own_answers else "validation_label_loss"


def judge(lr: float, history: History | None, params: FinetuneChoices) -> dict[str, float | bool]:
    """What the rule looks at in one run with these parameters.

    Without a history the loss became infinite: an infinite `drop_pts`, and no more is known.
    `drop_pts` is the loss of validation top-1 at the kept epoch, in points. `rising` says whether
    the classification loss of the validation images rose since before finetuning by more than
    RISE_NATS, and beyond chance: image by image, with the standard error `class_loss_error`
    (Student's t, one-sided). On the training images it falls at any rate, as it is trained there.
    The background term, `background_before` and `background_after`, is beside it and not judged;
    NaN of a method that has none.
    """
    if history is None:
        return {"lr": lr, "drop_pts": np.inf, "rising": True, "background_after": np.nan}
    log, column = pd.DataFrame(history), class_loss_column(params)
    before, kept = log.iloc[0], log.loc[kept_epoch(history, params.keep)]
    rises = np.subtract(kept[CLASS_LOSSES], before[CLASS_LOSSES])
    stats, risen = scipy.stats, kept[column] - before[column] > RISE_NATS
    return {
        "lr": lr,
        "validation_top1_pct": kept["validation_top1_pct"],
        "drop_pts": before["validation_top1_pct"] - kept["validation_top1_pct"],
        "class_loss_before": before[column],
        "class_loss": kept[column],
        "class_loss_error": float(stats.sem(rises)),
        "rising": bool(
            risen and stats.ttest_1samp(rises, 0, alternative="greater").pvalue < CHANCE
        ),
        "validation_loss_total": kept["validation_loss_total"],
        "background_before": before.get("validation_loss_background", np.nan),
        "background_after": kept.get("validation_loss_background", np.nan),
    }


def highest_passing(table: pd.DataFrame, limit_pts: float) -> float | None:
    """The paper's rule: the highest rate that harms neither accuracy nor the class term.

    Source: RobustViT Sec. 4. `table` has a row a rate, as from `judge`. A rate passes when top-1
    falls by at most `limit_pts` (the paper: 2 to 3) and the classification loss did not rise. None
    where no rate passes.
    """
    passing = [
        row["lr"]
        for _, row in table.iterrows()
        if row["drop_pts"] <= limit_pts and not row["rising"]
    ]
    return max(passing, default=None)


def taken_rate(table: pd.DataFrame, limit_pts: float) -> float:
    """The rate that a run gets: the highest that passes; where none does, the lowest tried.

    Raises: ValueError where the loss became infinite at each.
    """
    passing = highest_passing(table, limit_pts)
    if passing is not None:
        return float(passing)
    finite = table[np.isfinite(table["drop_pts"])]
    if finite.empty:
        raise ValueError(
            f"learning rate: the loss became infinite at each of {sorted(table['lr'])}; give a "
            "lower one"
        )
    return float(finite["lr"].min())

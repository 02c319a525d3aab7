"""The learning rate: RobustViT's rule, which looks at training and validation images alone.

Source: RobustViT Sec. 4: the highest rate of a grid at which validation accuracy falls by no
more than a limit (the paper: 2 to 3 points) and the classification loss does not rise.
"""

from __future__ import annotations

import pandas as pd

from relevit.finetune.runs import kept_epoch
from relevit.training.epochs import History

RISE_PCT = 10.0  # what counts as a rise of the classification loss, beyond noise


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

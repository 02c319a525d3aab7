"""RobustViT's method and its baselines: how a model is finetuned on where it looks.

In the order of reading: `settings` (and the paper's `hyperparameters`), `step` (the losses of a
batch: the method on one page), `loop`, `validation`, `baselines` (what GradMask and RRR train),
`runs`, `variants`, `learning_rate` and `controls` (what notebooks ask for). Imports training,
evaluation and what lies below them.
"""

from relevit.finetune import baselines, runs
from relevit.finetune.hyperparameters import (
    BASELINES,
    paper_rate,
    paper_temperature,
    paper_weights,
    script_weights,
)
from relevit.finetune.learning_rate import (
    arm_params,
    choose_learning_rate,
    choose_rates,
    judge,
    lowest_rates,
    rate_factor,
    try_rates,
)
from relevit.finetune.loop import finetune
from relevit.finetune.settings import FinetuneSettings, resolved
from relevit.finetune.step import make_optimizer, step_losses

__all__ = [
    "BASELINES",
    "FinetuneSettings",
    "arm_params",
    "baselines",
    "choose_learning_rate",
    "choose_rates",
    "finetune",
    "judge",
    "lowest_rates",
    "make_optimizer",
    "paper_rate",
    "paper_temperature",
    "paper_weights",
    "rate_factor",
    "resolved",
    "runs",
    "script_weights",
    "step_losses",
    "try_rates",
]

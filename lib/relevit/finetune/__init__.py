"""RobustViT's method and its baselines: how a model is finetuned on where it looks.

In the order of reading: `settings` (and the paper's own), `step` (the losses of a
batch: the method on one page), `loop` and `epochs`, `run` (from a start to a finetuned model, and
what is looked at after each epoch), `baselines` (what GradMask and RRR train), `augmenting` (what
is done to images by their masks), `learning_rate` (the paper's rule).
"""

from relevit.finetune import augmenting, baselines
from relevit.finetune.learning_rate import highest_passing, judge, taken_rate
from relevit.finetune.loop import finetune
from relevit.finetune.settings import (
    BASELINES,
    FinetuneSettings,
    paper_rate,
    paper_temperature,
    paper_weights,
    resolved,
)
from relevit.finetune.step import make_optimizer, step_losses

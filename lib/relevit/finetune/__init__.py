"""RobustViT's method and its baselines: settings, one step, the loop, and runs by parameters."""

from relevit.finetune.loop import finetune
from relevit.finetune.settings import FinetuneSettings

__all__ = ["FinetuneSettings", "finetune"]

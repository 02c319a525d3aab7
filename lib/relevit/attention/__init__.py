"""How attention runs inside timm's Vision Transformers, and how to watch it.

Here live the record of the attention maps, and the rows of a token matrix that a head reads.
Imports nothing else of the suite.
"""

from relevit.attention.patches import patch_grid, to_heatmap
from relevit.attention.recording import (
    Tape,
    alone,
    attention_for_gradients,
    attention_layers,
    evaluating,
    frozen_weights,
    record_attention,
    unfused_attention,
)
from relevit.attention.token_rows import Pooling, head_pooling, prefix_tokens

__all__ = [
    "Pooling",
    "Tape",
    "alone",
    "attention_for_gradients",
    "attention_layers",
    "evaluating",
    "frozen_weights",
    "head_pooling",
    "patch_grid",
    "prefix_tokens",
    "record_attention",
    "to_heatmap",
    "unfused_attention",
]

"""How attention runs inside timm's Vision Transformers, and how to watch it.

Here live the record of the attention maps, the last block's short cut for the class token, and
the rows of a token matrix that a head reads. Imports nothing else of the suite.
"""

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

__all__ = [
    "Tape",
    "alone",
    "attention_for_gradients",
    "attention_layers",
    "evaluating",
    "frozen_weights",
    "record_attention",
    "unfused_attention",
]

"""Vision Transformers by name: what is known of each, how it wants its pictures, its weights.

Weights are shipped, fetched or found, and never a pickle that is run. Models know nothing of data
sets; they import attention (which rows a head reads), `relevit.base` and `relevit.config`.
"""

from relevit.models.loading import MODELS, load_backbone, load_model, load_pretrained, model_spec
from relevit.models.spec import ModelSpec

__all__ = ["MODELS", "ModelSpec", "load_backbone", "load_model", "load_pretrained", "model_spec"]

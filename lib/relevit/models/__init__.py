"""Vision Transformers by name: what is known of each, and its weights, shipped, fetched or
found."""

from relevit.models.loading import MODELS, load_backbone, load_model, load_pretrained, model_spec
from relevit.models.spec import ModelSpec

__all__ = ["MODELS", "ModelSpec", "load_backbone", "load_model", "load_pretrained", "model_spec"]

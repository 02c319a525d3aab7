"""Vision Transformers by name: what is known of each, how it wants its pictures, its weights.

Weights are shipped, fetched or found, and never a pickle that is run.
"""

from relevit.choices.words import MORE_MODELS
from relevit.models.loading import load_model, open_model
from relevit.models.registry import MODELS, model_spec, shipped_weights
from relevit.models.spec import ModelSpec

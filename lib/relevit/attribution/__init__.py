"""Attribution methods: what every patch contributes to a class, by twelve rules.

Each is `(model, images, target=None, **options) -> [batch, patches]`, for whole batches, with
`images` normalised and `target` one class an image (None: the predicted one). `protocol` says
whether the rule is that of the papers' text or of their code.
"""

from __future__ import annotations

from collections.abc import Callable

from relevit.attribution.beyond_intuition import head_wise, token_wise
from relevit.attribution.ga import ga
from relevit.attribution.gradcam import gradcam
from relevit.attribution.integrated_gradients import integrated_gradients
from relevit.attribution.lrp import lrp
from relevit.attribution.raw_attention import raw_attention
from relevit.attribution.rollout import rollout
from relevit.attribution.smoothgrad import smoothgrad
from relevit.attribution.transformer_attribution import partial_lrp, transformer_attribution
from relevit.relevance import gae

METHODS: dict[str, Callable] = {
    "raw_attention": raw_attention,
    "rollout": rollout,
    "gradcam": gradcam,
    "gae": gae,
    "ga": ga,
    "partial_lrp": partial_lrp,
    "lrp": lrp,
    "transformer_attribution": transformer_attribution,
    "head_wise": head_wise,
    "token_wise": token_wise,
    "smoothgrad": smoothgrad,
    "integrated_gradients": integrated_gradients,
}

VARIANTS = ("head_wise", "token_wise")  # Beyond Intuition's own
# What its Tables 1 and 2 compare them with.
BASELINES = ("raw_attention", "rollout", "gradcam", "partial_lrp", "ga", "transformer_attribution")

"""Attribution methods: what every patch contributes to a class, by twelve rules.

Each is `(model, images, target=None, **options) -> [batch, patches]`, for whole batches, each image
as if alone (differences C6), with `images` normalised and `target` one class for all or one an
image (None: the predicted one). The model works in eval mode meanwhile, but where its graph is
asked for (`relevance.explaining`). `protocol` says whether the rule is that of the papers' text or
of their code. The room may import relevance and what lies below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.attribution.beyond_intuition import express_all, head_wise, token_wise
from relevit.attribution.ga import ga
from relevit.attribution.gradcam import gradcam
from relevit.attribution.integrated_gradients import completeness_gap, integrated_gradients
from relevit.attribution.lrp import lrp
from relevit.attribution.raw_attention import raw_attention
from relevit.attribution.rollout import rollout
from relevit.attribution.smoothgrad import smoothgrad
from relevit.attribution.transformer_attribution import partial_lrp, transformer_attribution
from relevit.relevance import Protocol, Target, gae

__all__ = ["BASELINES", "METHODS", "VARIANTS", "check_known", "completeness_gap", "explain_all"]

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
# What its Tables 1 and 2 compare them with. Here the segmentation test has partial LRP too, and LRP
# explains the model that is given; the published script has neither (differences D7).
BASELINES = ("raw_attention", "rollout", "gradcam", "partial_lrp", "ga", "transformer_attribution")


def check_known(methods: Iterable[str]) -> None:
    """Raises: ValueError for names that are not of METHODS."""
    if unknown := [name for name in methods if name not in METHODS]:
        raise ValueError(f"methods: {unknown} are unknown; use some of {list(METHODS)}")


def explain_all(
    model: nn.Module,
    images: Inputs,
    target: Target,
    methods: Iterable[str],
    protocol: Protocol = "published",
) -> dict[str, Float[Tensor, "batch patches"]]:
    """The maps of several METHODS; the VARIANTS share their path, which is most of their work.

    Raises: ValueError for an unknown method, before any work, and as the methods do.
    """
    methods = tuple(methods)
    check_known(methods)
    own = [name for name in VARIANTS if name in methods]
    maps = {}
    if own:
        pairs = [(name, "integrated_gradient") for name in own]
        made = express_all(model, images, target, pairs=pairs, protocol=protocol)
        maps = dict(zip(own, made, strict=True))
    return {
        name: maps[name]
        if name in maps
        else METHODS[name](model, images, target, protocol=protocol)
        for name in methods
    }

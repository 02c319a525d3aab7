"""All methods by name, and how they are called: one by one, together, as heatmaps, in training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from relevit.attribution.attn_lrp import attn_lrp, attn_lrp_and_logits
from relevit.attribution.beyond_intuition import express_all, head_wise, token_wise
from relevit.attribution.libra_grad import libra_grad
from relevit.attribution.lrp import lrp, partial_lrp, transformer_attribution
from relevit.attribution.pixels import integrated_gradients, smoothgrad
from relevit.attribution.readout import legrad, read_and_logits, readout
from relevit.choices.words import ALIASES, TrainedMap
from relevit.data.inputs import Picture, model_input
from relevit.maps import (
    Inputs,
    Map,
    Target,
    attention_gradient,
    ga,
    gae,
    gradcam,
    method_options,
    need_head,
    observe,
    patch_grid,
    raw_attention,
    rollout,
    to_heatmap,
    unwrapped,
)
from relevit.protocols import Protocol

METHODS: dict[str, Callable[..., Float[Tensor, "batch patches"]]] = {
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
    "attention_gradient": attention_gradient,
    "legrad": legrad,
    "readout": readout,
    "attn_lrp": attn_lrp,
    "libra_grad": libra_grad,
}

OURS = frozenset(METHODS)  # others are what somebody has added
# Below zero is what speaks against the class.
SIGNED = ("lrp", "integrated_gradients", "attn_lrp", "libra_grad")
VARIANTS = ("head_wise", "token_wise")  # Beyond Intuition's own
# What its Tables 1 and 2 compare them with. Here the segmentation test has partial LRP too, and LRP
# explains the model that is given; the published script has neither (differences D7).
BASELINES = ("raw_attention", "rollout", "gradcam", "partial_lrp", "ga", "transformer_attribution")


def explain(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"] | Picture | Sequence[Picture],
    target: Target = None,
    *,
    method: str = "gae",
    protocol: str | None = None,
    positive: bool = False,
    **options: Any,
) -> Float[Tensor, "batch 1 height width"]:
    """Where the model finds a class: heatmaps from 0 to 1, each over its own range.

    `images` are a file, a picture or several, or a tensor of pixels normalised as the model wants
    them (`model_input`), on its device; `method` is one of METHODS, or another name of one
    (ALIASES), and `options` are its own. `target`: one class for all images or one for each, None
    for the predicted ones. `positive` sets what speaks against the class, in
    maps that are SIGNED, to 0 first. The model works in eval mode meanwhile. A map that
    is the same everywhere gives a heatmap of zeros, which a warning says. Without a `protocol` a
    method is as `published`, but for rollout, which is Abnar and Zuidema's, from the first block.
    Raises: ValueError for an unknown method or protocol, images or targets of another form, NaN in
    an image, and as the methods do.
    """
    (method,) = check_known([method])
    model = unwrapped(model)
    if not isinstance(images, Tensor):
        images = model_input(model, images)
    if isinstance(images, Tensor) and not bool(images.isfinite().all()):
        # A heatmap of zeros would come of it.
        raise ValueError("explain: NaN or infinity among the pixels; give images without them")
    maps = METHODS[method](model, images, target, protocol=protocol, **options)
    # Published code makes a constant map NaN.
    maps = maps.detach().nan_to_num(nan=0.0)
    maps = maps.clamp(min=0) if positive and method in SIGNED else maps
    if empty := int((maps.amax(dim=1) <= maps.amin(dim=1)).sum()):
        warnings.warn(
            f"explain: {empty} of {len(maps)} maps of {method} are the same everywhere, and say "
            "nothing of where the answer comes from",
            stacklevel=2,
        )
    return to_heatmap(maps, tuple(images.shape[-2:]), patch_grid(model, images))


def explain_all(
    model: nn.Module,
    images: Inputs,
    target: Target,
    methods: Iterable[str],
    protocol: Protocol | None = None,
) -> dict[str, Float[Tensor, "batch patches"]]:
    """The maps of several METHODS; the VARIANTS share their path, which is most of their work.

    `protocol` as `explain`.

    Raises: ValueError for an unknown method, before any work, and as the methods do.
    """
    methods, model = check_known(methods), unwrapped(model)
    own = [name for name in VARIANTS if name in methods]
    maps = {}
    if own:
        pairs = [(name, "integrated_gradient") for name in own]
        how = protocol or "published"
        rules = {name: method_options(model, name, how) for name in own}
        made = express_all(model, images, target, pairs=pairs, rules=rules, protocol=how)
        maps = dict(zip(own, made, strict=True))
    return {
        name: maps[name]
        if name in maps
        else METHODS[name](model, images, target, protocol=protocol)
        for name in methods
    }


def check_known(methods: Iterable[str]) -> tuple[str, ...]:
    """The names of METHODS that are meant. Raises: ValueError for names that are none."""
    found = tuple(ALIASES.get(name.lower(), name) if name not in METHODS else name
                  for name in methods)  # fmt: skip
    if unknown := [name for name in found if name not in METHODS]:
        raise ValueError(f"methods: {unknown} are unknown; use some of {list(METHODS)}")
    return found


FORMULAS = {"gae": gae.of_seen, "attention": raw_attention.of_seen, "rollout": rollout.of_seen}


def relevance_and_logits(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    exact_gradient: bool = False,
    explanation: TrainedMap = "gae",
    last: int | None = None,
) -> tuple[Map, Float[Tensor, "batch classes"]]:
    """One forward pass: the relevance map in the graph, and the logits.

    For training: the model works in the mode that it has, with its dropout in train mode.
    `exact_gradient=False` takes grad A as a constant, as the published code does (differences A2);
    `True` keeps its graph too: the gradient that the text's formulas have.
    `explanation` puts another map in GAE's place (RobustViT supp. J; no published code, B21):
    `attention` is the last block's, averaged over heads, `rollout` the rows of
    (A_L + I) ... (A_1 + I); neither depends on the class. `readout` is `attribution.readout`.
    `legrad` and `attn_lrp` are made of gradients, and have them exact always: as constants they
    would teach nothing. `last` is the number of blocks that the map is of, counted from the end
    (None: all).
    Raises: ValueError for a model without a head, and as the methods.
    """
    need_head(model)
    if explanation == "attn_lrp":
        return attn_lrp_and_logits(model, images, target, last=last, in_graph=True)
    if explanation in ("readout", "legrad"):
        return read_and_logits(
            model,
            images,
            target,
            mean=explanation == "legrad",
            exact_gradient=exact_gradient or explanation == "legrad",
            in_graph=True,
            last=last,
        )
    seen = observe(
        model,
        images,
        target,
        gradients="all" if explanation == "gae" else "none",
        exact_gradient=exact_gradient,
        in_graph=True,
        last=1 if explanation == "attention" else last,
    )
    return FORMULAS[explanation](seen), seen.logits

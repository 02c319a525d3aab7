"""The maps that a model can be finetuned on: in the graph, with the logits of the same pass."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs, need_softmax
from relevit.attention.token_rows import need_head
from relevit.attribution.attention_methods import raw_attention, rollout
from relevit.attribution.attn_lrp import attn_lrp_and_logits
from relevit.attribution.gae import gae
from relevit.attribution.method import Target
from relevit.attribution.readout import read_and_logits
from relevit.attribution.seen import Map, observe
from relevit.choices.words import TrainedMap

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
    if explanation == "rollout":
        need_softmax(model, explanation)
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

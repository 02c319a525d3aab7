"""IAV: do attention heads look where the decision comes from, and does pretraining show?

Source: Park and Choi, Explanation on Pretraining Bias of Finetuned Vision Transformer, without
published code. `class_attention` gives the heads' rows, an attribution (SmoothGrad, GradCAM,
any of `relevit.attribution.METHODS` that is not negative) or a mask (`patch_average`) what they
are compared with, and `ia_scores` the score of every head:

    attention = class_attention(model, images)
    scores = ia_scores(attention, smoothgrad(model, images, labels))
    global_iav(scores), slopes(scores)

`scores` and `space` work on tensors, `kinds` on tables, `trend` has a part for each.
"""

from relevit.iav.attention import class_attention
from relevit.iav.drift import map_drift
from relevit.iav.kinds import (
    DIFFERENCE,
    KINDS,
    SELF_SUPERVISED,
    SUPERVISED,
    kind_auc,
    kind_intervals,
    kind_trends,
    model_trends,
    separation,
    separations,
)
from relevit.iav.scores import (
    attention_entropy,
    global_iav,
    head_names,
    head_types,
    ia_scores,
    iav,
    identity_share,
    image_share,
    patch_average,
    sorted_heads,
    spread,
    unit_norm,
)
from relevit.iav.space import ClassStructure, class_structure, tsne
from relevit.iav.trend import image_slopes, score_rows, score_tensor, slopes, trend_table

__all__ = [
    "DIFFERENCE",
    "KINDS",
    "SELF_SUPERVISED",
    "SUPERVISED",
    "ClassStructure",
    "attention_entropy",
    "class_attention",
    "class_structure",
    "global_iav",
    "head_names",
    "head_types",
    "ia_scores",
    "iav",
    "identity_share",
    "image_share",
    "image_slopes",
    "kind_auc",
    "kind_intervals",
    "kind_trends",
    "map_drift",
    "model_trends",
    "patch_average",
    "score_rows",
    "score_tensor",
    "separation",
    "separations",
    "slopes",
    "sorted_heads",
    "spread",
    "trend_table",
    "tsne",
    "unit_norm",
]

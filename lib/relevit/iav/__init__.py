"""IAV: do attention heads look where the decision comes from, and does pretraining show?

Source: Park and Choi, Explanation on Pretraining Bias of Finetuned Vision Transformer, without
published code. `class_attention` gives the heads' rows, an attribution (SmoothGrad, GradCAM,
any of `relevit.attribution.METHODS` that is not negative) or a mask (`patch_average`) what they
are compared with, and `ia_scores` the score of every head:

    attention = class_attention(model, images)
    scores = ia_scores(attention, smoothgrad(model, images, labels))
    global_iav(scores), slopes(scores)

`scores` and `space` work on tensors, `trend` on tensors and on tables; `masking` tests a map.
"""

from relevit.iav.masking import masking_curves
from relevit.iav.scores import (
    attention_entropy,
    centred_scores,
    class_attention,
    global_iav,
    ia_scores,
    map_drift,
    patch_average,
    uniform_score,
)
from relevit.iav.space import class_structure, tsne
from relevit.iav.trend import (
    change_after,
    image_slopes,
    kind_intervals,
    run_properties,
    score_rows,
    score_tensor,
    separations,
    slopes,
    trend_table,
)

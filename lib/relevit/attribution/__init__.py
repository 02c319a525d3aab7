"""Attribution methods: what every patch contributes to a class, by seventeen rules.

Each is `(model, images, target=None, *, protocol=None, **options) -> [batch, patches]`, for
whole batches, each image as if alone (differences C6), with `images` normalised and `target` one
class for all or one an image (None: the predicted one). `protocol` says whether the options are
those of the papers' text or of their code (`relevit.protocols`); each can be given alone. None is
as published, but for `rollout`, which is Abnar and Zuidema's.
"""

from relevit.attribution.methods import (
    BASELINES,
    METHODS,
    VARIANTS,
    check_known,
    explain,
    explain_all,
    relevance_and_logits,
)
from relevit.maps import gae, method_options, patch_grid, to_heatmap

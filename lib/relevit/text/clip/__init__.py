"""Images with text: dual encoders of CLIP's kind, joined here or published, and their tests.

Captions, zero-shot answers, two phrases on one image, and which words of a caption count. It may
import what `relevit.text` may, and `relevit.text` itself.
"""

from relevit.text.clip.captions import captioned, colour_alone, described
from relevit.text.clip.dual import CLIP_METHODS
from relevit.text.clip.encoders import join_encoder, ready_encoder
from relevit.text.clip.phrases import group_pairs, likely_pairs, phrase_maps, pointing
from relevit.text.clip.towers import begin_towers, draw_examples, examples
from relevit.text.clip.words import word_shares
from relevit.text.clip.zero_shot import (
    embed_batches,
    erased_group,
    erased_images,
    projected,
    zero_shot_perturbation,
    zero_shot_rows,
)

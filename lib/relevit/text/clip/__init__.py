"""Images with text: dual encoders of CLIP's kind, joined here or published, and their tests.

Captions, zero-shot answers, two phrases on one image, and which words of a caption count. It may
import what `relevit.text` may, and `relevit.text` itself.
"""

from relevit.text.clip.dual import CLIP_METHODS

__all__ = ["CLIP_METHODS"]

"""Images with text: dual encoders of CLIP's kind."""

from relevit.text.clip.dual import CLIP_METHODS

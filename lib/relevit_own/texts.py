"""CLIP as a classifier, whose classes are texts: those that are asked about, or a data set's names.

The engine is `relevit.text.clip`, after Beyond Intuition (Sec. 4.2): while the image is explained,
the texts are constants.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from habitats.real.classes import IMAGENET_NAMES, IMAGENET_WNIDS
from relevit.base.device import choose_device
from relevit.models.loading import OwnModel
from relevit.models.spec import View
from relevit.text.clip.from_transformers import FILES, clip_folder, load_clip

SAID = dict(zip(IMAGENET_WNIDS, IMAGENET_NAMES, strict=True))


def prompts(names: Sequence[str], prompt: str) -> list[str]:
    """What is asked for each class, its name put in the place of {}; a synset's in words."""
    spoken = (SAID[name].split(",")[0] if name in SAID else name for name in names)
    return [prompt.replace("{}", re.sub(r"[_-]+", " ", name)) for name in spoken]


def open_clip(folder: Path | None, texts: Sequence[str], device: str = "auto") -> OwnModel:
    """The classifier of images whose class k is text k.

    `folder` is a CLIP in transformers' format, None for ViT-B/32 of the hub. Logits are those of
    transformers: the cosine of image and text times the learned scale. Pictures are seen as CLIP
    learned them, resized by cubic interpolation, of which the middle is cut out.
    Raises: ImportError without the extra `text`; FileNotFoundError, ValueError for a folder that
    holds no CLIP, and for a text that is too long; ConnectionError.
    """
    place = clip_folder("") if folder is None else folder
    if lost := [name for name in FILES if not (place / name).is_file()]:
        raise FileNotFoundError(
            f"clip: {place} lacks {', '.join(lost)}; give a folder with transformers' files of a "
            "CLIP, in which its weights are safetensors"
        )
    dual, tokenizer = load_clip(place, "clip")
    dual = dual.to(choose_device(device))
    network = dual.image_classifier(dual.embed_phrases(tokenizer, texts))
    side = dual.spec.image_size
    view = View(resize=side, crop=side, interpolation="bicubic")
    return OwnModel(network, replace(dual.spec, view=view, classes=len(texts)), new_head=False)

"""The 1,000 classes of ImageNet-1k in the order of a model's answers, and the sets' shares of them:
among these, which of ImageNet-S are finetuned on and which are kept for validation.

Source: the lists that timm ships, and for ImageNet-S the categories of its authors (Gao et al.
2022). A wnid is a WordNet number such as n01440764; an index counts
the sorted wnids from 0. The ids of ILSVRC's development kit are another order.

RobustViT Sec. 4 finetunes on the "first 500 classes from ImageNet-S", 3 images each. The published
code takes them in the order in which the disk lists folders (B1), which no one else can repeat.
Here they are sorted, or drawn by a seed: both give the same choice on every machine. So are the
images of a class (`habitats.benchmark`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import numpy as np
import yaml


def _timm_lines(name: str) -> tuple[str, ...]:
    """The lines of one of timm's lists, without loading timm, which takes seconds."""
    package = find_spec("timm").origin
    text = (Path(package).parent / "data" / "_info" / name).read_text(encoding="utf-8")
    return tuple(text.splitlines())


IMAGENET_WNIDS = _timm_lines("imagenet_synsets.txt")  # 1,000, in the order of the answers
A_WNIDS = _timm_lines("imagenet_a_synsets.txt")  # 200 of ImageNet-A
R_WNIDS = _timm_lines("imagenet_r_synsets.txt")  # 200 of ImageNet-R
IMAGENET_INDEX: Mapping[str, int] = MappingProxyType(
    {wnid: index for index, wnid in enumerate(IMAGENET_WNIDS)}
)
_LEMMAS = dict(line.split("\t", 1) for line in _timm_lines("imagenet_synset_to_lemma.txt"))
IMAGENET_NAMES = tuple(_LEMMAS[wnid] for wnid in IMAGENET_WNIDS)  # "crane" is there twice
_FIRST = Counter(name.split(", ")[0] for name in IMAGENET_NAMES)
SHORT_NAMES = tuple(  # the first of a class's names, with its index where another has it, too
    first if _FIRST[first := name.split(", ")[0]] == 1 else f"{first} ({index})"
    for index, name in enumerate(IMAGENET_NAMES)
)

_FACTS = yaml.safe_load((files("habitats") / "assets" / "data" / "classes.yaml").read_text("utf-8"))
# ImageNet-S merges five of ImageNet's classes, each into the one named, and leaves out 76.
MERGED: Mapping[str, str] = MappingProxyType(_FACTS["merged"])
_NOT_IN_IMAGENET_S = frozenset(_FACTS["not_in_imagenet_s"].split())
IMAGENET_S_WNIDS = tuple(  # 919; the value of a mask is the place in this list, from 1
    wnid for wnid in IMAGENET_WNIDS if wnid not in MERGED and wnid not in _NOT_IN_IMAGENET_S
)
SI_CLASSES: Mapping[str, int] = MappingProxyType(_FACTS["si_score"])  # 61 objects

TRAIN_CLASSES = 500
# 914: the published code skips all ten tags of the five merged pairs (B2).
FINETUNABLE = tuple(wnid for wnid in IMAGENET_S_WNIDS if wnid not in MERGED.values())


def split_classes(
    count: int = TRAIN_CLASSES, seed: int | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The wnids to finetune on and those to validate with (414, an image each: B2), both sorted.

    The first are the first `count` of FINETUNABLE, or a draw by `seed`. Sorted wnids begin with all
    398 animals, so that the first 500 have every animal and the other 414 have none. A disk's order
    has no such bias: a draw by seed is nearer to what the published code did, though never the same
    classes.
    """
    order = list(FINETUNABLE)
    if seed is not None:
        order = np.random.default_rng(seed).permutation(order).tolist()
    return tuple(sorted(order[:count])), tuple(sorted(order[count:]))

"""The 1,000 classes of ImageNet-1k in the order of a model's answers, and the sets' shares of them:
among these, which of ImageNet-S are finetuned on and which are kept for validation.

Source: the lists that timm ships, and for ImageNet-S the categories of its authors (Gao et al.
2022). A wnid is a WordNet number such as n01440764; an index counts
the sorted wnids from 0. The ids of ILSVRC's development kit are another order.

RobustViT Sec. 4 finetunes on the "first 500 classes from ImageNet-S", 3 images each. The published
code takes them in the order in which the disk lists folders (B1), which no one else can repeat.
Here they are sorted, or drawn by a seed: both give the same choice on every machine. So are the
images of a class (`relevit.data.benchmark`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import numpy as np

WNID = re.compile(r"n\d{8}")


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

# ImageNet-S merges five of ImageNet's classes, each into the one named.
MERGED: Mapping[str, str] = MappingProxyType(
    {
        "n04356056": "n04355933",
        "n04493381": "n02808440",
        "n03642806": "n03832673",
        "n04008634": "n03773504",
        "n03887697": "n15075141",
    }
)
# It leaves out these 76.
NOT_IN_IMAGENET_S = frozenset(
    WNID.findall("""
    n02699494 n02776631 n02777292 n02788148 n02791270 n02807133 n02825657 n02837789 n02871525
    n02877765 n02894605 n02927161 n02966193 n02974003 n02977058 n02988304 n03000247 n03032252
    n03042490 n03065424 n03085013 n03089624 n03160309 n03180011 n03208938 n03216828 n03218198
    n03220513 n03290653 n03388043 n03457902 n03459775 n03461385 n03529860 n03637318 n03661043
    n03697007 n03710637 n03710721 n03733281 n03871628 n03899768 n03967562 n04081281 n04111531
    n04152593 n04200800 n04239074 n04251144 n04264628 n04296562 n04357314 n04372370 n04392985
    n04443257 n04462240 n04501370 n04523525 n04592741 n04599235 n06359193 n06785654 n07248320
    n07590611 n07836838 n07892512 n07920052 n09193705 n09288635 n09332890 n09399592 n09421951
    n09428293 n09468604 n09472597 n10148035
    """)
)
IMAGENET_S_WNIDS = tuple(  # 919; the value of a mask is the place in this list, from 1
    wnid for wnid in IMAGENET_WNIDS if wnid not in MERGED and wnid not in NOT_IN_IMAGENET_S
)
# The 61 objects and their ImageNet index. The set's authors matched them by hand: "jeans" and
# "missile" cannot be looked up among ImageNet's names (jean; a projectile is a missile too).
_SI_OBJECTS = """
    ambulance 407, artichoke 944, backpack 414, bagel 931, banana 954, beaker 438, binoculars 447,
    broccoli 937, burrito 965, candle 470, canoe 472, cello 486, cucumber 943, dumbbell 543,
    envelope 549, flowerpot 738, flute 558, goose 99, guacamole 924, hamster 333, hedgehog 334,
    hippopotamus 344, ipod 605, jeans 608, kite 21, koala 105, lemon 951, lighthouse 437,
    limousine 627, lipstick 629, magpie 18, miniskirt 655, missile 657, mushroom 947, orange 950,
    ostrich 9, otter 360, pig 341, pillow 721, pizza 963, pomegranate 957, pretzel 932,
    printer 742, racket 752, ruler 769, saxophone 776, screwdriver 784, skunk 361, snowmobile 802,
    sock 806, sombrero 808, starfish 327, strawberry 949, taxi 468, teapot 849, toaster 859,
    torch 862, vase 883, wok 909, zebra 340, zucchini 939
"""
SI_CLASSES: Mapping[str, int] = MappingProxyType(
    {name: int(index) for name, index in map(str.split, _SI_OBJECTS.split(","))}
)

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

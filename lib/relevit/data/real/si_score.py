"""SI-Score: cut-out objects pasted on backgrounds, with one thing varied at a time.

Source: Djolonga et al. 2021 (github.com/google-research/si-score); RobustViT Tab. 1 and 2. Sure
is: size.zip unpacks to `area`, rotation.zip to `rotation` and location.zip to
`location20_area02_min0pc`; in each, a picture is <name of the object>/<number>.jpg, one level deep,
with tables about the pictures beside the folders. The varied value is in those tables, and in no
folder's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from relevit.data.real.folders import PAPER_VIEW, read_class_folders
from relevit.data.real.image_set import ImageSet, View

Factor = Literal["location", "rotation", "area"]
FOLDER = "si-score"
NAMES = {"location": "si_location", "rotation": "si_rotation", "area": "si_size"}  # of the sets
ARCHIVES = {"location": "location.zip", "rotation": "rotation.zip", "area": "size.zip"}
UNPACKED_LOCATION = "location20_area02_min0pc"
# The 61 objects and their ImageNet index. The set's authors matched them by hand: "jeans" and
# "missile" cannot be looked up among ImageNet's names (jean; a projectile is a missile too).
CLASSES: Mapping[str, int] = MappingProxyType(
    {
        "ambulance": 407,
        "artichoke": 944,
        "backpack": 414,
        "bagel": 931,
        "banana": 954,
        "beaker": 438,
        "binoculars": 447,
        "broccoli": 937,
        "burrito": 965,
        "candle": 470,
        "canoe": 472,
        "cello": 486,
        "cucumber": 943,
        "dumbbell": 543,
        "envelope": 549,
        "flowerpot": 738,
        "flute": 558,
        "goose": 99,
        "guacamole": 924,
        "hamster": 333,
        "hedgehog": 334,
        "hippopotamus": 344,
        "ipod": 605,
        "jeans": 608,
        "kite": 21,
        "koala": 105,
        "lemon": 951,
        "lighthouse": 437,
        "limousine": 627,
        "lipstick": 629,
        "magpie": 18,
        "miniskirt": 655,
        "missile": 657,
        "mushroom": 947,
        "orange": 950,
        "ostrich": 9,
        "otter": 360,
        "pig": 341,
        "pillow": 721,
        "pizza": 963,
        "pomegranate": 957,
        "pretzel": 932,
        "printer": 742,
        "racket": 752,
        "ruler": 769,
        "saxophone": 776,
        "screwdriver": 784,
        "skunk": 361,
        "snowmobile": 802,
        "sock": 806,
        "sombrero": 808,
        "starfish": 327,
        "strawberry": 949,
        "taxi": 468,
        "teapot": 849,
        "toaster": 859,
        "torch": 862,
        "vase": 883,
        "wok": 909,
        "zebra": 340,
        "zucchini": 939,
    }
)


def read_si_score(
    data_root: Path, view: View = PAPER_VIEW, *, factor: Factor = "location"
) -> ImageSet:
    """The pictures in which one factor is varied: `location`, `rotation` or `area`.

    `data_root`/si-score has a folder of the factor's name; `location` may keep the name that its
    archive gives it. The answer is sought among all 1,000 classes, as in the published code.
    Raises: ValueError for another factor; further as `read_class_folders`.
    """
    if factor not in get_args(Factor):
        raise ValueError(f"si_score: factor is {factor!r}; give one of {get_args(Factor)}")
    folder = data_root / FOLDER / factor
    unpacked = data_root / FOLDER / UNPACKED_LOCATION
    if factor == "location" and not folder.is_dir() and unpacked.is_dir():
        folder = unpacked
    return read_class_folders(NAMES[factor], folder, CLASSES, ARCHIVES[factor], view)

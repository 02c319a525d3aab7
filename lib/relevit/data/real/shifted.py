"""ImageNet's classes in other pictures: ImageNet-A, -R, -Sketch, ImageNetV2 and SI-Score.

Source: the robustness tables of RobustViT (Tab. 1, 2); Hendrycks et al. 2021 for -A and -R, Wang et
al. 2019 for Sketch, Recht et al. 2019 for V2, Djolonga et al. 2021 for SI-Score
(github.com/google-research/si-score).

SI-Score pastes cut-out objects on backgrounds and varies one thing at a time. Sure is: size.zip
unpacks to `area`, rotation.zip to `rotation` and location.zip to `location20_area02_min0pc`; in
each, a picture is <name of the object>/<number>.jpg, one level deep, with tables about the pictures
beside the folders. The varied value is in those tables, and in no folder's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from relevit.data.real.classes import A_WNIDS, IMAGENET_INDEX, IMAGENET_WNIDS, R_WNIDS, index_of
from relevit.data.real.image_set import PAPER_VIEW, ImageSet, read_class_folders
from relevit.models.spec import View

A_FOLDER = "imagenet-a"
R_FOLDER = "imagenet-r"
SKETCH_FOLDER = "sketch"
V2_FOLDER = "imagenetv2-matched-frequency-format-val"
WAYS = (1000, 200)
Factor = Literal["location", "rotation", "area"]
SI_FOLDER = "si-score"
SI_SETS = {"location": "si_location", "rotation": "si_rotation", "area": "si_size"}
SI_ARCHIVES = {"location": "location.zip", "rotation": "rotation.zip", "area": "size.zip"}
UNPACKED_LOCATION = "location20_area02_min0pc"
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


def read_imagenet_a(data_root: Path, view: View = PAPER_VIEW, *, ways: int = 1000) -> ImageSet:
    """ImageNet-A: photographs that ResNet-50 gets wrong, 7,500 of 200 classes.

    Labels are among ImageNet's 1,000. `ways` are the classes among which the answer is sought:
    1,000 as in RobustViT's published code (B6), or this set's 200 as by the set's authors.
    Raises: ValueError for other `ways`; further as `read_class_folders`.
    """
    return _read_of_200("a", data_root / A_FOLDER, A_WNIDS, "imagenet-a.tar", view, ways)


def read_imagenet_r(data_root: Path, view: View = PAPER_VIEW, *, ways: int = 1000) -> ImageSet:
    """ImageNet-R: paintings, toys and other renditions, 30,000 of 200 classes; as ImageNet-A."""
    return _read_of_200("r", data_root / R_FOLDER, R_WNIDS, "imagenet-r.tar", view, ways)


def read_sketch(data_root: Path, view: View = PAPER_VIEW) -> ImageSet:
    """ImageNet-Sketch: about 51 black and white sketches of each of the 1,000 classes.

    Raises: as `read_class_folders`.
    """
    folder = data_root / SKETCH_FOLDER
    return read_class_folders("sketch", folder, IMAGENET_INDEX, "ImageNet-Sketch.zip", view)


def read_v2(data_root: Path, view: View = PAPER_VIEW) -> ImageSet:
    """ImageNetV2, matched frequency: ten new photographs of each of the 1,000 classes.

    Its folders are the indices, 0 to 999 and without leading zeros. Sorted as text, 10 comes
    before 2, and loaders that number folders in that order give nearly all a wrong label.
    Raises: as `read_class_folders`.
    """
    indices = {str(index): index for index in range(len(IMAGENET_WNIDS))}
    archive = "imagenetv2-matched-frequency.tar.gz"
    return read_class_folders("v2", data_root / V2_FOLDER, indices, archive, view)


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
    folder = data_root / SI_FOLDER / factor
    unpacked = data_root / SI_FOLDER / UNPACKED_LOCATION
    if factor == "location" and not folder.is_dir() and unpacked.is_dir():
        folder = unpacked
    return read_class_folders(SI_SETS[factor], folder, SI_CLASSES, SI_ARCHIVES[factor], view)


def _read_of_200(
    name: str, folder: Path, wnids: Sequence[str], archive: str, view: View, ways: int
) -> ImageSet:
    if ways not in WAYS:
        raise ValueError(
            f"{name}: ways is {ways!r}; give 1000, as the papers do (B6), or 200, this set's own "
            "classes"
        )
    indices = {wnid: index_of(wnid) for wnid in wnids}
    candidates = tuple(sorted(indices.values())) if ways == len(wnids) else ()
    return read_class_folders(name, folder, indices, archive, view, candidates)

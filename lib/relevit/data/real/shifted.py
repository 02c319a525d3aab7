"""ImageNet's classes in other pictures: ImageNet-A, ImageNet-R, ImageNet-Sketch, ImageNetV2.

Source: the robustness tables of RobustViT (Tab. 1, 2); Hendrycks et al. 2021 for -A and -R, Wang et
al. 2019 for Sketch, Recht et al. 2019 for V2.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relevit.data.real.classes import A_WNIDS, IMAGENET_INDEX, IMAGENET_WNIDS, R_WNIDS, index_of
from relevit.data.real.folders import PAPER_VIEW, read_class_folders
from relevit.data.real.image_set import ImageSet, View

A_FOLDER = "imagenet-a"
R_FOLDER = "imagenet-r"
SKETCH_FOLDER = "sketch"
V2_FOLDER = "imagenetv2-matched-frequency-format-val"
WAYS = (1000, 200)


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

"""Small folders of pictures with masks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from replicas.pictures import object_mask, picture, save_jpeg


def write_plain(folder: Path, classes=("bee", "ant"), count: int = 2, masks: bool = True) -> Path:
    """`count` pictures of each class in images/, and masks beside."""
    for label, name in enumerate(classes):
        for seed in range(count):
            save_jpeg(picture(seed, label), folder / "images" / name / f"{seed}.jpg")
            if masks:
                save_mask(object_mask(seed, label), folder / "masks" / name / f"{seed}.png")
    return folder


def save_mask(mask: np.ndarray, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(mask).save(path)
    return path

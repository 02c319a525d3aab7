"""A folder as people have it: photographs of many kinds in two classes, some of them broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from replicas.pictures import object_mask, picture, save_jpeg, truncate

PLAIN, ODD = "Wald kauz", "Grünspecht"
FINE = {PLAIN: 4, ODD: 6}  # pictures that can be used, by class
BROKEN = (f"{PLAIN}/broken.jpg", f"{PLAIN}/line.png", f"{PLAIN}/text.png")


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


def write_troubled(folder: Path) -> Path:
    """Class folders with all of the kinds in `FINE`, the three of `BROKEN`, and clutter."""
    plain, odd = folder / PLAIN, folder / ODD
    for seed, kind in enumerate(("rgb", "grey", "rgb")):
        save_jpeg(picture(seed, 0, kind=kind), plain / f"{seed}.jpg")
    Image.new("RGB", (9, 12), (200, 0, 0)).save(plain / "small.PNG")
    save_jpeg(picture(1, 1, kind="cmyk"), odd / "cmyk.jpeg")
    save_jpeg(picture(2, 1, kind="exif"), odd / "turned.jpg")
    deep = np.linspace(0, 65535, 60 * 50).astype(np.uint16).reshape(60, 50)
    Image.fromarray(deep).save(odd / "deep.png")
    frames = [picture(seed, 1).resize((60, 50)) for seed in range(3)]
    for name in ("moving.gif", "moving.webp"):
        frames[0].save(odd / name, save_all=True, append_images=frames[1:])
    clear = frames[0].copy()
    clear.putalpha(90)
    clear.save(odd / "clear.png")
    truncate(save_jpeg(picture(3, 0), plain / "broken.jpg"))
    Image.new("RGB", (3, 900)).save(plain / "line.png")
    (plain / "text.png").write_text("no picture")
    for clutter in ("._0.jpg", ".DS_Store", "Thumbs.db", "notes.txt", "phone.heic"):
        (plain / clutter).write_text("clutter")
    return folder

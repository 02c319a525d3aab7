"""Replicas of CIFAR-10 and CIFAR-100, pickled as the published ones."""

import pickle
from pathlib import Path

import numpy as np
from PIL import Image

from habitats.real.catalogue import CATALOGUE
from habitats.real.cifar import FILES, SIDE
from replicas.pictures import Written, picture

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FINE, COARSE = 100, 20  # classes and superclasses of CIFAR-100
NAMES = {
    "cifar10": {"label_names": CLASSES},
    "cifar100": {
        f"{kind}_label_names": [f"{kind}_{number:02}" for number in range(count)]
        for kind, count in (("fine", FINE), ("coarse", COARSE))
    },  # made up; each superclass has five classes in a row
}


def write_cifar(
    key: str, data_root: Path, *, per_class: int = 2, seed: int = 0
) -> list[list[Written]]:
    """All files, each with `per_class` pictures of every class."""
    folder, files = data_root / CATALOGUE[key].folders[0], FILES[key]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / files["names"]).write_bytes(pickle.dumps(NAMES[key]))
    classes = {"cifar10": 10, "cifar100": FINE}[key]
    parts: list[list[Written]] = []
    for part in ("train", "test"):
        parts.append([])
        for name in files[part]:
            labels = (np.arange(per_class * classes) % classes).tolist()
            start = seed + 1000 * len(parts) + len(parts[-1])
            shown = [picture(start + i, y).resize((SIDE, SIDE)) for i, y in enumerate(labels)]
            _write_file(folder / name, key, labels, shown)
            parts[-1] += [
                Written(f"{part}/{len(parts[-1]) + i}", y, image)
                for i, (y, image) in enumerate(zip(labels, shown, strict=True))
            ]
    return parts


def _write_file(path: Path, key: str, labels: list[int], shown: list[Image.Image]) -> None:
    planes = np.stack([np.asarray(image).transpose(2, 0, 1) for image in shown])
    content = {"filenames": [], "data": planes.reshape(len(planes), -1)}
    if key == "cifar10":
        content["labels"] = labels
    else:
        content |= {"fine_labels": labels, "coarse_labels": [y * COARSE // FINE for y in labels]}
    path.write_bytes(pickle.dumps(content, protocol=4))

"""Replicas of the binary versions of CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from relevit.data.real.cifar import CLASSES, FOLDER10, FOLDER100, NAMES10, SIDE, TEST10, TRAIN10
from replicas.pictures import picture

FINE, COARSE = 100, 20  # classes and superclasses of CIFAR-100
NAMES100 = {
    kind: [f"{kind}_{number:02}" for number in range(count)]
    for kind, count in (("fine", FINE), ("coarse", COARSE))
}  # made up; each superclass has five classes in a row


def numbers(
    count: int, classes: int, seed: int
) -> tuple[UInt8[np.ndarray, " count"], UInt8[np.ndarray, "count 3 32 32"]]:
    """Labels, each class in turn, and the planes of the pictures."""
    labels = np.arange(count, dtype=np.uint8) % classes
    drawn = [picture(seed + i, int(label)).convert("RGB") for i, label in enumerate(labels)]
    small = [np.asarray(image.resize((SIDE, SIDE)), dtype=np.uint8) for image in drawn]
    return labels, np.stack(small).transpose(0, 3, 1, 2)


def write_cifar10(data_root: Path, *, per_class: int = 2, seed: int = 0) -> Path:
    """All six files of `cifar-10-batches-bin`, each with `per_class` pictures of every class."""
    folder = data_root / FOLDER10
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAMES10).write_text("\n".join(CLASSES) + "\n\n")
    for number, name in enumerate((*TRAIN10, *TEST10)):
        labels, planes = numbers(per_class * len(CLASSES), len(CLASSES), seed + 1000 * number)
        _write_records(folder / name, labels, planes=planes)
    return folder


def write_cifar100(data_root: Path, *, per_class: int = 2, seed: int = 0) -> Path:
    """The four files of `cifar-100-binary`, `per_class` pictures of each class in each set."""
    folder = data_root / FOLDER100
    folder.mkdir(parents=True, exist_ok=True)
    for kind, names in NAMES100.items():
        (folder / f"{kind}_label_names.txt").write_text("\n".join(names) + "\n")
    for number, name in enumerate(("train.bin", "test.bin")):
        fine, planes = numbers(per_class * FINE, FINE, seed + 1000 * number)
        _write_records(folder / name, fine // (FINE // COARSE), fine, planes=planes)
    return folder


def _write_records(path: Path, *labels: np.ndarray, planes: np.ndarray) -> None:
    path.write_bytes(np.column_stack([*labels, planes.reshape(len(planes), -1)]).tobytes())

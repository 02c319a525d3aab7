"""A replica of CIFAR-10's binary version."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from relevit.data.real.cifar import SIDE
from relevit.data.real.cifar import CLASSES10 as CLASSES, FOLDER, NAMES, TEST, TRAIN
from replicas.pictures import picture


def write_cifar10(data_root: Path, *, per_class: int = 2, seed: int = 0) -> Path:
    """All six files of `cifar-10-batches-bin`, each with `per_class` pictures of every class."""
    folder = data_root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAMES).write_text("\n".join(CLASSES) + "\n\n")
    for number, name in enumerate((*TRAIN, *TEST)):
        records = []
        for count in range(per_class * len(CLASSES)):
            label = count % len(CLASSES)
            small = picture(seed + 1000 * number + count, label).convert("RGB").resize((SIDE, SIDE))
            planes = np.asarray(small, dtype=np.uint8).transpose(2, 0, 1).tobytes()
            records.append(bytes([label]) + planes)
        (folder / name).write_bytes(b"".join(records))
    return folder

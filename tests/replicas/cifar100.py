"""A replica of CIFAR-100's binary version."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from relevit.data.real.cifar import SIDE
from replicas.pictures import picture

FOLDER = "cifar-100-binary"
FINE, COARSE = 100, 20  # classes and superclasses


def write_cifar100(data_root: Path, *, per_class: int = 2, seed: int = 0) -> Path:
    """The four files of `cifar-100-binary`, `per_class` pictures of each class in each set.

    Names are made up, and each superclass has five classes in a row.
    """
    folder = data_root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for kind, count in (("fine", FINE), ("coarse", COARSE)):
        names = [f"{kind}_{number:02}" for number in range(count)]
        (folder / f"{kind}_label_names.txt").write_text("\n".join(names) + "\n")
    for number, name in enumerate(("train.bin", "test.bin")):
        records = []
        for count in range(per_class * FINE):
            label = count % FINE
            small = picture(seed + 1000 * number + count, label).convert("RGB").resize((SIDE, SIDE))
            planes = np.asarray(small, dtype=np.uint8).transpose(2, 0, 1).tobytes()
            records.append(bytes([label * COARSE // FINE, label]) + planes)
        (folder / name).write_bytes(b"".join(records))
    return folder

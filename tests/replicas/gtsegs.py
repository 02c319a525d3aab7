"""A small replica of gtsegs_ijcv.mat, as MATLAB 7.3 writes it: HDF5 with all axes in reverse."""

from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from habitats.real.classes import IMAGENET_INDEX
from habitats.real.gtsegs import IMAGES, MASKS, TARGETS
from replicas.pictures import Written, object_mask, picture

FILE = "gtsegs_ijcv.mat"
WNIDS = ("n01440764", "n02504458", "n02084071")  # the last, any dog, is not in ImageNet-1k
NO_CLASS = 1000  # label that its pictures are drawn with
HEADER = b"MATLAB 7.3 MAT-file, Platform: GLNXA64 HDF5 schema 1.00 ."
HEADER_BYTES = 512  # before the HDF5 part begins
VERSION = b"\x00\x02IM"  # 2.0, little endian; ends MATLAB's own 128 bytes


def write_gtsegs(
    data_root: Path,
    *,
    per_class: int = 2,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    targets: bool = True,
) -> list[list[Written]]:
    """Write gtsegs_ijcv.mat with `per_class` pictures of each class.

    `classes` are wnids, of ImageNet-1k or not; none: WNIDS. Without `targets` the file says
    nothing of classes.
    """
    data_root.mkdir(parents=True, exist_ok=True)
    path = data_root / FILE
    wnids = [wnid for wnid in classes or WNIDS for _ in range(per_class)]
    written = []
    with h5py.File(path, "w", userblock_size=HEADER_BYTES) as file:
        columns: dict[str, list[h5py.Reference]] = {IMAGES: [], MASKS: []}
        for place, wnid in enumerate(wnids):
            label = IMAGENET_INDEX.get(wnid, NO_CLASS)
            image, mask = picture(seed + place, label), object_mask(seed + place, label)
            columns[IMAGES].append(_keep(file, np.asarray(image).transpose(2, 1, 0)))
            cell = _refer([_keep(file, mask.T.astype(np.uint8))])
            known = IMAGENET_INDEX.get(wnid, -1) if targets else -1
            written.append(Written(f"{FILE}/{place:04d}", known, image, mask))
            columns[MASKS].append(_keep(file, cell))
            if targets:
                text = np.array([[ord(letter)] for letter in wnid], dtype=np.uint16)
                columns.setdefault(TARGETS, []).append(_keep(file, text))
        for field, references in columns.items():
            file[field] = _refer(references)
    with path.open("r+b") as raw:
        raw.write(HEADER.ljust(124) + VERSION)
    return [written]


def _keep(file: h5py.File, values: np.ndarray) -> h5py.Reference:
    """Put an array where MATLAB keeps what is referred to."""
    group = file.require_group("#refs#")
    packed = {"compression": "gzip"} if values.size > 9 else {}
    return group.create_dataset(f"r{len(group)}", data=values, **packed).ref


def _refer(references: Sequence[h5py.Reference]) -> np.ndarray:
    """A column of references, as for a cell or for a field of a struct array."""
    column = np.empty((len(references), 1), dtype=h5py.ref_dtype)
    column[:, 0] = references
    return column

"""Replicas of the sets that unpack to class folders, with what else lies there.

Among the pictures are grey and CMYK ones and some on their side, as among the published ones.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path

from habitats.real.catalogue import CATALOGUE
from habitats.real.classes import A_WNIDS, IMAGENET_INDEX, IMAGENET_S_WNIDS, R_WNIDS
from habitats.real.folders import NAMES
from replicas.pictures import Kind, Written, picture, stored_jpeg

SHARED = tuple(sorted(set(A_WNIDS) & set(R_WNIDS) & set(IMAGENET_S_WNIDS)))
SOME = SHARED[:: len(SHARED) // 4][:4]  # spread over ImageNet
KINDS: tuple[Kind, ...] = ("rgb", "grey", "cmyk", "rgb", "exif")
SPECIES = {
    "00000_Animalia_Annelida_Clitellata_Haplotaxida_Lumbricidae_Lumbricus_terrestris": 0,
    "00001_Animalia_Annelida_Polychaeta_Sabellida_Sabellidae_Sabella_spallanzanii": 1,
    "00002_Plantae_Tracheophyta_Liliopsida_Poales_Poaceae_Poa_annua": 2,
}
OWN = {  # folders of sets without wnids
    "v2": [str(IMAGENET_INDEX[wnid]) for wnid in SOME],  # as text in another order
    "si_score": ["zebra", "bagel", "jeans", "missile"],
    "pneumonia": ["PNEUMONIA", "NORMAL"],
    "own": list(SPECIES),
}
BESIDE = ("README.txt", "metadata.csv", "._x", ".hidden.jpg")


def write_folders(
    key: str,
    data_root: Path,
    *,
    per_class: int = 2,
    classes: Sequence[str] | None = None,
    seed: int = 0,
) -> list[list[Written]]:
    """A set of the catalogue, each of its parts with `per_class` pictures of each class.

    `classes` are wnids, also for sets that have other names for them; by default a few.
    """
    parts = []
    for number, call in enumerate(CATALOGUE[key].calls):
        names, written = call.get("names", "imagenet"), []
        labels = SPECIES if names == "own" else NAMES[names]
        named = CATALOGUE[key].folders[-1]  # by its archive
        folder = data_root / call.get("folder", named)
        inner = OWN.get(names, SOME) if classes is None else classes
        if names == "v2" and classes is not None:
            inner = [str(IMAGENET_INDEX[wnid]) for wnid in classes]
        for place, name in enumerate(inner):
            for count in range(per_class):
                mixed = zlib.crc32(f"{key} {number} {name} {count} {seed}".encode())  # no order
                which = picture(mixed, labels[name], kind=KINDS[(place + count) % len(KINDS)])
                id = f"{name}/{mixed:010d} _ {count}.{('JPEG', 'jpg', 'jpeg')[count % 3]}"
                written.append(Written(id, labels[name], stored_jpeg(which, folder / id)))
            (folder / name / ".DS_Store").touch()
        for name in BESIDE:
            (folder / name).touch()
        (folder / ".cache").mkdir(exist_ok=True)
        parts.append(written)
    return parts


FOLDERS = [key for key, entry in CATALOGUE.items() if entry.reader.endswith("class_folders")]

"""Habitats written as a data set of one's own, to try the whole way with before having one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image
from torch import Tensor

from habitats.drawings import CLASSES
from habitats.homes import habitats
from relevit.choices.checked import Checked
from relevit.choices.words import SHIPPED
from relevit.data.batch import Batch
from relevit.models.registry import shipped_weights
from relevit_own.table import pictures_in

DATA = "data"
DRAWN_AS = "finetune"  # the set of Habitats: animals mostly at home, as in training
QUALITY = 95  # of a JPEG
SETS = ("a", "si_location")
Choices = TypeVar("Choices", bound=Checked)


def on_example(choices: Choices, folder: Path | str, per_class: int) -> Choices:
    """The same choices for images that are written to `folder` first: Habitats as JPEG and PNG.

    `per_class` images with masks in each of 40 classes, and as many of SETS. A model that has
    learned Habitats comes with its weights and its head.
    """
    folder = Path(folder) / f"{per_class}_a_class"  # an example of another size is another folder
    write_example(folder, per_class=per_class, sets=SETS)
    given: dict[str, Any] = {
        "data": str(folder / DATA),
        "shifted": [str(folder / name) for name in SETS],
    }
    if choices.own_model in SHIPPED["habitats"] and not choices.new_head:
        weights = shipped_weights(choices.own_model, "habitats")
        given |= {"own_weights": str(weights), "head_classes": list(CLASSES)}
    return choices.model_copy(update=given)


def write_example(
    folder: Path | str, *, per_class: int, sets: Sequence[str], size: int = 128, seed: int = 0
) -> Path:
    """Write `per_class` drawings of each of the 40 animals with masks; the same of shifted `sets`.

    <folder>/data/images/<class>/*.jpg and <folder>/data/masks/<class>/*.png are what to learn from,
    <folder>/<set>/<class>/*.jpg what to test with. `sets` are names of Habitats' sets, `size` is
    the side in pixels. Same arguments, same bytes; files that are there already are overwritten.
    Gives `folder` back.
    Raises: ValueError for fewer than 1 picture a class, an unknown set, a set named "data", a bad
    size, or a folder that holds other pictures, also beside the example's.
    """
    folder, benchmark = Path(folder), habitats()
    if per_class < 1:
        raise ValueError(f"example: {per_class} pictures a class; write at least 1")
    unknown = [name for name in sets if name not in benchmark.recipes]
    if unknown:
        raise ValueError(
            f"example: set {unknown[0]!r} is unknown; use some of {tuple(benchmark.recipes)}"
        )
    drawn = {f"{DATA}/images": DRAWN_AS, **{name: name for name in sets}}
    _need_own(folder, [f"{DATA}/masks", *drawn], benchmark.classes, per_class)
    count = len(benchmark.classes)
    for place, set_name in drawn.items():
        for number in range(per_class):
            indices = range(number * count, (number + 1) * count)  # one of each class
            batch = benchmark.draw(set_name, indices, seed=seed, size=size)
            _write(batch, benchmark.names(batch.labels.tolist()), number, folder / place)
    return folder


def _write(batch: Batch, names: Sequence[str], number: int, folder: Path) -> None:
    """One picture of each class; of those to learn from also the masks, beside."""
    for name, image, mask in zip(names, batch.images, batch.masks, strict=True):
        file = f"{number:04d}"
        _save(image.permute(1, 2, 0), folder / name / f"{file}.jpg", quality=QUALITY)
        if folder.name == "images":
            _save(mask[0], folder.parent / "masks" / name / f"{file}.png")


def _save(pixels: Tensor, path: Path, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.contiguous().numpy()).save(path, **options)


def _need_own(folder: Path, places: Sequence[str], classes: Sequence[str], per_class: int) -> None:
    """Raise ValueError when the folders to write hold what would not be overwritten."""
    stems = product(places, classes, (f"{number:04d}" for number in range(per_class)))
    own = set(map("/".join, stems))
    for path in map(folder.joinpath, pictures_in(folder)[0]):
        if path.relative_to(folder).with_suffix("").as_posix() not in own:
            raise ValueError(f"example: {path} is no picture of this example; give an empty folder")

"""A set of pictures: labels at once, pictures when they are asked for, whatever they are stored as.

Pillow lets other threads run while it decodes and resizes, so that threads are as fast as
processes, and start at once. Bytes and order do not depend on their number.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import PIL
import torch
import torchvision
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image
from torch import Tensor

from relevit.base.device import cores
from relevit.base.errors import one_line
from relevit.choices.words import READERS as READERS
from relevit.data.batch import Batch
from relevit.data.pictures import READING
from relevit.data.squares import Squares
from relevit.models.spec import Mask, View

AHEAD = 2  # batches that are read before they are asked for; more only fill the memory
NO_FAMILY = -1  # no texture of Habitats
PAPER_VIEW = View()  # 256 -> 224, bilinear (B5)
UNPACK = "unpack it again"
MEND = f"{UNPACK}, or give corrupted='skip' to leave such pictures out and count them"

Cut = tuple[
    UInt8[Tensor, "3 size size"], Bool[Tensor, "1 size size"] | Float[Tensor, "1 size size"] | None
]
Item = TypeVar("Item")
Found = TypeVar("Found")


class UnreadableImage(ValueError):
    """A picture, or its mask, that cannot be decoded; `id` is its name in the set."""

    def __init__(self, message: str, id: str) -> None:
        super().__init__(message)
        self.id = id


@dataclass(frozen=True)
class ImageSet:
    """What every reader gives, and what is drawn: `read` makes a batch of the given places.

    `ids` are names for people and files, of pictures on a disk.
    """

    name: str
    classes: tuple[str, ...]  # name of each label
    labels: Int[Tensor, " images"]
    read: Callable[[Sequence[int]], Batch]
    ids: tuple[str, ...] = ()
    # The same `read`, with the squares of whole sets in a file (`kept_in`).
    reading: Callable[[Squares], Callable[[Sequence[int]], Batch]] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, places: Sequence[int]) -> ImageSet:
        """The pictures at these places, in this order, as a set of their own."""
        places = [int(place) for place in places]
        return replace(
            self,
            labels=self.labels[places],
            read=lambda wanted: self.read([places[place] for place in wanted]),
            ids=tuple(self.ids[place] for place in places) if self.ids else (),
            reading=None,
        )

    def sample(self, count: int, seed: int) -> ImageSet:
        """`count` pictures in a random order, each once; all of them when there are fewer."""
        return self.select(np.random.default_rng(seed).permutation(len(self))[:count].tolist())

    def kept_in(self, folder: Path, rules: str, side: int) -> ImageSet:
        """The same pictures, each decoded once, for all who keep them in this folder.

        `rules` say what makes the squares out of the files. A set whose files are not known, a part
        of one, or one with masks, is read as before.
        """
        if self.reading is None:
            return self
        made = f"{rules} {PIL.__version__} {torchvision.__version__} {self.name} {self.ids}"
        name = hashlib.blake2b(made.encode(), digest_size=8).hexdigest()
        squares = Squares(folder / f"{self.name}-{name}.squares", side)
        return replace(self, read=self.reading(squares))

    def kept(self) -> ImageSet:
        """The same pictures, read now and kept in memory."""
        return replace(self, read=self.read(range(len(self))).select)

    def batches(
        self, size: int, *, ahead: int = 0, skipped: dict[int, str] | None = None
    ) -> Iterator[Batch]:
        """All pictures in order, `size` places at a time, `ahead` batches read beforehand.

        With `skipped`, pictures that cannot be read are left out, so that their batch is smaller,
        and their places and ids are put there; without, the first one raises.
        """
        parts = [range(i, min(i + size, len(self))) for i in range(0, len(self), size)]
        with closing(read_ahead(lambda part: self._readable(part, skipped), parts, ahead)) as found:
            yield from (batch for batch in found if batch is not None)
        if skipped and len(skipped) == len(self):
            raise ValueError(
                f"{self.name}: none of its {len(self)} pictures can be read, {self.ids[0]} the "
                f"first; {UNPACK}"
            )

    def _readable(self, places: Sequence[int], skipped: dict[int, str] | None) -> Batch | None:
        places = list(places)
        while places:
            try:
                return self.read(places)
            except UnreadableImage as error:
                if skipped is None:
                    raise
                broken = next(place for place in places if self.ids[place] == error.id)
                skipped[broken] = error.id
                places.remove(broken)
        return None


def picture_set(
    name: str,
    classes: Sequence[str],
    labels: Sequence[int] | Int[Tensor, " images"],
    ids: Sequence[str],
    open: Callable[[int], Image.Image],
    view: View,
    *,
    file: Callable[[int], Path] | None = None,
    masks: Callable[[int], Mask] | None = None,
    accepted: Mapping[int, tuple[int, ...]] | None = None,
    candidates: Sequence[int] = (),
    remedy: str = MEND,
) -> ImageSet:
    """Pictures that are opened one by one, and cut to the view when they are read.

    `file` is all that a picture is made of (`ImageSet.kept_in`), where it has one. `masks` opens
    the object mask of a picture, in the picture's own size; without, all masks are False.
    `accepted` and `candidates` as of `Batch`; `remedy` is what to do about a broken file.
    """
    labels, ids = torch.as_tensor(labels, dtype=torch.int64), tuple(ids)

    def cut(squares: Squares | None, place: int) -> Cut:
        what = ids[place]
        try:
            if squares and (known := squares.get(place, file(place))) is not None:
                return known, None
            with open(place) as image:
                picture = view.picture(image)
            if squares:
                squares.keep(place, file(place), picture)
            what = f"the mask of {ids[place]}"
            return picture, None if masks is None else view.mask(masks(place))
        except READING as error:
            raise UnreadableImage(
                f"{name}: {what} cannot be read ({one_line(error)}); {remedy}", ids[place]
            ) from error

    def read(places: Sequence[int], squares: Squares | None = None) -> Batch:
        of = partial(cut, squares)
        with closing(read_ahead(of, places, len(places), workers=cores())) as found:
            images, outlines = _stacked(list(found))
        return Batch(
            images,
            outlines,
            labels[list(places)],
            torch.full((len(places),), NO_FAMILY),
            accepted or {},
            tuple(candidates),
        )

    reading = None
    if file is not None and masks is None:
        reading = lambda squares: partial(read, squares=squares)  # noqa: E731
    return ImageSet(name, tuple(classes), labels, read, ids, reading)


def _stacked(found: Sequence[Cut]) -> tuple[Tensor, Tensor]:
    """Images and masks; the former are copied once, to where a GPU can fetch them.

    On a CPU, channels last would slow the first layer.
    """
    shape, cuda = (len(found), *found[0][0].shape), torch.cuda.is_available()
    layout = torch.channels_last if cuda else torch.contiguous_format
    images = torch.empty(shape, dtype=torch.uint8, memory_format=layout, pin_memory=cuda)
    for row, (picture, _) in enumerate(found):
        images[row] = picture
    if found[0][1] is None:
        return images, torch.zeros(shape[0], 1, *shape[2:], dtype=torch.bool)
    return images, torch.stack([mask for _, mask in found])


def read_ahead(
    read: Callable[[Item], Found], items: Iterable[Item], ahead: int, workers: int | None = None
) -> Iterator[Found]:
    """What `read` makes of the items, in order; at most `ahead` are begun before asked for.

    Close it when it is left before its end, so that no thread stays behind.
    """
    if not ahead:
        yield from map(read, items)
        return
    pool = ThreadPoolExecutor(workers or ahead, thread_name_prefix="relevit-pictures")
    waiting: deque[Future[Found]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(read, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)

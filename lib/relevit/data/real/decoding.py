"""Pictures of a real data set as batches, decoded on several threads ahead of the model.

Pillow lets other threads run while it decodes and resizes, so that threads are as fast as
processes, and start at once. Bytes and order do not depend on their number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Literal, TypeVar, get_args

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from relevit.base.device import cores
from relevit.config.words import Corrupted
from relevit.data.batch import Batch
from relevit.data.real.image_set import ImageSet, UnreadableImage

AHEAD = 2  # batches that are decoded before they are asked for; more only fill the memory
NO_FAMILY = -1  # no texture of Cutouts

Mask = Bool[Tensor, "1 size size"] | Float[Tensor, "1 size size"]
Picture = tuple[UInt8[Tensor, "3 size size"], Mask | None]
Found = TypeVar("Found")


def batches(
    image_set: ImageSet,
    batch_size: int,
    *,
    workers: int = 0,
    corrupted: Corrupted = "error",
    skipped: dict[int, str] | None = None,
    masks: bool | Literal["soft"] = False,
) -> Iterator[Batch]:
    """All pictures of a set in its order, `batch_size` places at a time.

    `workers` are threads, 0 as many as cores; they are AHEAD batches ahead of the reader and no
    more, and end with the iterator, also when it is left before its end. With `corrupted="skip"`
    pictures that cannot be read are left out, so that their batch is smaller, and `skipped` gets
    their places with their ids.
    Without `masks` all masks are False; with them True is where the resized mask is above one half.
    "soft" masks are the resized ones themselves, fractions at the edges (`View.soft_mask`).
    Where there is CUDA, images lie in pinned memory and channels last; on a CPU, that slows the
    first layer.
    Raises at once: ValueError for a bad argument or an empty set; UnreadableImage when its turn
    comes; ValueError at the end when every picture was left out.
    """
    _check(image_set, batch_size, workers, corrupted, masks)

    def read(place: int) -> Picture:
        picture = image_set[place]
        if masks == "soft":
            return picture, image_set.mask(place, soft=True)
        return picture, image_set.mask(place) > 0.5 if masks else None

    places = range(len(image_set))
    lost = {} if skipped is None else skipped
    skip = corrupted == "skip"
    return _grouped(image_set, places, batch_size, workers or cores(), skip, lost, read)


def draw(image_set: ImageSet, places: Sequence[int], *, soft: bool = False) -> Batch:
    """The pictures at these places as one batch, with their masks if the set has any.

    With `soft`, masks are fractions at the edges (`View.soft_mask`).
    Raises: ValueError for no place or one outside of the set, UnreadableImage.
    """
    places = [int(place) for place in places]
    outside = [place for place in places if not 0 <= place < len(image_set)]
    if outside or not places:
        raise ValueError(
            f"{image_set.name}: {len(places)} places asked for, outside of the set: "
            f"{outside[:5]}; give at least one in 0..{len(image_set) - 1}"
        )
    masks: bool | Literal["soft"] = image_set.masks is not None and ("soft" if soft else True)
    (batch,) = batches(image_set.select(places), len(places), masks=masks)
    return batch


def _check(
    image_set: ImageSet, batch_size: int, workers: int, corrupted: str, masks: bool | str
) -> None:
    name = image_set.name
    if batch_size < 1 or workers < 0:
        raise ValueError(
            f"{name}: batches of {batch_size} pictures on {workers} threads; give at least one "
            "picture, and 0 threads for as many as there are cores"
        )
    if corrupted not in get_args(Corrupted):
        raise ValueError(f"{name}: corrupted {corrupted!r} is unknown; use 'error' or 'skip'")
    if masks and image_set.masks is None:
        raise ValueError(f"{name}: has no masks; {image_set.without_masks}, or masks=False")
    if not len(image_set):
        raise ValueError(f"{name}: has no pictures; select at least one")


def _grouped(
    image_set: ImageSet,
    places: range,
    batch_size: int,
    workers: int,
    skip: bool,
    skipped: dict[int, str],
    read: Callable[[int], Picture],
) -> Iterator[Batch]:
    """Batches of the pictures that can be read.

    Which are together follows from their places alone, so that pictures that cannot be read move
    no other into another batch.
    """
    pictures: dict[int, Picture] = {}
    lost = 0
    ahead = max(workers, AHEAD * batch_size)
    with closing(in_order(read, places, workers, ahead)) as reading:
        for place, found in zip(places, reading, strict=True):
            try:
                pictures[place] = found.result()
            except UnreadableImage:
                if not skip:
                    raise
                skipped[place] = image_set.ids[place]
                lost += 1
            ended = (place + 1) % batch_size == 0 or place == places[-1]
            if ended and pictures:
                yield _batch(image_set, list(pictures), list(pictures.values()))
                pictures = {}
    if lost == len(image_set):
        raise ValueError(
            f"{image_set.name}: none of its {lost} pictures can be read, {image_set.ids[0]} the "
            f"first; {image_set.remedy}"
        )


def in_order(
    read: Callable[[int], Found], places: range, workers: int, ahead: int
) -> Iterator[Future[Found]]:
    """What `read` makes of the places, in order; at most `ahead` are begun before asked for.

    Close it when it is left before its end, so that no thread stays behind.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="relevit-pictures")
    waiting: deque[Future[Found]] = deque()
    try:
        for place in places:
            waiting.append(pool.submit(read, place))
            if len(waiting) > ahead:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        pool.shutdown(cancel_futures=True)


def _batch(image_set: ImageSet, places: list[int], pictures: list[Picture]) -> Batch:
    """One batch; the pictures are copied once, to where the GPU can fetch them."""
    shape = (len(pictures), *pictures[0][0].shape)
    cuda = torch.cuda.is_available()
    layout = torch.channels_last if cuda else torch.contiguous_format
    images = torch.empty(shape, dtype=torch.uint8, memory_format=layout, pin_memory=cuda)
    first = pictures[0][1]
    kind = torch.bool if first is None else first.dtype
    masks = torch.zeros(len(pictures), 1, *shape[2:], dtype=kind)
    for row, (picture, mask) in enumerate(pictures):
        images[row] = picture
        if mask is not None:
            masks[row] = mask
    return Batch(
        images=images,
        masks=masks,
        labels=image_set.labels[places],
        families=torch.full((len(places),), NO_FAMILY),
        accepted=image_set.accepted,
        candidates=image_set.candidates,
    )

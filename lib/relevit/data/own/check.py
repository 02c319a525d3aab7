"""Every picture and mask of a listing opened before long work, and what was found said in short."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median
from typing import get_args

import numpy as np
from jaxtyping import Bool, UInt8
from torch import Tensor

from relevit.base.device import cores
from relevit.base.errors import one_line
from relevit.config.words import Corrupted
from relevit.data.image_set import read_ahead
from relevit.data.own.listing import REMEDY, Listing
from relevit.data.own.outlines import GREY16, OtherSize, turned, upright
from relevit.data.pictures import READING, opened
from relevit.models.spec import View, as_rgb

MOST_STRETCHED = 20  # times the shorter side; of a longer picture a model sees next to nothing
SMALL = 32  # pixels of the shorter side: two patches of a usual ViT
AHEAD = 4  # pictures begun for each thread
NAMED = 3  # files named in a line for people
REASONS = 2  # refused files named, each in a line of its own
CLASSES_NAMED = 8
LONGEST_NAME = 40  # characters of a name in a line for people

# What is not refused and still worth a word, with what is done about it.
ODD = {
    "CMYK": "made RGB",
    "more than 8 bits": "scaled to 8 bits",
    "turned by EXIF": "set upright",
    "animated or of pages": "the first is taken",
    "transparent": "transparency is dropped",
}


@dataclass(frozen=True)
class Looked:
    """What one picture and its mask are. `refused` is why it cannot be used; else it is empty."""

    size: tuple[int, int] = (0, 0)  # width and height upright, pixels
    odd: tuple[str, ...] = ()
    share: float | None = None  # of the picture that is object; None: no mask
    refused: str = ""
    mask_refused: str = ""
    other_size: bool = False  # of the mask


@dataclass(frozen=True, eq=False)
class Findings:
    """What `examine` found; files by their ids, with the reason where there is one.

    `listing` has the pictures to go on with: all, or with corrupted="skip" those that can be used.
    `sizes` are least, median and largest width and height in pixels.
    """

    name: str
    listing: Listing
    corrupted: Corrupted
    listed: dict[str, int]  # pictures by class, before any was looked at
    counts: dict[str, int]  # those that can be used
    sizes: tuple[tuple[float, float, float], tuple[float, float, float]]
    odd: dict[str, int]
    least_side: int  # pixels
    small: tuple[str, ...]  # with a shorter side than that
    refused: dict[str, str]  # cannot be read, or far too long
    masks: int  # that are there, whatever they are like
    object_pct: float | None  # of a picture that is object, median of the masks that can be used
    masks_missing: tuple[str, ...]
    masks_empty: tuple[str, ...]
    masks_full: tuple[str, ...]
    masks_of_other_size: dict[str, str]
    masks_unreadable: dict[str, str]
    same_names: tuple[str, ...]  # differ from another in the ending alone

    @property
    def unusable(self) -> dict[str, str]:
        """All pictures that are refused, for themselves or for their mask."""
        return self.refused | self.masks_of_other_size | self.masks_unreadable


def examine(
    listing: Listing, *, corrupted: Corrupted = "error", least_side: int = SMALL, workers: int = 0
) -> Findings:
    """Open and decode every picture and mask of a listing.

    Refused are pictures that cannot be read, that have more pixels than Pillow opens, or a side
    more than 20 times the other, and those whose mask cannot be read or has another size. With
    `corrupted="skip"` the findings' listing goes without them. Pictures with a side shorter than
    `least_side` pixels are counted. `workers` are threads, 0 as many as cores.
    Raises: ValueError for a listing without pictures, or another `corrupted`; what is wrong with
    the files is for `need_usable` to raise.
    """
    if corrupted not in get_args(Corrupted):
        raise ValueError(
            f"{listing.name}: corrupted {corrupted!r} is unknown; use 'error' or 'skip'"
        )
    if not len(listing):
        raise ValueError(f"{listing.name}: has no pictures; select at least one")
    looked = list(_look_at_all(listing, workers or cores()))
    ids = listing.ids
    pairs = list(zip(ids, looked, strict=True))
    good = [place for place, one in enumerate(looked) if not (one.refused or one.mask_refused)]
    shares = [one.share for one in looked if one.share is not None]
    return Findings(
        name=listing.name,
        listing=listing.select(good) if corrupted == "skip" else listing,
        corrupted=corrupted,
        listed=_by_class(listing, range(len(listing))),
        counts=_by_class(listing, good),
        sizes=_sizes([one.size for one in looked if min(one.size)]),
        odd={kind: n for kind in ODD if (n := sum(kind in one.odd for one in looked))},
        least_side=least_side,
        small=tuple(i for i, one in pairs if 0 < min(one.size) < least_side),
        refused={i: one.refused for i, one in pairs if one.refused},
        masks=sum(mask is not None for mask in listing.masks),
        object_pct=None if not shares else 100 * median(shares),
        masks_missing=tuple(i for i, m in zip(ids, listing.masks, strict=True) if m is None),
        masks_empty=tuple(i for i, one in pairs if one.share == 0),
        masks_full=tuple(i for i, one in pairs if one.share == 1),
        masks_of_other_size={i: one.mask_refused for i, one in pairs if one.other_size},
        masks_unreadable={
            i: one.mask_refused for i, one in pairs if one.mask_refused and not one.other_size
        },
        same_names=_same_names(ids),
    )


def need_usable(findings: Findings) -> None:
    """Raise ValueError for the first thing that must be put right before long work, if any.

    That is a refused picture or mask, unless these are skipped, or a class of which no picture is
    left.
    """
    first = next(iter(findings.unusable.items()), None)
    if first is not None and findings.corrupted != "skip":
        more = len(findings.unusable)
        raise ValueError(
            f"{findings.name}: {first[0]} cannot be used ({first[1]}; {more} such in all); "
            f"{REMEDY}, or give corrupted='skip' to leave such pictures out and count them"
        )
    if not any(findings.counts.values()):
        raise ValueError(
            f"{findings.name}: none of its {len(findings.unusable)} pictures can be used, "
            f"{first[0]} the first ({first[1]}); {REMEDY}"
        )
    gone = [n for n, count in findings.listed.items() if count and not findings.counts[n]]
    if gone:
        raise ValueError(
            f"{findings.name}: no picture of the class {gone[0]!r} can be used ({len(gone)} such "
            "classes); put others there, or take the class out"
        )


def lines(findings: Findings) -> list[str]:
    """What was found, for people: at most 25 lines, however large the set is."""
    counts = findings.counts
    have = {name: count for name, count in counts.items() if count}
    good = sum(counts.values())
    said = [("pictures", f"{good:,} of {len(have):,} classes can be used")]
    if have:
        said.append(("of a class", _spread(sorted(have.values()))))
        said.append(("classes", _classes(have)))
        (least, middle, most), (low, mid, high) = findings.sizes
        spread = f"{least:g} to {most:g} wide, {low:g} to {high:g} high"
        said.append(("sizes, px", f"{spread}, median {middle:g} x {mid:g}"))
    said += [(kind, f"{count:,}: {ODD[kind]}") for kind, count in findings.odd.items()]
    verb = "left out" if findings.corrupted == "skip" else "refused"
    said += _named("small", f"a side below {findings.least_side} px", findings.small)
    said += _reasons(verb, findings.refused)
    share = findings.object_pct
    share_text = "" if share is None else f": the object is {share:.0f} % of a picture (median)"
    said.append(("masks", f"{findings.masks:,}{share_text}" if findings.masks else "none"))
    if findings.masks:
        said += _named("", "missing", findings.masks_missing)
        said += _named("", "empty", findings.masks_empty)
        said += _named("", "full", findings.masks_full)
    said += _reasons(f"masks {verb}", findings.masks_of_other_size | findings.masks_unreadable)
    said += _named("same names", "but for the ending", findings.same_names)
    others = [path.name for path in findings.listing.left_out]
    said += _named("other files", "not read", others)
    width = max(len(first) for first, _ in said)
    return [findings.name, *(f"  {first:<{width}}  {rest}" for first, rest in said)]


def samples(
    listing: Listing, view: View, count: int, seed: int = 0
) -> tuple[UInt8[Tensor, "n 3 s s"], Bool[Tensor, "n 1 s s"] | None, list[str]]:
    """Pictures to look at, their masks and their classes, of as many classes as possible.

    `count` at random, or all of a smaller listing; of one in which some pictures have masks those
    with masks alone. Without any, masks are None.
    Raises: ValueError for a count below 1; UnreadableImage.
    """
    if count < 1:
        raise ValueError(f"{listing.name}: a sample of {count} pictures; ask for at least 1")
    outlined = [place for place, mask in enumerate(listing.masks) if mask is not None]
    if outlined:
        listing = listing.select(outlined)
    order = np.random.default_rng(seed).permutation(len(listing))
    turns: Counter[int] = Counter()
    rounds = []
    for place in order.tolist():
        label = int(listing.labels[place])
        rounds.append(turns[label])
        turns[label] += 1
    chosen = order[np.argsort(rounds, kind="stable")][:count].tolist()
    batch = listing.image_set(view).read(chosen)
    titles = [listing.classes[label] for label in batch.labels.tolist()]
    return batch.images.contiguous(), batch.masks if outlined else None, titles


def _look_at_all(listing: Listing, workers: int) -> Iterator[Looked]:
    def look(place: int) -> Looked:
        return _look(listing, place)

    reading = read_ahead(look, range(len(listing)), AHEAD * workers, workers)
    with warnings.catch_warnings(), closing(reading):
        warnings.simplefilter("ignore")  # Pillow's on odd pictures, which are counted here
        yield from reading


def _look(listing: Listing, place: int) -> Looked:
    try:
        size, odd = _picture(listing, place)
    except READING as error:
        return Looked(refused=one_line(error))
    if max(size) > MOST_STRETCHED * min(size):
        text = f"{size[0]} x {size[1]} pixels; one side is over {MOST_STRETCHED} times the other"
        return Looked(size, odd, refused=text)
    if listing.masks[place] is None:
        return Looked(size, odd)
    try:
        return Looked(size, odd, share=float(listing.mask(place).mean()))
    except OtherSize as error:
        return Looked(size, odd, mask_refused=one_line(error), other_size=True)
    except READING as error:
        return Looked(size, odd, mask_refused=f"its mask: {one_line(error)}")


def _picture(listing: Listing, place: int) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Upright size and oddities of a picture, which is decoded whole."""
    with opened(listing.images[place]) as image:
        several = getattr(image, "is_animated", False) and image.format != "MPO"  # of phones
        is_odd = {
            "CMYK": image.mode == "CMYK",
            "more than 8 bits": image.mode in (*GREY16, "I", "F"),
            "turned by EXIF": turned(image),
            "animated or of pages": several,
            "transparent": "transparency" in image.info or image.mode in ("RGBA", "LA", "PA"),
        }
        upright(image)
        if is_odd["more than 8 bits"]:
            as_rgb(image)
        return image.size, tuple(kind for kind in ODD if is_odd[kind])


def _by_class(listing: Listing, places: Sequence[int]) -> dict[str, int]:
    found = Counter(listing.labels[list(places)].tolist())
    return {name: found[label] for label, name in enumerate(listing.classes)}


def _sizes(
    sizes: Sequence[tuple[int, int]],
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    if not sizes:
        return (0, 0, 0), (0, 0, 0)
    widths, heights = zip(*sizes, strict=True)
    return tuple((min(s), median(s), max(s)) for s in (widths, heights))


def _same_names(ids: Sequence[str]) -> tuple[str, ...]:
    stems = [name.rpartition(".")[0] for name in ids]
    counts = Counter(stems)
    return tuple(name for name, stem in zip(ids, stems, strict=True) if counts[stem] > 1)


def _spread(counts: Sequence[int]) -> str:
    if counts[0] == counts[-1]:
        return f"{counts[0]:,} each"
    return f"{counts[0]:,} to {counts[-1]:,}, median {median(counts):g}"


def _classes(counts: dict[str, int]) -> str:
    named = [f"{_short(name)} ({count:,})" for name, count in counts.items()]
    if len(named) > CLASSES_NAMED:
        named = [*named[: CLASSES_NAMED - 1], "..."]
    return ", ".join(named)


def _named(first: str, what: str, ids: Sequence[str]) -> list[tuple[str, str]]:
    """A line on so many files, the first by name; none for no file."""
    if not ids:
        return []
    shown = ", ".join(map(_short, ids[:NAMED]))
    return [(first, f"{len(ids):,} {what}: {shown}{' ...' if len(ids) > NAMED else ''}")]


def _reasons(first: str, files: dict[str, str]) -> list[tuple[str, str]]:
    """Lines on refused files: how many, and the first by name and reason."""
    if not files:
        return []
    shown = [("", f"{_short(name)}: {why}") for name, why in list(files.items())[:REASONS]]
    count = f"{len(files):,}" if len(files) <= REASONS else f"{len(files):,}, such as"
    return [(first, count), *shown]


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"

"""Every picture and mask of a listing opened before long work, and what was found said in short."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import median
from typing import get_args

import numpy as np
from jaxtyping import Bool, UInt8
from torch import Tensor

from relevit.base.device import cores
from relevit.base.errors import one_line
from relevit.config.words import Corrupted
from relevit.data.image_set import read_ahead
from relevit.data.own.listing import REMEDY, SKIP, Listing
from relevit.data.own.outlines import GREY16, OtherSize, turned, upright
from relevit.data.pictures import READING, opened
from relevit.models.spec import View, as_rgb

MOST_STRETCHED = 20  # times the shorter side; of a longer picture a model sees next to nothing
SMALL = 32  # pixels of the shorter side: two patches of a usual ViT
AHEAD = 4  # pictures begun for each thread
NAMED = 3  # files named in a line for people
REASONS = 2  # refused files named, each in a line of its own
CLASSES_NAMED = 8
FEWEST = 3  # pictures of a class: one to train on, one for choices, one held out
NEARLY_ALL = 0.9  # of the masks
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
    pixels: str = ""  # equal for equal pictures, whatever their files
    share: float | None = None  # of the picture that is object; None: no mask
    framed: bool = False  # the object is at all four edges
    refused: str = ""
    mask_refused: str = ""
    other_size: bool = False  # of the mask


@dataclass(frozen=True, eq=False)
class Findings:
    """What `examine` found; files by their ids, with the reason where there is one.

    `listing` has the pictures to go on with: each once, and with corrupted="skip" those that can be
    used.
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
    refused: dict[str, str]  # cannot be read, far too long, or of two classes
    copies: tuple[str, ...]  # have the pixels of another, which stays
    masks: int  # that are there, whatever they are like
    object_pct: float | None  # of a picture that is object, median of the masks that can be used
    inverted: bool  # the masks look as if the object were what is not marked
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
    more than 20 times the other, that are of two classes, and those whose mask cannot be read or
    has another size. With `corrupted="skip"` the findings' listing goes without them, and always
    without copies, which have the pixels of another. Pictures with a side shorter than
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
    looked = _as_one_photograph(listing, list(_look_at_all(listing, workers or cores())))
    ids = listing.ids
    pairs = list(zip(ids, looked, strict=True))
    copies = _copies(listing, looked)
    first = [place for place in range(len(listing)) if place not in copies]
    good = [place for place in first if not (looked[place].refused or looked[place].mask_refused)]
    masked = [one for one in looked if one.share is not None]
    listing = replace(listing, prints=tuple(one.pixels for one in looked))
    return Findings(
        name=listing.name,
        listing=listing.select(good if corrupted == "skip" else first),
        corrupted=corrupted,
        listed=_by_class(listing, range(len(listing))),
        counts=_by_class(listing, good),
        sizes=_sizes([one.size for one in looked if min(one.size)]),
        odd={kind: n for kind in ODD if (n := sum(kind in one.odd for one in looked))},
        least_side=least_side,
        small=tuple(i for i, one in pairs if 0 < min(one.size) < least_side),
        refused={i: one.refused for i, one in pairs if one.refused},
        copies=tuple(ids[place] for place in copies),
        masks=sum(mask is not None for mask in listing.masks),
        object_pct=None if not masked else 100 * median(one.share for one in masked),
        inverted=_inverted(masked),
        masks_missing=tuple(i for i, m in zip(ids, listing.masks, strict=True) if m is None),
        masks_empty=tuple(i for i, one in pairs if one.share == 0),
        masks_full=tuple(i for i, one in pairs if one.share == 1),
        masks_of_other_size={i: one.mask_refused for i, one in pairs if one.other_size},
        masks_unreadable={
            i: one.mask_refused for i, one in pairs if one.mask_refused and not one.other_size
        },
        same_names=_same_names(ids),
    )


def apart(parts: Mapping[str, Listing]) -> tuple[dict[str, Listing], dict[str, dict[str, str]]]:
    """Parts of one set of classes, each photograph in the first that has it.

    What is left out, by part: its id, and that of the same photograph before it. The parts have
    been examined.
    Raises: ValueError for a photograph that has another class in another part.
    """
    seen: dict[str, tuple[str, str]] = {}
    kept, copies = {}, {}
    for name, part in parts.items():
        ids = [f"{part.name}/{i}" for i in part.ids]
        rows = list(zip(ids, part.prints, part.labels.tolist(), strict=True))
        copies[name] = {i: seen[print_][0] for i, print_, _ in rows if print_ in seen}
        for i, print_, label in rows:
            first, other = seen.setdefault(print_, (i, part.classes[label]))
            if other != part.classes[label]:
                raise ValueError(
                    f"{i} of the class {part.classes[label]!r} is the photograph "
                    f"{first} of the class {other!r}; a picture has one class: take one out"
                )
        kept[name] = part.select([p for p, row in enumerate(rows) if row[0] not in copies[name]])
    return kept, copies


def need_usable(findings: Findings) -> None:
    """Raise ValueError for the first thing that must be put right before long work, if any.

    That is a refused picture or mask, unless these are skipped, a class of which no picture is
    left, or masks without an object in any.
    """
    first = next(iter(findings.unusable.items()), None)
    if first is not None and findings.corrupted != "skip":
        more = len(findings.unusable)
        remedy = REMEDY if first[0] in findings.refused else "mend the mask, or remove it"
        raise ValueError(
            f"{findings.name}: {first[0]} cannot be used ({first[1]}; {more} such in all); "
            f"{remedy}, {SKIP}"
        )
    useless = (*findings.masks_empty, *findings.masks_full)
    if findings.masks and len(useless) == findings.masks:
        raise ValueError(
            f"{findings.name}: none of its {len(useless)} masks has both an object and a "
            f"background, that of {useless[0]} the first; mend or remove them, or say which values "
            "are the object (--object)"
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
    said += _named("twice", "copies, left out", findings.copies)
    few = tuple(name for name, count in have.items() if count < FEWEST)
    said += _named("few", f"classes of fewer than {FEWEST} pictures", few)
    share = findings.object_pct
    share_text = "" if share is None else f": the object is {share:.0f} % of a picture (median)"
    said.append(("masks", f"{findings.masks:,}{share_text}" if findings.masks else "none"))
    if findings.masks:
        said += _named("", "missing", findings.masks_missing)
        said += _named("", "empty", findings.masks_empty)
        said += _named("", "full", findings.masks_full)
    if findings.inverted:
        said.append(("", "they look inverted; if so, say what is the object: --object 0"))
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
        size, odd, pixels = _picture(listing, place)
    except READING as error:
        return Looked(refused=one_line(error))
    if max(size) > MOST_STRETCHED * min(size):
        text = f"{size[0]} x {size[1]} pixels; one side is over {MOST_STRETCHED} times the other"
        return Looked(size, odd, refused=text)
    if listing.masks[place] is None:
        return Looked(size, odd, pixels)
    try:
        mask = listing.mask(place)
    except OtherSize as error:
        return Looked(size, odd, pixels, mask_refused=one_line(error), other_size=True)
    except READING as error:
        return Looked(size, odd, pixels, mask_refused=f"its mask: {one_line(error)}")
    framed = all(edge.any() for edge in (mask[0], mask[-1], mask[:, 0], mask[:, -1]))
    return Looked(size, odd, pixels, float(mask.mean()), framed)


def _picture(listing: Listing, place: int) -> tuple[tuple[int, int], tuple[str, ...], str]:
    """Upright size, oddities and pixels of a picture, which is decoded whole."""
    with opened(listing.images[place]) as image:
        several = getattr(image, "is_animated", False) and image.format != "MPO"  # of phones
        is_odd = {
            "CMYK": image.mode == "CMYK",
            "more than 8 bits": image.mode in (*GREY16, "I", "F"),
            "turned by EXIF": turned(image),
            "animated or of pages": several,
            "transparent": "transparency" in image.info or image.mode in ("RGBA", "LA", "PA"),
        }
        shown = as_rgb(upright(image))  # as a model sees it, whatever the file's colours are
        pixels = hashlib.blake2b(repr(image.size).encode(), digest_size=16)
        pixels.update(shown.tobytes())
        return image.size, tuple(kind for kind in ODD if is_odd[kind]), pixels.hexdigest()


def _as_one_photograph(listing: Listing, looked: list[Looked]) -> list[Looked]:
    """What was looked at, with pictures of two classes refused."""
    classes: dict[str, dict[int, str]] = {}
    labels = listing.labels.tolist()
    for i, one, label in zip(listing.ids, looked, labels, strict=True):
        if one.pixels:
            classes.setdefault(one.pixels, {}).setdefault(label, i)
    found = []
    for one, label in zip(looked, labels, strict=True):
        others = [i for other, i in classes.get(one.pixels, {}).items() if other != label]
        why = f"it is the photograph {others[0]} of another class, too" if others else one.refused
        found.append(replace(one, refused=why))
    return found


def _copies(listing: Listing, looked: Sequence[Looked]) -> list[int]:
    """Places of pictures whose pixels another has, too; what stays is the first with a mask."""
    seen: set[str] = set()
    copies = []
    for place in sorted(range(len(listing)), key=lambda place: listing.masks[place] is None):
        one = looked[place]
        if one.pixels in seen:
            copies.append(place)
        if one.pixels and not one.refused:
            seen.add(one.pixels)
    return sorted(copies)


def _inverted(masked: Sequence[Looked]) -> bool:
    """Nearly all objects take more than half of their picture, or are at all four edges."""
    odd = [one.share > 0.5 or one.framed for one in masked]
    return len(odd) > 0 and sum(odd) >= NEARLY_ALL * len(odd)


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

"""Every picture and mask of a listing opened before long work, and what was found said in short."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from relevit.base.device import cores
from relevit.base.errors import one_line
from relevit.choices.words import Corrupted
from relevit.data.image_set import read_ahead
from relevit.data.pictures import READING, drawn_here, opened, upright
from relevit.models.spec import as_rgb, is_deep, white_of
from relevit_own.listing import REMEDY, SKIP, Listing, order_note
from relevit_own.outlines import GREY16, OtherSize, fitting_mask, turned

MOST_STRETCHED = 20  # times the shorter side; of a longer picture a model sees next to nothing
SMALL = 32  # pixels of the shorter side: two patches of a usual ViT
AHEAD = 4  # pictures begun for each thread
NAMED = 3  # files named in a line for people
REASONS = 20  # refused files named, each in a line of its own
DARK = 32  # of 255: a picture without lighter pixels is black to people and models
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
UNTOLD = (
    "EXIF turns it, and its mask may have been drawn on it upright, or as it is stored, as other "
    "masks of the set were; save it upright"
)
# What is known of a picture and its mask, in columns of `Findings.rows`, and of what nobody saw.
UNSEEN = {
    "width": 0,  # upright, pixels
    "height": 0,
    "odd": (),  # of ODD
    "pixels": "",  # alike for copies of a photograph, whatever their files
    "share": nan,  # of the picture that is object; NaN without a mask that can be used
    "framed": False,  # the object is at all four edges
    "largest": 0,  # value, of 255 or, where greys are `deep`, as it stands in the file
    "deep": False,
    "two_colours": False,  # and no third, as masks have
    "drawn": None,  # how, of a mask of a picture that EXIF turns
    "fault": "",  # of picture or mask, which are refused; copy or ours, which are left out
    "why": "",
}


@dataclass(frozen=True, eq=False)
class Findings:
    """What `examine` found.

    `listing` has the pictures to go on with: each once, and with corrupted="skip" those that can be
    used. `rows` are those of the listing that was examined, with the columns of UNSEEN.
    """

    listing: Listing
    corrupted: Corrupted
    rows: pd.DataFrame

    @property
    def counts(self) -> dict[str, int]:
        """Pictures that can be used, by class; also of classes of which none can."""
        found = (self.rows["fault"] == "").groupby(self.rows["label"]).sum().to_dict()
        return {name: found[name] for name in self.listing.classes if name in found}

    @property
    def useless_masks(self) -> tuple[str, ...]:
        """Ids of pictures whose mask has no object or no background."""
        return self.ids(self.rows["share"].isin((0, 1)))

    def ids(self, which: pd.Series) -> tuple[str, ...]:
        return tuple(self.rows.loc[which, "id"])

    def refused(self, what: str) -> dict[str, str]:
        """Why pictures are refused for a fault of "picture" or "mask", by their ids."""
        return self.rows[self.rows["fault"] == what].set_index("id")["why"].to_dict()

    def named(self) -> pd.DataFrame:
        """All that is refused or left out: `file`, `class` and `why`."""
        found = self.rows.loc[self.rows["fault"] != "", ["id", "label", "why"]]
        return found.set_axis(["file", "class", "why"], axis=1).reset_index(drop=True)

    def left_out(self, place: str = "") -> list[str]:
        """How many pictures are not gone on with, and why the first is not; nothing for none."""
        gone = self.named()
        told = f"{place}{len(gone)} of {len(self.rows)} images are left out"
        return [f"{told}, {gone['file'][0]} the first ({gone['why'][0]})"] if len(gone) else []


def examine(listing: Listing, *, corrupted: Corrupted = "error", workers: int = 0) -> Findings:
    """Open and decode every picture and mask of a listing.

    Refused are pictures that cannot be read, that have more pixels than Pillow opens, or a side
    more than 20 times the other, that are of two classes, and those whose mask cannot be read or
    has another size, or may have been drawn before EXIF turned the picture. With `corrupted="skip"`
    the findings' listing goes without them, and always without copies, which have the pixels of
    another, and what this package drew. Its `white` is the smallest range that has no grey of more
    than 8 bits above it. `workers` are threads, 0 as many as cores.
    What is wrong with the files is for `need_usable` to raise.
    """
    workers = workers or cores()
    reading = read_ahead(
        lambda place: UNSEEN | _look(listing, place), range(len(listing)), AHEAD * workers, workers
    )
    with warnings.catch_warnings(), closing(reading):
        warnings.simplefilter("ignore")  # Pillow's on odd pictures, which are counted here
        seen = pd.DataFrame(list(reading))
    rows = listing.rows.drop(columns="pixels", errors="ignore").join(seen)
    _compare(rows)
    left_out = rows["fault"].isin(("copy", "ours")) | (
        (rows["fault"] != "") & (corrupted == "skip")
    )
    deep = rows.loc[rows["deep"] & (rows["fault"] != "picture"), "largest"]
    white = white_of(int(deep.max())) if len(deep) else None
    known = replace(listing, rows=listing.rows.assign(pixels=rows["pixels"]), white=white)
    return Findings(known.select(np.flatnonzero(~left_out)), corrupted, rows)


def _compare(rows: pd.DataFrame) -> None:
    """Note the faults that pictures have beside others: two classes, a mask's turn, copies."""
    read = rows[rows["pixels"] != ""]
    several = read.groupby("pixels")["label"].transform("nunique") > 1
    for _, same in read[several].groupby("pixels"):
        for place, label in same["label"].items():
            other = same.loc[same["label"] != label, "id"].iloc[0]
            why = f"it is the photograph {other} of another class, too"
            rows.loc[place, ["fault", "why"]] = "picture", why
    untold = (rows["drawn"] == "unknown") & (rows["fault"] == "")
    if (rows["drawn"] == "as stored").any():
        rows.loc[untold, ["fault", "why"]] = "mask", UNTOLD
    whole = rows[(rows["pixels"] != "") & (rows["fault"] != "picture")]
    whole = whole.sort_values("mask", key=pd.isna, kind="stable")  # the first with a mask stays
    copies = whole[whole.duplicated("pixels") & (whole["fault"] == "")].index
    rows.loc[copies, ["fault", "why"]] = "copy", "a copy of another"


def examine_parts(
    parts: Mapping[str, Listing], *, corrupted: Corrupted = "error"
) -> dict[str, Findings]:
    """Each part examined; all scale greys of more than 8 bits alike, by what the largest needs."""
    found = {name: examine(part, corrupted=corrupted) for name, part in parts.items()}
    white = max((f.listing.white for f in found.values() if f.listing.white), default=None)
    return {n: replace(f, listing=replace(f.listing, white=white)) for n, f in found.items()}


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
        rows = list(zip(ids, part.rows["pixels"], part.rows["label"], strict=True))
        copies[name] = {i: seen[print_][0] for i, print_, _ in rows if print_ in seen}
        for i, print_, label in rows:
            first, other = seen.setdefault(print_, (i, label))
            if other != label:
                raise ValueError(
                    f"{i} of the class {label!r} is the photograph {first} of the class {other!r}; "
                    "a picture has one class: take one out"
                )
        kept[name] = part.select([p for p, i in enumerate(ids) if i not in copies[name]])
    return kept, copies


def need_usable(findings: Findings) -> None:
    """Raise ValueError for the first thing that must be put right before long work, if any.

    That is a refused picture or mask, unless these are skipped, a class of which no picture is
    left, or masks without an object in any.
    """
    name, useless = findings.listing.name, findings.useless_masks
    pictures = findings.refused("picture")
    unusable = pictures | findings.refused("mask")
    first, why = next(iter(unusable.items()), ("", ""))
    if first and findings.corrupted != "skip":
        remedy = REMEDY if first in pictures else "mend the mask, or remove it"
        raise ValueError(
            f"{name}: {first} cannot be used ({why}; {len(unusable)} such in all); {remedy}, {SKIP}"
        )
    if useless and len(useless) == findings.rows["mask"].notna().sum():
        raise ValueError(
            f"{name}: none of its {len(useless)} masks has both an object and a "
            f"background, that of {useless[0]} the first; mend or remove them, or say which values "
            "are the object (--object)"
        )
    gone = [label for label, count in findings.counts.items() if not count]
    if len(gone) == len(findings.counts):
        raise ValueError(
            f"{name}: none of its {len(unusable)} pictures can be used, {first} the first "
            f"({why}); {REMEDY}"
        )
    if gone:
        raise ValueError(
            f"{name}: no picture of the class {gone[0]!r} can be used ({len(gone)} such "
            "classes); put others there, or take the class out"
        )


def lines(findings: Findings) -> list[str]:
    """What was found, for people: a screen or two, however large the set is."""
    rows, fault, white = findings.rows, findings.rows["fault"], findings.listing.white
    have = {name: count for name, count in findings.counts.items() if count}
    said = [("pictures", f"{sum(have.values()):,} of {len(have):,} classes can be used")]
    said += _classes(findings, have) if have else []
    odd = rows["odd"].explode().value_counts()
    for kind in (kind for kind in ODD if kind in odd):
        is_ranged = white and kind == "more than 8 bits"
        deep = f" from 0 to {white:,} ({white.bit_length()} bits)" if is_ranged else ""
        said.append((kind, f"{odd[kind]:,}: {ODD[kind]}{deep}"))
    light = rows["largest"].where(~rows["deep"], rows["largest"] * 255 / (white or 1))
    two, read = rows["two_colours"], rows["width"] > 0
    verb = "left out" if findings.corrupted == "skip" else "refused"

    def add(first: str, what: str, which: pd.Series) -> None:
        said.extend(_named(first, what, findings.ids(which)))

    untold = (rows["drawn"] == "unknown") & (fault != "mask")
    add("", "of them with masks that are taken as drawn upright", untold)
    add("dark", f"without a pixel above {DARK} of 255", (light < DARK) & read)
    if not two[rows["pixels"] != ""].all():
        add("two colours", "have no third, as masks have; are they pictures?", two)
    small = rows[["width", "height"]].min(axis=1).between(1, SMALL - 1)
    add("small", f"with a side below {SMALL} px", small)
    said += _reasons(verb, findings.refused("picture"))
    add("twice", "left out as a copy", fault == "copy")
    add("drawn here", "left out: maps or samples of relevit", fault == "ours")
    few = [name for name, count in have.items() if count < FEWEST]
    said += _named("small classes", f"with fewer than {FEWEST} pictures", few)
    masked, share = rows["mask"].notna(), rows["share"]
    known = share.dropna()
    middle = f": the object is {100 * known.median():.0f} % of a picture (median)"
    count = f"{masked.sum():,}{middle if len(known) else ''}" if masked.any() else "none"
    said.append(("masks", count))
    add("", "missing", ~masked & (fault != "ours") & masked.any())
    add("", "empty", share == 0)
    add("", "full", share == 1)
    if len(known) and ((share > 0.5) | rows["framed"]).sum() >= NEARLY_ALL * len(known):
        said.append(("", "they look inverted; if so, say what is the object: --object 0"))
    said += _reasons(f"masks {verb}", findings.refused("mask"))
    alike = rows["id"].str.rpartition(".")[0].duplicated(keep=False)
    add("same names", "but for the ending", alike)
    said += _named("other files", "not read", [path.name for path in findings.listing.left_out])
    width = max(len(first) for first, _ in said)
    return [findings.listing.name, *(f"  {first:<{width}}  {rest}" for first, rest in said)]


def samples(listing: Listing, count: int, seed: int = 0) -> Listing:
    """Pictures to look at: at most `count` at random, of as many classes as possible, in order.

    Of a listing in which some pictures have masks they are those with masks alone.
    """
    outlined = np.flatnonzero(listing.rows["mask"].notna())
    listing = listing.select(outlined) if len(outlined) else listing
    order = np.random.default_rng(seed).permutation(len(listing))
    labels = listing.labels.numpy()[order]
    rounds = pd.Series(labels).groupby(labels).cumcount()
    return listing.select(sorted(order[np.argsort(rounds, kind="stable")][:count]))


def _look(listing: Listing, place: int) -> dict[str, Any]:
    """What is known of a picture and its mask, of the columns of UNSEEN."""
    row = listing.rows.iloc[place]
    try:
        seen = _picture(row["image"])
    except READING as error:
        return {"fault": "picture", "why": one_line(error)}
    if "fault" in seen or row["mask"] is None:
        return seen
    try:
        mask, drawn = fitting_mask(row["mask"], row["image"], listing.values)
    except READING as error:
        about = "" if isinstance(error, OtherSize) else "its mask: "
        return seen | {"fault": "mask", "why": f"{about}{one_line(error)}"}
    framed = all(edge.any() for edge in (mask[0], mask[-1], mask[:, 0], mask[:, -1]))
    return seen | {"share": float(mask.mean()), "framed": framed, "drawn": drawn}


def _picture(path: Path) -> dict[str, Any]:
    """Upright size, oddities and pixels of a picture, which is decoded whole."""
    with opened(path) as image:
        if drawn_here(image):
            return {"fault": "ours", "why": "drawn by relevit"}
        several = getattr(image, "is_animated", False) and image.format != "MPO"  # of phones
        is_odd = {
            "CMYK": image.mode == "CMYK",
            "more than 8 bits": image.mode in (*GREY16, "I", "F"),
            "turned by EXIF": turned(image),
            "animated or of pages": several,
            "transparent": "transparency" in image.info or image.mode in ("RGBA", "LA", "PA"),
        }
        shown = as_rgb(upright(image))  # as a model sees it, whatever the file's colours are
        deep = is_deep(image)  # whose range depends on the other pictures
        pixels = hashlib.blake2b(repr((image.size, deep)).encode(), digest_size=16)
        values = np.array(image).astype(np.int32) if deep else shown
        pixels.update(values.tobytes())
        seen = {
            "width": image.width,
            "height": image.height,
            "odd": tuple(kind for kind in ODD if is_odd[kind]),
            "pixels": pixels.hexdigest(),
            "largest": int(values.max() if deep else max(high for _, high in shown.getextrema())),
            "deep": deep,
            "two_colours": shown.getcolors(2) is not None,
        }
    if max(image.size) <= MOST_STRETCHED * min(image.size):
        return seen
    size = f"{image.width} x {image.height} pixels"
    why = f"{size}; one side is over {MOST_STRETCHED} times the other"
    return seen | {"pixels": "", "fault": "picture", "why": why}


def _classes(findings: Findings, have: Mapping[str, int]) -> list[tuple[str, str]]:
    """Lines on the classes, and on the sizes of the pictures."""
    counts = pd.Series(have)
    least, most = counts.min(), counts.max()
    middle = f"{least:,} to {most:,}, median {counts.median():g}"
    named = [f"{_short(name)} ({count:,})" for name, count in have.items()]
    if len(named) > CLASSES_NAMED:
        named = [*named[: CLASSES_NAMED - 1], "..."]
    note = order_note(findings.listing.classes)
    sizes = findings.rows.loc[findings.rows["width"] > 0, ["width", "height"]]
    (low, high), (widest, highest), (wide, tall) = sizes.min(), sizes.max(), sizes.median()
    spread = f"{low} to {widest} wide, {high} to {highest} high"
    return [
        ("of a class", f"{least:,} each" if least == most else middle),
        ("classes", ", ".join(named)),
        *([("", note)] if note else []),
        ("sizes, px", f"{spread}, median {wide:g} x {tall:g}"),
    ]


def _named(first: str, what: str, ids: Sequence[str]) -> list[tuple[str, str]]:
    """A line on so many files, the first by name; none for no file."""
    shown = ", ".join(map(_short, ids[:NAMED])) + (" ..." if len(ids) > NAMED else "")
    return [(first, f"{len(ids):,} {what}: {shown}")] if ids else []


def _reasons(first: str, files: Mapping[str, str]) -> list[tuple[str, str]]:
    """Lines on refused files: how many, and each by name and reason, of very many the first."""
    shown = [("", f"{_short(name)}: {why}") for name, why in list(files.items())[:REASONS]]
    if (more := len(files) - REASONS) > 0:
        shown.append(("", f"and {more:,} more: --list FILE has all"))
    return [(first, f"{len(files):,}"), *shown] if files else []


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"

"""Every picture and mask of a listing opened before long work, and what was found said in short."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from statistics import median
from typing import Any, get_args

import numpy as np
import pandas as pd

from relevit.base.device import cores
from relevit.base.errors import one_line
from relevit.choices.words import Corrupted
from relevit.data.image_set import read_ahead
from relevit.data.own.listing import REMEDY, SKIP, Listing, order_note
from relevit.data.own.outlines import GREY16, OtherSize, drawn_how, turned, upright
from relevit.data.pictures import READING, drawn_here, opened
from relevit.models.spec import as_rgb, is_deep, white_of

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
    "refused": "",  # why it cannot be used
    "mask_refused": "",
    "largest": 0,  # value, of 255 or, where greys are `deep`, as it stands in the file
    "deep": False,
    "two_colours": False,  # and no third, as masks have
    "drawn": None,  # how, of a mask of a picture that EXIF turns
    "ours": False,  # a map or the like that this package drew
}


@dataclass(frozen=True, eq=False)
class Findings:
    """What `examine` found.

    `listing` has the pictures to go on with: each once, and with corrupted="skip" those that can be
    used. `rows` are those of the listing that was examined, with the columns of UNSEEN, `masked`
    (whether it has a mask, whatever that is like) and `copy` (whether it has the pixels of another,
    which stays).
    """

    name: str
    listing: Listing
    corrupted: Corrupted
    rows: pd.DataFrame

    @property
    def counts(self) -> dict[str, int]:
        """Pictures that can be used, by class; also of classes of which none can."""
        good = (self.rows[["refused", "mask_refused"]] == "").all(axis=1)
        good &= ~self.rows["copy"] & ~self.rows["ours"]
        found = good.groupby(self.rows["label"]).sum().to_dict()
        return {name: found[name] for name in self.listing.classes if name in found}

    @property
    def unusable(self) -> dict[str, str]:
        """Why pictures are refused, for themselves and then for their mask, by their ids."""
        return self.reasons("refused") | self.reasons("mask_refused")

    @property
    def useless_masks(self) -> tuple[str, ...]:
        """Ids of pictures whose mask has no object or no background."""
        return self.ids(self.rows["share"].isin((0, 1)))

    def ids(self, which: pd.Series) -> tuple[str, ...]:
        return tuple(self.rows.loc[which, "id"])

    def reasons(self, column: str) -> dict[str, str]:
        return self.rows[self.rows[column] != ""].set_index("id")[column].to_dict()

    def named(self) -> pd.DataFrame:
        """All that is refused or left out: `file`, `class` and `why`."""
        rows, why = self.rows, self.rows["refused"].where(self.rows["refused"] != "")
        why = why.fillna(rows["mask_refused"].where(rows["mask_refused"] != ""))
        why[rows["copy"]], why[rows["ours"]] = "a copy of another", "drawn by relevit"
        found = pd.DataFrame({"file": rows["id"], "class": rows["label"], "why": why})
        return found.dropna().reset_index(drop=True)


def examine(listing: Listing, *, corrupted: Corrupted = "error", workers: int = 0) -> Findings:
    """Open and decode every picture and mask of a listing.

    Refused are pictures that cannot be read, that have more pixels than Pillow opens, or a side
    more than 20 times the other, that are of two classes, and those whose mask cannot be read or
    has another size, or may have been drawn before EXIF turned the picture. With `corrupted="skip"`
    the findings' listing goes without them, and always without copies, which have the pixels of
    another, and what this package drew. Its `white` is the smallest range that has no grey of more
    than 8 bits above it. `workers` are threads, 0 as many as cores.
    Raises: ValueError for a listing without pictures, or another `corrupted`; what is wrong with
    the files is for `need_usable` to raise.
    """
    if corrupted not in get_args(Corrupted):
        raise ValueError(
            f"{listing.name}: corrupted {corrupted!r} is unknown; use 'error' or 'skip'"
        )
    if not len(listing):
        raise ValueError(f"{listing.name}: has no pictures; select at least one")
    seen = pd.DataFrame(list(_look_at_all(listing, workers or cores())))
    rows = listing.rows.drop(columns="pixels", errors="ignore").join(seen)
    rows["masked"] = rows["mask"].notna()
    _refuse_of_two_classes(rows)
    if (rows["drawn"] == "as stored").any():
        untold = (rows["drawn"] == "unknown") & (rows["mask_refused"] == "")
        rows.loc[untold, "mask_refused"] = UNTOLD
    # Of copies the first with a mask stays.
    whole = rows[(rows["pixels"] != "") & (rows["refused"] == "")]
    whole = whole.sort_values("masked", ascending=False, kind="stable")
    rows["copy"] = whole.duplicated("pixels").reindex(rows.index, fill_value=False)
    out = rows["copy"] | rows["ours"]
    if corrupted == "skip":
        out = out | (rows["refused"] != "") | (rows["mask_refused"] != "")
    deep = rows.loc[rows["deep"] & (rows["refused"] == ""), "largest"]
    white = white_of(int(deep.max())) if len(deep) else None
    known = replace(
        listing,
        rows=rows[[*listing.rows.columns.drop("pixels", errors="ignore"), "pixels"]],
        white=white,
    )
    return Findings(listing.name, known.select(np.flatnonzero(~out)), corrupted, rows)


def examine_parts(
    parts: Mapping[str, Listing], *, corrupted: Corrupted = "error"
) -> dict[str, Findings]:
    """Each part examined; all scale greys of more than 8 bits alike, by what the largest needs."""
    found = {name: examine(part, corrupted=corrupted) for name, part in parts.items()}
    white = max((f.listing.white for f in found.values() if f.listing.white), default=None)
    return {n: replace(f, listing=replace(f.listing, white=white)) for n, f in found.items()}


def _refuse_of_two_classes(rows: pd.DataFrame) -> None:
    known = rows[rows["pixels"] != ""].drop_duplicates(["pixels", "label"])
    for _, same in known[known.duplicated("pixels", keep=False)].groupby("pixels"):
        for row in same.itertuples():
            other = same.loc[same["label"] != row.label, "id"].iloc[0]
            mine = (rows["pixels"] == row.pixels) & (rows["label"] == row.label)
            rows.loc[mine, "refused"] = f"it is the photograph {other} of another class, too"


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
        kept[name] = part.select([p for p, row in enumerate(rows) if row[0] not in copies[name]])
    return kept, copies


def need_usable(findings: Findings) -> None:
    """Raise ValueError for the first thing that must be put right before long work, if any.

    That is a refused picture or mask, unless these are skipped, a class of which no picture is
    left, or masks without an object in any.
    """
    unusable, useless = findings.unusable, findings.useless_masks
    first, why = next(iter(unusable.items()), ("", ""))
    if first and findings.corrupted != "skip":
        itself = first in findings.reasons("refused")
        remedy = REMEDY if itself else "mend the mask, or remove it"
        raise ValueError(
            f"{findings.name}: {first} cannot be used ({why}; {len(unusable)} such in all); "
            f"{remedy}, {SKIP}"
        )
    if useless and len(useless) == findings.rows["masked"].sum():
        raise ValueError(
            f"{findings.name}: none of its {len(useless)} masks has both an object and a "
            f"background, that of {useless[0]} the first; mend or remove them, or say which values "
            "are the object (--object)"
        )
    gone = [name for name, count in findings.counts.items() if not count]
    if len(gone) == len(findings.counts):
        raise ValueError(
            f"{findings.name}: none of its {len(unusable)} pictures can be used, {first} the first "
            f"({why}); {REMEDY}"
        )
    if gone:
        raise ValueError(
            f"{findings.name}: no picture of the class {gone[0]!r} can be used ({len(gone)} such "
            "classes); put others there, or take the class out"
        )


def lines(findings: Findings) -> list[str]:
    """What was found, for people: a screen or two, however large the set is."""
    rows, ids = findings.rows, findings.ids
    have = {name: count for name, count in findings.counts.items() if count}
    said = [("pictures", f"{sum(have.values()):,} of {len(have):,} classes can be used")]
    if have:
        said.append(("of a class", _spread(sorted(have.values()))))
        said.append(("classes", _classes(have)))
        note = order_note(findings.listing.classes)
        said += [("", note)] if note else []
        read = rows.loc[rows["width"] > 0, ["width", "height"]]
        (low, high), (least, most), (wide, tall) = read.min(), read.max(), read.median()
        spread = f"{low} to {least} wide, {high} to {most} high"
        said.append(("sizes, px", f"{spread}, median {wide:g} x {tall:g}"))
    odd = rows["odd"].explode().value_counts()
    white = findings.listing.white
    for kind in (kind for kind in ODD if kind in odd):
        is_ranged = white and kind == "more than 8 bits"
        deep = f" from 0 to {white:,} ({white.bit_length()} bits)" if is_ranged else ""
        said.append((kind, f"{odd[kind]:,}: {ODD[kind]}{deep}"))
    untold = ids((rows["drawn"] == "unknown") & (rows["mask_refused"] == ""))
    said += _named("", "of them with masks that are taken as drawn upright", untold)
    light = rows["largest"].where(~rows["deep"], rows["largest"] * 255 / (white or 1))
    said += _named(
        "dark", f"without a pixel above {DARK} of 255", ids((light < DARK) & (rows["width"] > 0))
    )
    two = rows["two_colours"]
    if not two[rows["pixels"] != ""].all():
        said += _named("two colours", "have no third, as masks have; are they pictures?", ids(two))
    verb = "left out" if findings.corrupted == "skip" else "refused"
    side = rows[["width", "height"]].min(axis=1)
    small = ids(side.between(1, SMALL - 1))
    said += _named("small", f"with a side below {SMALL} px", small)
    said += _reasons(verb, findings.reasons("refused"))
    said += _named("twice", "left out as a copy", ids(rows["copy"]))
    said += _named("drawn here", "left out: maps or samples of relevit", ids(rows["ours"]))
    few = tuple(name for name, count in have.items() if count < FEWEST)
    said += _named("small classes", f"with fewer than {FEWEST} pictures", few)
    said += _masks(findings)
    said += _reasons(f"masks {verb}", findings.reasons("mask_refused"))
    stems = rows["id"].str.rpartition(".")[0]
    said += _named("same names", "but for the ending", ids(stems.duplicated(keep=False)))
    others = [path.name for path in findings.listing.left_out]
    said += _named("other files", "not read", others)
    width = max(len(first) for first, _ in said)
    return [findings.name, *(f"  {first:<{width}}  {rest}" for first, rest in said)]


def _masks(findings: Findings) -> list[tuple[str, str]]:
    rows, share = findings.rows, findings.rows["share"]
    if not rows["masked"].any():
        return [("masks", "none")]
    known = share.dropna()
    middle = f": the object is {100 * known.median():.0f} % of a picture (median)"
    said = [("masks", f"{rows['masked'].sum():,}{middle if len(known) else ''}")]
    kinds = {"missing": ~rows["masked"] & ~rows["ours"], "empty": share == 0, "full": share == 1}
    for what, which in kinds.items():
        said += _named("", what, findings.ids(which))
    odd = (share > 0.5) | rows["framed"]
    if len(known) and odd.sum() >= NEARLY_ALL * len(known):
        said.append(("", "they look inverted; if so, say what is the object: --object 0"))
    return said


def samples(listing: Listing, count: int, seed: int = 0) -> Listing:
    """Pictures to look at: at most `count` at random, of as many classes as possible, in order.

    Of a listing in which some pictures have masks they are those with masks alone.
    """
    outlined = [place for place, mask in enumerate(listing.masks) if mask is not None]
    if outlined:
        listing = listing.select(outlined)
    order = np.random.default_rng(seed).permutation(len(listing))
    labels = listing.labels.numpy()[order]
    rounds = pd.Series(labels).groupby(labels).cumcount()
    return listing.select(sorted(order[np.argsort(rounds, kind="stable")][:count].tolist()))


def _look_at_all(listing: Listing, workers: int) -> Iterator[dict[str, Any]]:
    def look(place: int) -> dict[str, Any]:
        return UNSEEN | _look(listing, place)

    reading = read_ahead(look, range(len(listing)), AHEAD * workers, workers)
    with warnings.catch_warnings(), closing(reading):
        warnings.simplefilter("ignore")  # Pillow's on odd pictures, which are counted here
        yield from reading


def _look(listing: Listing, place: int) -> dict[str, Any]:
    """What is known of a picture and its mask, as of UNSEEN."""
    row = listing.rows.iloc[place]
    try:
        seen = _picture(row["image"])
    except READING as error:
        return {"refused": one_line(error)}
    if "ours" in seen:
        return seen
    sides = seen["width"], seen["height"]
    if max(sides) > MOST_STRETCHED * min(sides):
        text = f"{sides[0]} x {sides[1]} pixels; one side is over {MOST_STRETCHED} times the other"
        return seen | {"pixels": "", "refused": text}
    if row["mask"] is None:
        return seen
    try:
        mask = listing.mask(place)
    except READING as error:
        about = "" if isinstance(error, OtherSize) else "its mask: "
        return seen | {"mask_refused": f"{about}{one_line(error)}"}
    framed = all(edge.any() for edge in (mask[0], mask[-1], mask[:, 0], mask[:, -1]))
    turned = "turned by EXIF" in seen["odd"]
    how = {"drawn": drawn_how(row["mask"], row["image"])} if turned else {}
    return seen | {"share": float(mask.mean()), "framed": framed} | how


def _picture(path: Path) -> dict[str, Any]:
    """Upright size, oddities and pixels of a picture, which is decoded whole."""
    with opened(path) as image:
        if drawn_here(image):
            return {"ours": True}
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
        return {
            "width": image.width,
            "height": image.height,
            "odd": tuple(kind for kind in ODD if is_odd[kind]),
            "pixels": pixels.hexdigest(),
            "largest": int(values.max() if deep else max(high for _, high in shown.getextrema())),
            "deep": deep,
            "two_colours": shown.getcolors(2) is not None,
        }


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
    """Lines on refused files: how many, and each by name and reason, of very many the first."""
    if not files:
        return []
    shown = [("", f"{_short(name)}: {why}") for name, why in list(files.items())[:REASONS]]
    more = len(files) - REASONS
    left = [("", f"and {more:,} more: --list FILE has all")] if more > 0 else []
    return [(first, f"{len(files):,}"), *shown, *left]


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"

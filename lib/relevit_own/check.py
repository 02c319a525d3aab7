"""Every picture and mask of a table opened before long work, copies found, and all of it said.

What each file is used for, or why it is not, is a `Ledger`. `check` says it, and so does every
report and JSON, in the same sentences.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy
from jaxtyping import UInt8
from PIL import Image

from relevit.base.device import cores
from relevit.base.errors import one_line
from relevit.choices.words import Corrupted
from relevit.data.image_set import read_ahead
from relevit.data.pictures import READING, drawn_here, opened, orientation, upright
from relevit.models.spec import as_rgb, is_deep
from relevit_own.outlines import ON_THEIR_SIDE, OtherSize, fitting_mask
from relevit_own.table import REMEDY, SKIP, Table, order_note, some

MOST_STRETCHED = 20  # times the shorter side; of a longer picture a model sees next to nothing
SMALL = 32  # pixels of the shorter side: two patches of a usual ViT
AHEAD = 4  # pictures begun for each thread
NAMED = 3  # files named in a line for people
CLASSES_NAMED = 8
FEWEST = 3  # pictures of a class: one to train on, one for choices, one held out
FEWEST_IMAGES = 10  # of a test set, below which one says nothing
NEARLY_ALL = 0.9  # of the masks
LONGEST_NAME = 40  # characters of a name in a line for people
# Two pictures are one photograph, saved again, scaled or mirrored, where what varies inside of most
# of PARTS x PARTS parts goes along, and so does all of it. A fixed camera's do not: there nothing
# but edges goes along. Nor do line drawings of one thing: there edges go along by halves.
PARTS, SIDE = 8, 4  # parts of a side, pixels of a part
ALONG, MOST, TOGETHER = 0.6, 0.75, 0.97  # correlation in a part, share of the parts, of all
FAR = 6.0  # of 255, between the parts' means
FLAT = 1.0  # of 255, what a part varies at least to say anything
WHOLE = "all"  # the one part of a set without
OTHER_CLASS = "the photograph is of another class, too"

DEEP = "more than 8 bits; scale it to 8 by the range that you know (docs/your_own.md)"
TURNED = "turned by EXIF"
# What is not refused and still worth a word, with what is done about it.
ODD = {
    "CMYK": "made RGB",
    TURNED: "set upright; masks are taken as drawn on that",
    "animated or of pages": "the first is taken",
    "transparent": "transparency is dropped",
}
# What is known of a picture and its mask, and of what nobody saw.
UNSEEN = {
    "width": 0,  # upright, pixels
    "height": 0,
    "odd": (),  # of ODD
    "pixels": "",  # alike for copies of a photograph, whatever their files
    "look": None,  # in few grey pixels
    "share": nan,  # of the picture that is object; NaN without a mask that can be used
    "framed": False,  # the object is at all four edges
    "either": False,  # the mask would fit the picture as it is stored, too, and EXIF turns it
    "two_colours": False,  # and no third, as masks have
    "fault": "",  # of picture or mask, which are refused; copy or ours, which are left out
    "why": "",
}


# What was used


@dataclass(frozen=True, eq=False)
class Ledger:
    """What each file of a data set is used for, or why it is not.

    `files` has `file`, `class`, `part` (empty of what is left out), `why` (empty of what is used)
    and `group`: pictures that are kept together, by its user or as near copies.
    """

    files: pd.DataFrame

    @classmethod
    def of(cls, parts: Mapping[str, Table]) -> Ledger:
        """That of the parts of a data set, which know what was left out of them."""
        rows = []
        for name, part in parts.items():
            rows.append(part.rows.assign(part=name, why=""))
            rows.append(part.gone.assign(part=""))
        files = pd.concat(rows, ignore_index=True).fillna({"group": ""})
        inside = files["split"].map(lambda split: f"{split}/" if isinstance(split, str) else "")
        files = files.assign(file=inside + files["id"]).rename(columns={"label": "class"})
        return cls(files[["file", "class", "part", "why", "group"]])

    def told(self) -> list[str]:
        """All that is to know before one reads a number, in sentences."""
        return [*self._left_out(), *self._few(), *self._together(), *self._alike()]

    def facts(self) -> dict[str, Any]:
        """The same for programs: how many are used, by part and class, and why others are not."""
        used = self.files[self.files["part"] != ""]
        counts = used.groupby(["part", "class"], sort=False).size()
        gone = self.files[self.files["why"] != ""]
        return {
            "used": {p: counts[p].to_dict() for p in used["part"].unique()},
            "left_out": gone[["file", "class", "why"]].to_dict("records"),
        }

    def _left_out(self) -> Iterable[str]:
        """How many are not used, for each reason, with the classes that lose most by it."""
        gone, total = self.files[self.files["why"] != ""], self.files["class"].value_counts()
        for why, rows in gone.groupby(gone["why"].map(_kind), sort=False):
            lost = rows["class"].value_counts()
            lost = lost[lost.index != ""].head(NAMED).items()
            of = ", ".join(f"{count} of {total[name]} {_short(name)}" for name, count in lost)
            first = rows.iloc[0]
            more = first["why"].removeprefix(why).strip(": ()")
            told = f"{len(rows)} of {len(self.files)} files are left out: {why}"
            named = f"{_short(first['file'])} the first{f' ({more})' if more else ''}"
            yield "; ".join(filter(None, [told, of, named]))

    def _few(self) -> Iterable[str]:
        """Classes that a part lacks, and parts that are too small to tell."""
        used = self.files[self.files["part"] != ""]
        counts = pd.crosstab(used["class"], used["part"])
        for part in used["part"].unique():
            lacking = counts.index[counts[part] == 0].tolist()
            if lacking and part != WHOLE:
                yield f"{part} has no picture of {some(lacking)}"
            if part not in ("train", WHOLE) and counts[part].sum() < FEWEST_IMAGES:
                yield (
                    f"{part} has {counts[part].sum()} images, too few to tell a change from chance"
                )
        if few := [f"{n!r} ({c})" for n, c in counts.sum(axis=1).items() if c < FEWEST]:
            yield f"classes with fewer than {FEWEST} pictures: {', '.join(few[:CLASSES_NAMED])}"

    def _together(self) -> Iterable[str]:
        used = self.files[(self.files["part"] != "") & (self.files["group"] != "")]
        sizes = used.groupby("group").size()
        sizes = sizes[sizes > 1]
        if len(sizes):
            first = used[used["group"] == sizes.index[0]]["file"].tolist()
            groups = f"{len(sizes)} group{'s' * (len(sizes) > 1)}"
            yield (
                f"{sizes.sum()} pictures are kept together in {groups}, as told or as near copies "
                f"(saved again, scaled or mirrored): {', '.join(map(_short, first[:NAMED]))} the "
                "first"
            )
        labels = used.groupby("group")["class"].nunique()
        near = [name for name in labels.index[labels > 1] if name.startswith(NEAR)]
        if near:
            rows = used[used["group"] == near[0]].drop_duplicates("class")
            pair = " and ".join(f"{_short(r.file)} ({r[2]})" for r in rows.head(2).itertuples())
            yield (
                f"photographs under two classes, as near copies: {len(near)}; {pair} the first; "
                "take one out"
            )

    def _alike(self) -> Iterable[str]:
        names = pd.Series(self.files["class"].unique())
        twins = names[names.str.casefold().duplicated(keep=False)].tolist()
        if twins:
            yield f"classes that differ in capitals alone: {some(sorted(twins))}; are they one?"


NEAR = "near copies of "


def _kind(why: str) -> str:
    """A reason without what is of one file alone, which stands in brackets or after a colon."""
    return why.partition(": ")[0].partition(" (")[0]


# What is found


@dataclass(frozen=True, eq=False)
class Findings:
    """What `examine` found.

    `table` has the pictures to go on with: each once, and with corrupted="skip" those that can be
    used. `rows` are those of the table that was examined, with the columns of UNSEEN.
    """

    table: Table
    corrupted: Corrupted
    rows: pd.DataFrame

    @property
    def counts(self) -> dict[str, int]:
        """Pictures that can be used, by class; also of classes of which none can."""
        found = (self.rows["fault"] == "").groupby(self.rows["label"]).sum().to_dict()
        return {name: found[name] for name in self.table.classes if name in found}

    @property
    def useless_masks(self) -> tuple[str, ...]:
        """Ids of pictures whose mask has no object or no background."""
        return tuple(self.rows.loc[self.rows["share"].isin((0, 1)), "id"])

    @property
    def doubts(self) -> list[str]:
        """Sentences on masks: nearly all look like backgrounds, and some fit in two ways."""
        known, told = self.rows.dropna(subset="share"), []
        odd = (known["share"] > 0.5) | known["framed"]
        if len(known) and odd.sum() >= NEARLY_ALL * len(known):
            told.append("the masks look inverted: the object is what is not 0")
        if len(either := known[known["either"]]):
            told.append(
                f"EXIF turns {len(either)} pictures whose masks fit either way, "
                f"{either['id'].iloc[0]} the first: they are taken as drawn on the upright picture"
            )
        return told

    def refused(self, what: str) -> dict[str, str]:
        """Why pictures are refused for a fault of "picture" or "mask", by their ids."""
        return self.rows[self.rows["fault"] == what].set_index("id")["why"].to_dict()


def examine(table: Table, *, corrupted: Corrupted = "error", workers: int = 0) -> Findings:
    """Open and decode every picture and mask of a table.

    Refused are pictures that cannot be read, that have more than 8 bits or more pixels than Pillow
    opens, or a side more than 20 times the other, that are of two classes, and those whose mask
    cannot be read or has another size. With `corrupted="skip"` the findings' table goes without
    them, and always without copies, which have the pixels of another, and what this package drew.
    Near copies become one `group`, with those that their user has put into one. A mask without
    object or without background is none. `workers` are threads, 0 as many as cores.
    What is wrong with the files is for `need_usable` to raise.
    """
    workers = workers or cores()
    reading = read_ahead(
        lambda place: UNSEEN | _look(table, place), range(len(table)), AHEAD * workers, workers
    )
    with warnings.catch_warnings(), closing(reading):
        warnings.simplefilter("ignore")  # Pillow's on odd pictures, which are counted here
        seen = pd.DataFrame(list(reading))
    rows = table.rows.drop(columns=[*UNSEEN], errors="ignore").join(seen)
    _compare(rows)
    groups = _groups(rows)
    useless = rows["share"].isin((0, 1))
    known = table.rows.assign(
        group=groups, pixels=rows["pixels"], mask=rows["mask"].where(~useless, None)
    )
    left = (rows["fault"] != "") & (rows["fault"].isin(("copy", "ours")) | (corrupted == "skip"))
    why = rows.loc[left, "why"].to_dict()
    return Findings(replace(table, rows=known).without(why), corrupted, rows)


def _compare(rows: pd.DataFrame) -> None:
    """Note the faults that pictures have beside others: two classes, and copies."""
    read = rows[rows["pixels"] != ""]
    several = read.groupby("pixels")["label"].transform("nunique") > 1
    for _, same in read[several].groupby("pixels"):
        for place, label in same["label"].items():
            other = same.loc[same["label"] != label, "id"].iloc[0]
            why = f"{OTHER_CLASS}: it is {other}"
            rows.loc[place, ["fault", "why"]] = "picture", why
    whole = rows[(rows["pixels"] != "") & (rows["fault"] == "")]
    # Of a split before others the first with a mask stays.
    splits = pd.Series(pd.factorize(whole["split"])[0], whole.index)
    order = pd.DataFrame({"split": splits, "bare": whole["mask"].isna()})
    whole = whole.loc[order.sort_values(["split", "bare"], kind="stable").index]
    first = whole.drop_duplicates("pixels").set_index("pixels")["id"]
    for place in whole.index[whole.duplicated("pixels")]:
        why = f"a copy of another: of {first[rows.loc[place, 'pixels']]}"
        rows.loc[place, ["fault", "why"]] = "copy", why


def _groups(rows: pd.DataFrame) -> pd.Series:
    """The group of each picture: its user's, joined with those that are near copies."""
    groups = rows["group"].copy()
    seen = np.flatnonzero(rows["look"].notna() & (rows["fault"] == ""))
    if len(seen) < 2:
        return groups
    looks = np.stack(rows["look"].iloc[seen].tolist())
    pairs = {*_near(looks, looks), *_near(looks, looks[:, :, ::-1])}
    told = pd.Series(groups.iloc[seen].to_numpy())
    for _, members in told[told != ""].groupby(told):
        pairs |= {(members.index[0], other) for other in members.index[1:]}
    if not pairs:
        return groups
    ends = np.array(sorted(pairs)).T
    joined = scipy.sparse.coo_array((np.ones(len(pairs)), ends), shape=(len(seen),) * 2)
    _, part = scipy.sparse.csgraph.connected_components(joined, directed=False)
    for _, members in pd.Series(range(len(seen))).groupby(part):
        if len(members) > 1:
            names = [name for name in told[members] if name]
            name = names[0] if names else f"{NEAR}{rows['id'].iloc[seen[members.iloc[0]]]}"
            groups.iloc[seen[members]] = name
    return groups


def _near(
    looks: UInt8[np.ndarray, "pictures side side"], others: UInt8[np.ndarray, "pictures side side"]
) -> Iterator[tuple[int, int]]:
    """Places of two pictures that are one photograph, the first in `looks`."""
    (means, varied), (their_means, their_varied) = _parts(looks), _parts(others)
    tree = scipy.spatial.cKDTree(their_means)
    for one, near in enumerate(tree.query_ball_point(means, FAR * PARTS)):
        near = [other for other in near if other > one]
        mine, theirs = varied[one], their_varied[near]
        lengths = np.linalg.norm(mine, axis=-1), np.linalg.norm(theirs, axis=-1)
        both = np.maximum(*lengths) >= FLAT * SIDE
        along = (mine * theirs).sum(axis=-1) / np.maximum(lengths[0] * lengths[1], 1e-6)
        share = ((along > ALONG) & both).sum(axis=1) / np.maximum(both.sum(axis=1), 1)
        sizes = np.linalg.norm(lengths[0]) * np.linalg.norm(lengths[1], axis=1)
        together = (mine * theirs).sum(axis=(1, 2)) / np.maximum(sizes, 1e-6)
        same = (share >= MOST) & (together >= TOGETHER)
        yield from ((one, near[place]) for place in np.flatnonzero(same))


def _parts(looks: UInt8[np.ndarray, "pictures side side"]) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each part, and what varies around it: [pictures, parts (, pixels)]."""
    cut = looks.reshape(-1, PARTS, SIDE, PARTS, SIDE).swapaxes(2, 3).astype(np.float32)
    cut = cut.reshape(len(looks), PARTS**2, SIDE**2)
    means = cut.mean(axis=-1, keepdims=True)
    return means[..., 0], cut - means


def apart(parts: Mapping[str, Table]) -> dict[str, Table]:
    """Parts of one set that were examined together, each group in the first that has it."""
    seen: dict[str, str] = {}
    kept = {}
    for name, part in parts.items():
        why = {}
        for place, group in enumerate(part.rows["group"]):
            if group and (first := seen.setdefault(group, name)) != name:
                near = group.startswith(NEAR)
                what = "a near copy of" if near else "of one group with"
                why[place] = f"{what} a picture of {first}" + f" ({group})" * (not near)
        kept[name] = part.without(why)
    return kept


def ledger(findings: Findings) -> Ledger:
    """What is used in each split, as far as the table says."""
    table = findings.table
    splits = dict.fromkeys([*table.splits, *table.gone["split"].dropna()])
    return Ledger.of(apart({name or WHOLE: table.of(name) for name in splits or [None]}))


def need_usable(findings: Findings) -> None:
    """Raise ValueError for the first thing that must be put right before long work, if any.

    That is a refused picture or mask, unless these are skipped, a class of which no picture is
    left, or masks without an object in any.
    """
    name, useless = findings.table.name, findings.useless_masks
    pictures = findings.refused("picture")
    unusable = pictures | findings.refused("mask")
    first, why = next(iter(unusable.items()), ("", ""))
    if first and findings.corrupted != "skip":
        remedy = REMEDY if first in pictures else "mend the mask, or remove it"
        remedy = "take one of both out" if why.startswith(OTHER_CLASS) else remedy
        raise ValueError(
            f"{name}: {first} cannot be used ({why}; {len(unusable)} such in all); {remedy}, {SKIP}"
        )
    if useless and len(useless) == findings.rows["mask"].notna().sum():
        raise ValueError(
            f"{name}: none of its {len(useless)} masks has both an object and a "
            f"background, that of {useless[0]} the first; mend or remove them"
        )
    gone = [label for label, count in findings.counts.items() if not count]
    if len(gone) == len(findings.counts):
        bad = findings.rows[findings.rows["fault"] != ""]  # refused, or else left out
        first, why = bad.iloc[0][["id", "why"]]
        raise ValueError(
            f"{name}: none of its {len(findings.rows)} pictures can be used, {first} the first "
            f"({why}); {REMEDY}"
        )
    if gone:
        raise ValueError(
            f"{name}: no picture of the class {gone[0]!r} can be used ({len(gone)} such "
            "classes); put others there, or take the class out"
        )


def lines(findings: Findings) -> list[str]:
    """What was found, for people: a screen, however large the set is."""
    rows, table = findings.rows, findings.table
    have = {name: count for name, count in findings.counts.items() if count}
    said = [("pictures", f"{sum(have.values()):,} of {len(have):,} classes can be used")]
    said += _classes(findings, have) if have else []
    odd = rows["odd"].explode().value_counts()
    said += [(kind, f"{odd[kind]:,}: {what}") for kind, what in ODD.items() if kind in odd]

    def add(first: str, what: str, which: pd.Series) -> None:
        ids = rows.loc[which, "id"].tolist()
        shown = ", ".join(map(_short, ids[:NAMED])) + " ..." * (len(ids) > NAMED)
        said.extend([(first, f"{len(ids):,} {what}: {shown}")] if ids else [])

    two = rows["two_colours"]
    if not two[rows["pixels"] != ""].all():
        add("two colours", "have no third, as masks have; are they pictures?", two)
    small = rows[["width", "height"]].min(axis=1).between(1, SMALL - 1)
    add("small", f"with a side below {SMALL} px", small)
    if findings.corrupted != "skip":
        for place in rows.index[rows["fault"].isin(("picture", "mask"))][:20]:
            said.append(("refused", f"{_short(rows['id'][place])}: {rows['why'][place]}"))
    masked, share = rows["mask"].notna(), rows["share"]
    known = share.dropna()
    middle = f": the object is {100 * known.median():.0f} % of a picture (median)"
    count = f"{masked.sum():,}{middle if len(known) else ''}" if masked.any() else "none"
    said.append(("masks", count))
    add("", "missing", ~masked & (rows["fault"] != "ours") & masked.any())
    add("", "empty", share == 0)
    add("", "full", share == 1)
    said += [("", each) for each in findings.doubts]
    said += [("note", each) for each in ledger(findings).told()]
    width = max(len(first) for first, _ in said)
    return [table.name, *(f"  {first:<{width}}  {rest}" for first, rest in said)]


def samples(table: Table, count: int, seed: int = 0) -> Table:
    """Pictures to look at: at most `count` at random, of as many classes as possible, in order.

    Of a table in which some pictures have masks they are those with masks alone.
    """
    outlined = np.flatnonzero(table.rows["mask"].notna())
    table = table.select(outlined) if len(outlined) else table
    order = np.random.default_rng(seed).permutation(len(table))
    labels = table.labels.numpy()[order]
    rounds = pd.Series(labels).groupby(labels).cumcount()
    return table.select(sorted(order[np.argsort(rounds, kind="stable")][:count]))


def _look(table: Table, place: int) -> dict[str, Any]:
    """What is known of a picture and its mask, of the columns of UNSEEN."""
    row = table.rows.iloc[place]
    try:
        seen = _picture(row["image"])
    except READING as error:
        return {"fault": "picture", "why": one_line(error)}
    if "fault" in seen or row["mask"] is None:
        return seen
    try:
        mask = fitting_mask(row["mask"], row["image"])
    except READING as error:
        about = "" if isinstance(error, OtherSize) else "its mask: "
        return seen | {"fault": "mask", "why": f"{about}{one_line(error)}"}
    framed = all(edge.any() for edge in (mask[0], mask[-1], mask[:, 0], mask[:, -1]))
    seen |= {"share": float(mask.mean()), "framed": framed}
    if TURNED in seen["odd"]:
        with opened(row["image"]) as image:
            on_its_side = orientation(image) in ON_THEIR_SIDE
        seen["either"] = not on_its_side or mask.shape[0] == mask.shape[1]
    return seen


def stretched(width: int, height: int) -> str:
    """Why a picture of such a size is refused; nothing of others."""
    far = max(width, height) > MOST_STRETCHED * min(width, height)
    said = f"{width} x {height} pixels; one side is over {MOST_STRETCHED} times the other"
    return said if far else ""


def _picture(path: Path) -> dict[str, Any]:
    """Upright size, oddities, pixels and look of a picture, which is decoded whole."""
    with opened(path) as image:
        if drawn_here(image):
            return {"fault": "ours", "why": "drawn by relevit"}
        several = getattr(image, "is_animated", False) and image.format != "MPO"  # of phones
        is_odd = {
            "CMYK": image.mode == "CMYK",
            TURNED: orientation(image) != 1,
            "animated or of pages": several,
            "transparent": "transparency" in image.info or image.mode in ("RGBA", "LA", "PA"),
        }
        deep = is_deep(image)
        shown = as_rgb(upright(image))  # as a model sees it, whatever the file's colours are
        pixels = hashlib.blake2b(repr((shown.size, False)).encode(), digest_size=16)
        pixels.update(np.array(shown).tobytes())
        width, height = shown.size
    seen = {"width": width, "height": height, "odd": tuple(k for k in ODD if is_odd[k])}
    if why := DEEP if deep else stretched(width, height):
        return seen | {"fault": "picture", "why": why}
    few = shown.convert("L").resize((PARTS * SIDE, PARTS * SIDE), Image.Resampling.BILINEAR)
    return seen | {
        "pixels": pixels.hexdigest(),
        "look": np.array(few),
        "two_colours": shown.getcolors(2) is not None,
    }


def _classes(findings: Findings, have: Mapping[str, int]) -> list[tuple[str, str]]:
    """Lines on the classes, and on the sizes of the pictures."""
    counts = pd.Series(have)
    least, most = counts.min(), counts.max()
    middle = f"{least:,} to {most:,}, median {counts.median():g}"
    named = [f"{_short(name)} ({count:,})" for name, count in have.items()]
    if len(named) > CLASSES_NAMED:
        named = [*named[: CLASSES_NAMED - 1], "..."]
    note = order_note(findings.table.classes)
    sizes = findings.rows.loc[findings.rows["width"] > 0, ["width", "height"]]
    (low, high), (widest, highest), (wide, tall) = sizes.min(), sizes.max(), sizes.median()
    spread = f"{low} to {widest} wide, {high} to {highest} high"
    return [
        ("of a class", f"{least:,} each" if least == most else middle),
        ("classes", ", ".join(named)),
        *([("", note)] if note else []),
        ("sizes, px", f"{spread}, median {wide:g} x {tall:g}"),
    ]


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"

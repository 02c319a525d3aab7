"""Does a model lean on context? From a folder of one's own images to an `Audit`.

The model is shown each image in the ways of `evaluate.lean`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool
from pydantic import BaseModel, ConfigDict, Field

from relevit.attribution import explain
from relevit.data.batch import Batch, join
from relevit.data.image_set import AHEAD
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.evaluate.lean import (
    CONDITIONS,
    MATTERS_PTS,
    NULLS_PTS,
    Interval,
    MaskSource,
    Verdict,
    background_gap,
    background_share,
    class_gaps,
    condition_table,
    images_wanted,
    lean_of,
    lean_rows,
    lean_verdict,
    lenders,
)
from relevit.evaluate.looking import object_share_pct
from relevit.evaluate.predictions import BATCH
from relevit.models.loading import OwnModel
from relevit.protocols import Protocol
from relevit_own.check import WHOLE, Ledger, examine, need_usable
from relevit_own.choices import OwnChoices
from relevit_own.images import TOKENCUT, need_knowledge, sample_evenly, table_of, tokencut_masks
from relevit_own.outputs import find_outputs
from relevit_own.table import Table

PARTS = ("test", "validation", "train")  # of a folder: the first that there is
PROBED = 50  # images that are answered first: are the classes known?
NO_MASK = "no mask with an object, which others have"
SHOWN = 12  # images that say it best
MAPS, MAPPED = ("gae", "libra_grad"), 100  # methods whose maps are measured; on so many images
EXPLAINED = 10  # images explained at once: fifty of a ViT-S at 224 pixels take ten gigabytes
BOXES = (
    "the masks are boxes, and what these have of a background goes along with the object; give "
    "outlines, or --masks tokencut"
)
MOST_ENDS = 4  # rows, or columns, at which two boxes begin or end
SEAM_PTS = 5.0  # that pasting alone may cost before it is worth a note


class Part(BaseModel):
    """Values of an audit, none of them unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Mean(Part):
    """A mean over images and its 95 % interval."""

    value: float
    low: float
    high: float


class Shown(Part):
    """What the model answers to images that are shown in one way."""

    condition: str = Field(description=f"one of {', '.join(CONDITIONS)}")
    images: int
    top1_pct: Mean
    probability_pct: float = Field(description="mean probability of the right class")


class OfClass(Part):
    """The same of one class."""

    name: str
    images: int
    top1_pct: float = Field(description="of the images as they are")
    filled_pct: float = Field(description="with the object painted over")
    gap_pts: Mean


class OfMap(Part):
    """How much of an attribution method's map for the answer lies on the object, in percent."""

    method: str
    images: int
    on_object_pct: Mean
    right_pct: float | None = Field(description="of images that are answered right, None without")
    wrong_pct: float | None = Field(description="of those answered wrong")
    object_pct: float = Field(description="what a flat map has there: the object's share of pixels")


class Audit(Part):
    """What `audit.json` says."""

    schema_version: Literal[4] = 4
    model: str
    data: str
    part: str = Field(description="name of the part that was shown: test, if there is one")
    images: int = Field(description="that were shown, in each of the ways")
    masks: MaskSource = Field(description="where they come from")
    seed: int = Field(description="that drew images and backgrounds")
    files: dict[str, Any] = Field(
        description="used: files that could be shown, by part and class; left_out: others, and why"
    )
    verdict: Verdict
    sentence: str = Field(description="the verdict with its intervals, the background alone beside")
    gap_pts: Mean = Field(description="top-1 on backgrounds of the same class less on others'")
    lean_pts: Mean | None = Field(
        description="the gap less that of models that do not lean; none with boxes"
    )
    background_share_pct: Mean | None = Field(
        description="of the answer's logit that it carries; none where that is no more than chance"
    )
    conditions: list[Shown]
    maps: list[OfMap] = Field(description=f"of two methods, on at most {MAPPED} images")
    classes: list[OfClass] = Field(description="that have two images or more, worst first")
    examples: list[str] = Field(description="the images that say it best")
    notes: list[str] = Field(description="what to know before one reads the numbers")


class Audited(NamedTuple):
    """An audit, what it was made from, and each answer: `lean_rows`, with `file`."""

    audit: Audit
    rows: pd.DataFrame
    images: Batch
    names: Sequence[str]  # of the head's classes
    examples: list[int]  # places in images
    ledger: Ledger


def audit_folder(
    name: str,
    model: OwnModel,
    names: Sequence[str],
    choices: OwnChoices,
    say: Callable[[str], object] = lambda line: None,
) -> Audited:
    """Show the model at most `looked_at` images in the ways of CONDITIONS; say what came of it.

    `names` are those of the head's classes, in its order. Images without a mask are left out where
    others have one; without any, TokenCut makes them.
    Raises: ValueError, FileNotFoundError in one sentence, before the work: as `read_table`,
    `examine`, `find_outputs` and `shown_as`; for a model that knows other classes.
    """
    part, ledger, doubts = _images(choices, say)
    masked = part.has_masks
    notes = [*ledger.told(), *(doubts if masked else [])]
    images = join(list(part.image_set(model.view).batches(BATCH, ahead=AHEAD)))
    places, names, note = find_outputs(part.classes, names, model, lambda: images)
    notes += [note] if note else []
    images = replace(images, labels=torch.tensor(places)[images.labels])
    drawn = np.random.default_rng(0).permutation(len(images))[:PROBED]  # of all classes
    mend = "name them with --names, else fit a new one: relevit finetune --new-head"
    need_knowledge(model, images.select(drawn.tolist()), "audit: the model", mend)
    if not masked:
        say("TokenCut makes the masks")
        images, part, note = with_masks(model, images, part)
        notes.append(note)
    say(f"{len(images)} images, each in {len(CONDITIONS)} ways")
    return audit_images(
        name, model, images, part, names, data=choices.data, notes=notes, seed=choices.seed,
        tokencut=not masked, ledger=ledger,
    )  # fmt: skip


def audit_images(
    name: str,
    model: OwnModel,
    images: Batch,
    part: Table,
    names: Sequence[str],
    *,
    data: str,
    tokencut: bool,
    ledger: Ledger,
    notes: Sequence[str] = (),
    seed: int = 0,
) -> Audited:
    """The audit of a model on images with masks in memory; `part` names their files.

    Raises: ValueError as `shown_as`, and where no class has two images.
    """
    shown = (images.images, images.masks > 0.5, images.labels)
    rows = lean_rows(model.network, model.spec, *shown, seed=seed)
    rows["file"] = [part.ids[place] for place in rows["image"]]
    boxes = are_boxes(shown[1][:, 0].numpy())
    source: MaskSource = TOKENCUT if tokencut else "boxes" if boxes else "annotated"
    said = _said(rows, names, source)  # refuses what tells nothing
    examples = told_best(rows, lenders(*shown, seed=seed) if tokencut else None)
    audit = Audit(
        model=name,
        data=data,
        part=part.name,
        images=rows["image"].nunique(),
        masks=source,
        seed=seed,
        files=ledger.facts(),
        examples=[part.ids[place] for place in examples],
        notes=[*notes, *([BOXES] if source == "boxes" else []), *_notes(rows, len(images))],
        maps=on_object(model, images, rows),
        **said,
    )
    return Audited(audit, rows, images, names, examples, ledger)


# Before the work


def _images(
    choices: OwnChoices, say: Callable[[str], object]
) -> tuple[Table, Ledger, Sequence[str]]:
    """The images to show, all of them with a mask or none, what all files are used for, and what is
    doubtful in masks."""
    say(f"reading {choices.data}")
    table = table_of(choices)
    split = next((name for name in PARTS if name in table.splits), None)
    found = examine(table.of(split), corrupted=choices.corrupted)
    need_usable(found)
    part = found.table
    bare = part.rows["mask"].isna()
    if choices.masks == TOKENCUT:
        part = replace(part, rows=part.rows.assign(mask=None))
    elif bare.any() and not bare.all():
        part = part.without(dict.fromkeys(np.flatnonzero(bare).tolist(), NO_MASK))
    ledger = Ledger.of({split or WHOLE: part})
    return sample_evenly(part, choices.looked_at, choices.seed), ledger, found.doubts


def with_masks(
    model: OwnModel, images: Batch, part: Table, protocol: Protocol = "published"
) -> tuple[Batch, Table, str]:
    """Those that get a mask worth using from TokenCut, and what to know of them."""
    found = tokencut_masks(images, next(model.network.parameters()).device, protocol)
    kept = found.kept
    if not kept.any():
        raise ValueError(
            f"audit: TokenCut finds no object in any of {len(images)} images; give masks"
        )
    note = (
        "the masks are TokenCut's: what they miss of an object stays on its background, and makes "
        "a small gap larger and a large one smaller; so look at the pictures below"
    )
    if lost := int((~kept).sum()):
        note += f". It found no object, or the background in its place, in {lost} of {len(kept)}"
    places = kept.nonzero()[:, 0]
    return replace(images, masks=found.refined).select(places), part.select(places), note


def are_boxes(masks: Iterable[Bool[np.ndarray, "height width"]]) -> bool:
    """Whether most masks that have an object are one or two upright boxes.

    Their rows and columns change where a box begins or ends, and nowhere else.
    """
    told = []
    for mask in filter(np.any, masks):
        framed = np.pad(mask, 1)
        ends = (np.diff(framed, axis=axis).any(axis=1 - axis).sum() for axis in (0, 1))
        told.append(max(ends) <= MOST_ENDS)
    return bool(np.mean(told or [True]) > 0.5)


# What came of it


def _said(rows: pd.DataFrame, names: Sequence[str], masks: MaskSource) -> dict[str, Any]:
    """The fields of an `Audit` that the answers decide."""
    gap, share = background_gap(rows), background_share(rows)
    lean = lean_of(gap, masks)
    conditions = [
        Shown(
            condition=row.condition,
            images=row.images,
            top1_pct=Mean(value=row.top1_pct, low=row.low_pct, high=row.high_pct),
            probability_pct=row.probability_pct,
        )
        for row in condition_table(rows).itertuples()
    ]
    classes = [
        OfClass(
            name=names[row.label],
            images=row.images,
            top1_pct=row.top1_pct,
            filled_pct=row.filled_pct,
            gap_pts=Mean(value=row.gap_pts, low=row.low_pts, high=row.high_pts),
        )
        for row in class_gaps(rows).itertuples()
    ]
    return {
        "verdict": lean_verdict(gap, masks),
        "sentence": f"{sentence(gap, masks)} {background_alone(rows, len(names))}",
        "gap_pts": _mean(gap),
        "lean_pts": lean and _mean(lean),
        "background_share_pct": share and _mean(share),
        "conditions": conditions,
        "classes": classes,
    }


def on_object(model: OwnModel, images: Batch, rows: pd.DataFrame) -> list[OfMap]:
    """Where the model looks in the images as they are, by MAPS; those that can explain it.

    `rows` are those of `lean_rows`, of these images.
    """
    seen = rows[rows["condition"] == "original"]  # in the folder's order, class after class
    seen = seen.sample(min(MAPPED, len(seen)), random_state=0).sort_index()
    batch = images.select(seen["image"].tolist())
    masks, right, found = batch.masks > 0.5, torch.tensor(seen["right"].tolist()), []
    for method in MAPS:
        shares = []
        try:
            for part in replace(batch, masks=masks).split(EXPLAINED):
                pixels = model.spec.normalise(part.images, like=next(model.network.parameters()))
                heat = explain(model.network, pixels, method=method, positive=True)
                shares.append(object_share_pct(heat.cpu().double(), part.masks))
        except ValueError:  # a method that does not know this architecture
            continue
        share = torch.cat(shares)
        of = {
            kind: share[which].mean().item()
            for kind, which in (("right", right), ("wrong", ~right))
        }
        found.append(
            OfMap(
                method=method,
                images=len(share),
                on_object_pct=_mean(
                    Interval(len(share), share.mean().item(), *mean_interval(share, PERCENT))
                ),
                right_pct=of["right"] if right.any() else None,
                wrong_pct=of["wrong"] if not right.all() else None,
                object_pct=100 * masks.double().mean().item(),
            )
        )
    return found


def sentence(gap: Interval, masks: MaskSource) -> str:
    """The verdict on a gap, with its interval and what a model that does not lean has."""
    moves = f"Moves {gap.low:z.0f} to {gap.high:z.0f} points with the background"
    if masks not in NULLS_PTS:
        return f"{moves}: undecided; {BOXES}."
    whose = "TokenCut's masks" if masks == TOKENCUT else "outlines"
    verdict, (null, half) = lean_verdict(gap, masks), NULLS_PTS[masks]
    said = (
        f"{moves}; with {whose} models that do not lean move {null - half:.0f} to "
        f"{null + half:.0f} (on drawings): {verdict}"
    )
    if verdict == "does not lean":
        return f"{said} by {MATTERS_PTS:.0f} or more."
    if verdict == "leans":
        return f"{said}."
    if wanted := images_wanted(gap, masks):
        return f"{said}, of {gap.images} images; about {_rounded_up(wanted)} would tell."
    other = ", outlines may" if masks == TOKENCUT else ""
    return f"{said}; more images would not tell{other}."


def background_alone(rows: pd.DataFrame, outputs: int) -> str:
    """How often it is right where the object is painted over (Xiao et al. 2020), in words.

    A guess is among all `outputs` of the model, of which the images may have a few.
    """
    alone = condition_table(rows[rows["condition"] == "filled"]).iloc[0]
    return (
        f"With the object painted over it is right on {alone['top1_pct']:.0f} % of images "
        f"({alone['low_pct']:.0f} to {alone['high_pct']:.0f}); a guess among {outputs} classes is "
        f"on {100 / outputs:.2g} %."
    )


def _rounded_up(count: float) -> int:
    """To one digit."""
    unit = 10 ** math.floor(math.log10(count))
    return math.ceil(count / unit) * unit


def told_best(
    rows: pd.DataFrame, lent: Mapping[str, torch.Tensor] | None = None, count: int = SHOWN
) -> list[int]:
    """The images that are right, on a background of their class too, and wrong on another's.

    Those first whose right class loses most probability. A mask of TokenCut's may have missed the
    object. Then its image is pasted without one, and lends a background that has it still: answers
    to these say nothing of the model. So with `lent`, the `lenders`, only those are taken whose
    object is right alone, on grey, as are those of the two that lend.
    """
    wide = rows.pivot(index="image", columns="condition", values=["right", "probability"])
    alone = wide["right"]["grey"].astype(bool)
    wide = wide.dropna().astype(float)
    right, fall = wide["right"], wide["probability"]["same"] - wide["probability"]["other"]
    fall = fall[right["original"] * right["same"] > right["other"]]
    if lent is not None:
        with_their_own = (torch.arange(len(lent["same"])), *lent.values())
        known = [alone[places[fall.index].numpy()].to_numpy() for places in with_their_own]
        fall = fall[np.all(known, axis=0)]
    return fall.sort_values(ascending=False, kind="stable").index[:count].tolist()


def _notes(rows: pd.DataFrame, count: int) -> list[str]:
    notes, top1 = [], 100 * rows.groupby("condition")["right"].mean()
    if lost := count - rows["image"].nunique():
        notes.append(f"{lost} of {count} images have no object, or no background beside it")
    if alone := rows["image"].nunique() - int((rows["condition"] == "same").sum()):
        notes.append(f"{alone} images are the only one of their class, and do not count in the gap")
    if (cost := top1["original"] - top1["control"]) > SEAM_PTS:
        notes.append(
            f"pasting alone costs {cost:.0f} points (the object on its own background, filled in): "
            "seams and fills are part of all numbers but the first"
        )
    return notes


def _mean(found: Interval) -> Mean:
    return Mean(value=found.value, low=found.low, high=found.high)

"""The perturbation test: erase what a map calls relevant, see accuracy fall.

Source: RobustViT supplement N, Beyond Intuition Sec. 4, after Chefer, Gur, Wolf 2021 (CVPR).
*Positive* erases the most relevant parts first, so a faithful map has a low area under the
curve (AUC); *negative* erases the least relevant first, and a high AUC is good (differences
E8). Accuracy is always against the label, whichever class the map explains (E9).

What is left open or differs, and its name here: parts are pixels in RobustViT's text and in
Beyond Intuition's code, tokens in its text (E5: `unit`); erased parts become black in the code
for ViTs, mean colour in that for CLIP, and the texts do not say (E7: `fill`); the ends of the
curve (E6, E7: `rule` of the AUC). Photographs are the middle squares of all tests here; the
published scripts squeeze whole ones (F9). RobustViT has published no code of this test (B21).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from relevit.attribution import patch_grid, to_heatmap
from relevit.base.device import Precision
from relevit.config.words import Fill, Unit
from relevit.evaluate.bfloat16 import Answers, label_gap

Rule = Literal["published", "described", "trapezoid", "measured"]
Direction = Literal["positive", "negative"]
DIRECTIONS = get_args(Direction)

SHARES_PCT = tuple(range(10, 100, 10))
PROBE = 100  # inputs on which bfloat16 is compared with float32
CHUNK = 50  # inputs in one forward pass; the answers do not depend on it beyond rounding
COLUMNS = ("index", "direction", "share_pct", "hit")


@torch.inference_mode()
def perturbation_rows(
    model: nn.Module,
    normalise: Callable[[Tensor], Tensor],
    images: Tensor,
    maps: Tensor,
    labels: Int[Tensor, " batch"],
    explained: Int[Tensor, " batch"] | None = None,
    *,
    unit: Unit = "pixel",
    fill: Fill = "black",
    directions: Sequence[Direction] = DIRECTIONS,
    shares_pct: Sequence[float] = SHARES_PCT,
    precision: Precision | None = None,
    chunk: int = CHUNK,
    first_index: int = 0,
    tie_seed: int = 0,
) -> pd.DataFrame:
    """What a classifier answers while more and more of its images is erased.

    `images` are [batch, 3, height, width] in any format that `normalise` takes, 0 being
    black: bytes for `ModelSpec.normalise`. It must treat each pixel alone. `maps` are
    [batch, patches] or, for pixels, heatmaps [batch, 1, height, width]; patch maps become
    pixels by bilinear interpolation (`to_heatmap`). `explained` is the class whose logit is
    kept, by default the one predicted for the whole image. `shares_pct` are the shares of
    the parts to erase, rounded down to whole parts; 0 is always added.
    `precision` runs a converted copy of the weights; None keeps the model's own format. With
    `bfloat16` each `hit` that rounding could change is computed again in float32, judged by
    the errors on PROBE inputs (`relevit.evaluate.bfloat16`); the logits are bfloat16's, but for
    these.

    One row a direction, image and share, in this order. Columns: `index` (from `first_index`
    on), `direction`, `share_pct`, `hit` (highest logit at the label), `logit` and
    `probability_pct` of the explained class, `top_logit` and `top_probability_pct` of the
    class that is highest at that share. The published logit and probability differences
    (at a share minus at 0 %) compare the latter, so possibly two classes (differences F2).
    Raises: ValueError for shapes, shares, labels or names that do not fit.
    """
    check_name("unit", unit, get_args(Unit))
    check_name("fill", fill, get_args(Fill))
    _check(images, maps, labels, unit)
    check_shares(shares_pct, chunk)
    answers = Answers(model, precision)
    pixels = normalise(images).to(answers.like)
    # Normalising first and erasing with a normalised black saves doing it at each share.
    blank = torch.zeros_like(pixels[:1])
    colour = normalise(torch.zeros_like(images[:1])).to(pixels) if fill == "black" else blank
    parts = _parts(
        maps.detach().to(pixels.device), images.shape[-2:], unit, patch_grid(model, pixels)
    )
    shares = [0.0, *(float(share) for share in shares_pct)]
    counts = [erased_parts(parts.shape[1], share) for share in shares]
    tables = []
    for direction in directions:
        ranks = erasing_ranks(parts, direction, tie_seed)
        logits = _logits(answers, pixels, ranks, counts, colour, labels.cpu(), chunk)
        tables.append(answer_rows(logits, labels.cpu(), explained, shares, direction, first_index))
    return pd.concat(tables, ignore_index=True)


def accuracy_curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy against the erased share: direction, share_pct, images, accuracy_pct."""
    check_rows(rows, "accuracy_curves")
    hits = rows.groupby(["direction", "share_pct"], sort=False, observed=True)["hit"]
    table = pd.DataFrame({"images": hits.size(), "accuracy_pct": 100 * hits.mean()})
    return table.reset_index()


def auc_weights(shares_pct: Sequence[float], rule: Rule = "published") -> np.ndarray:
    """What each share's accuracy counts for in the area under the curve (differences E6).

    `shares_pct` begins with 0, the whole image. `published`: trapezoids over 0 to 100 %, the
    point at 100 % being set to 0, measured or not; `measured`: as it was measured (CLIP, E7).
    `described`: the mean over the shares that are not 0 ("averaged over the masked inputs";
    RobustViT supplement N: 10 % to 90 %). `trapezoid`: trapezoids between the first and the last
    of these, so at most 80 for 10 % to 90 %. Accuracies in percent give an AUC in percent.
    RobustViT's test has no code (B21): `published` is Beyond Intuition's for its table too (F12).
    Raises: ValueError for an unknown rule or shares that do not rise from 0, or end before 100
    with `measured`.
    """
    check_name("rule", rule, get_args(Rule))
    shares = np.asarray(shares_pct, dtype=float) / 100
    wrong = len(shares) < 2 or shares[0] != 0 or (np.diff(shares) <= 0).any() or shares[-1] > 1
    if wrong or (rule == "measured" and shares[-1] < 1):
        raise ValueError(
            f"auc_weights: shares are {list(shares_pct)}; needed are 0, then at least one rising "
            "share up to 100, and 100 for rule 'measured': keep all rows of perturbation_rows"
        )
    if rule == "described":
        return np.r_[0.0, np.full(len(shares) - 1, 1 / (len(shares) - 1))]
    if rule == "trapezoid":
        if len(shares) < 3:
            raise ValueError(
                f"auc_weights: shares are {list(shares_pct)}; rule 'trapezoid' needs 0 and at "
                "least two more: measure more shares, or use rule='described'"
            )
        return np.r_[0.0, trapezoid_weights(shares[1:])]
    weights = trapezoid_weights(np.r_[shares[shares < 1], 1.0])[: len(shares)]
    return np.where((shares == 1) & (rule == "published"), 0.0, weights)


def image_auc_pct(rows: pd.DataFrame, rule: Rule = "published") -> pd.DataFrame:
    """The area under each image's own curve of hits: index, direction, auc_pct.

    The AUC of a data set is the mean of these, as areas are linear in the accuracies; so
    methods can be compared image by image.
    Raises: ValueError as `auc_weights`, for missing columns, and for repeated images or
    images that lack a share.
    """
    check_rows(rows, "image_auc_pct")
    shares = sorted(rows["share_pct"].unique().tolist())
    weights = auc_weights(shares, rule)
    keys = ["index", "direction"]
    if rows.duplicated([*keys, "share_pct"]).any():
        raise ValueError(
            "image_auc_pct: an image occurs twice for one direction and share; number the "
            "images of later batches with first_index"
        )
    hits = rows.pivot(index=keys, columns="share_pct", values="hit")[shares]
    if hits.isna().any(axis=None):
        raise ValueError(
            f"image_auc_pct: some images lack some of the shares {shares}; all need the same: "
            "run them with the same shares_pct"
        )
    area = 100 * hits.to_numpy(dtype=float) @ weights
    return pd.DataFrame({"auc_pct": area}, index=hits.index).reset_index()


def auc_table(rows: pd.DataFrame, rule: Rule = "published") -> pd.DataFrame:
    """AUC of a data set, with its standard error over images.

    Columns: direction, images, auc_pct, standard_error_pts (sample standard deviation of the
    images' areas over the square root of their number; NaN for one image).
    Raises: ValueError as `image_auc_pct`.
    """
    areas = image_auc_pct(rows, rule).groupby("direction", sort=False, observed=True)["auc_pct"]
    columns = {"images": areas.size(), "auc_pct": areas.mean(), "standard_error_pts": areas.sem()}
    order = [name for name in DIRECTIONS if name in columns["images"].index]
    return pd.DataFrame(columns).loc[order].reset_index()


def trapezoid_weights(places: np.ndarray) -> np.ndarray:
    """Weights that give the integral of a function known at `places`."""
    steps = np.diff(places)
    return (np.r_[0.0, steps] + np.r_[steps, 0.0]) / 2


# What is erased, and when


def erased_parts(parts: int, share_pct: float) -> int:
    """How many of so many parts are erased: whole ones, rounded down (differences E5)."""
    # 29 % of 100 is 28.999999999999996 in floating point.
    return int(parts * share_pct / 100 + 1e-9)


def erasing_ranks(
    relevance: Float[Tensor, "batch parts"], direction: Direction, tie_seed: int = 0
) -> Int[Tensor, "batch parts"]:
    """Place of each part in the order of erasing, from 0.

    Equal relevance is common: clamped maps are zero in many places, and interpolation
    repeats its border (differences E5). Ties go by one shuffled order of the parts, drawn from
    `tie_seed` and the same for all images and both directions, so that ranks depend on no
    implementation of sorting, and a map that says nothing erases at random. Such is also a
    map with a value that is no finite number: all its parts tie.
    Raises: ValueError for an unknown direction.
    """
    check_name("direction", direction, DIRECTIONS)
    parts = relevance.shape[1]
    random = torch.Generator().manual_seed(tie_seed)
    shuffled = torch.randperm(parts, generator=random).to(relevance.device)
    useful = relevance.isfinite().all(dim=1, keepdim=True)
    values = torch.where(useful, relevance, 0.0)[:, shuffled]
    order = values.argsort(dim=1, descending=direction == "positive", stable=True)
    places = torch.arange(parts, device=relevance.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, shuffled[order], places)


def erase(
    images: Float[Tensor, "batch 3 height width"],
    hidden: Bool[Tensor, "batch parts"],
    colour: Float[Tensor, "1 3 height width"],
) -> Float[Tensor, "batch 3 height width"]:
    """Give the hidden parts a colour; parts are pixels, or squares of pixels, row by row."""
    height, width = images.shape[-2:]
    if hidden.shape[1] != height * width:
        side = round(hidden.shape[1] ** 0.5)
        grid = hidden.reshape(-1, side, side)
        hidden = grid.repeat_interleave(height // side, 1).repeat_interleave(width // side, 2)
    return torch.where(hidden.reshape(-1, 1, height, width), colour, images)


def check_name(kind: str, given: str, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless `given` is one of the allowed names."""
    if given not in allowed:
        raise ValueError(f"{kind} {given!r} is unknown; use one of {list(allowed)}")


def _parts(
    maps: Tensor, size: torch.Size, unit: Unit, grid: tuple[int, int]
) -> Float[Tensor, "batch parts"]:
    """Relevance of each part that can be erased."""
    if unit == "token" or maps.ndim == 4:
        return maps.flatten(1)
    # float64, so that interpolation ties no patches that differ; empty maps stay NaN.
    maps = maps.double() if maps.device.type != "mps" else maps
    return to_heatmap(maps, tuple(size), grid).flatten(1)


def _logits(
    answers: Answers,
    pixels: Float[Tensor, "batch 3 height width"],
    ranks: Int[Tensor, "batch parts"],
    counts: list[int],
    colour: Float[Tensor, "1 3 height width"],
    labels: Int[Tensor, " batch"],
    chunk: int,
) -> Float[Tensor, "batch shares classes"]:
    """Answers for each image and number of erased parts, `chunk` inputs at a time, on the CPU."""
    number = torch.tensor(counts, device=ranks.device)

    def erased(inputs: Tensor) -> Tensor:
        image, share = inputs // len(counts), inputs % len(counts)
        return erase(pixels[image], ranks[image] < number[share, None], colour)

    everything = torch.arange(len(pixels) * len(counts), device=ranks.device)
    probe = torch.linspace(0, len(everything) - 1, min(PROBE, len(everything))).long()
    answers.measure(map(erased, everything[probe].split(chunk)))
    found = []
    for inputs in everything.split(chunk):

        def gap(logits: Tensor, inputs: Tensor = inputs) -> Tensor:
            _check_classes("labels", labels, labels, logits.shape[1])
            return label_gap(logits, labels[inputs.cpu() // len(counts)], k=1)

        found.append(answers(erased(inputs), gap))
    return torch.cat(found).reshape(len(pixels), len(counts), -1)


def answer_rows(
    logits: Float[Tensor, "batch shares classes"],
    labels: Int[Tensor, " batch"],
    explained: Int[Tensor, " batch"] | None,
    shares: list[float],
    direction: Direction,
    first_index: int,
) -> pd.DataFrame:
    """The table of `perturbation_rows` for one direction, from the answers at each share."""
    classes = logits.shape[2]
    explained = logits[:, 0].argmax(dim=1) if explained is None else explained.cpu()
    _check_classes("labels", labels, labels, classes)
    _check_classes("explained classes", explained, labels, classes)
    chosen = explained[:, None, None].expand(-1, len(shares), 1)
    probability = 100 * logits.softmax(dim=2)
    # The highest of numbers among which one is NaN is that one, which is no right answer.
    hit = (logits.argmax(dim=2) == labels[:, None]) & logits.isfinite().all(dim=2)
    columns = {
        "hit": hit,
        "logit": logits.gather(2, chosen),
        "probability_pct": probability.gather(2, chosen),
        "top_logit": logits.amax(dim=2),
        "top_probability_pct": probability.amax(dim=2),
    }
    index = np.arange(first_index, first_index + len(labels))
    rows = pd.DataFrame({"index": index.repeat(len(shares)), "direction": direction})
    rows["share_pct"] = np.tile(shares, len(labels))
    return rows.assign(**{name: values.flatten().numpy() for name, values in columns.items()})


def _check_classes(name: str, given: Tensor, labels: Tensor, classes: int) -> None:
    if given.shape != labels.shape or bool(((given < 0) | (given >= classes)).any()):
        raise ValueError(
            f"perturbation: {name} {given.tolist()} for {len(labels)} images and {classes} "
            f"classes; give one class in 0..{classes - 1} for each image"
        )


def _check(images: Tensor, maps: Tensor, labels: Tensor, unit: Unit) -> None:
    shapes = tuple(images.shape), tuple(maps.shape), tuple(labels.shape)
    batch = shapes[0][:1]
    if len(shapes[0]) != 4 or shapes[1][:1] != batch or shapes[2] != batch or 0 in shapes[0]:
        raise ValueError(
            f"perturbation: images {shapes[0]}, maps {shapes[1]}, labels {shapes[2]}; needed "
            "are images [batch, 3, height, width] and one map and one label for each"
        )
    size = shapes[0][2:]
    if maps.ndim == 4 and (shapes[1][1:] != (1, *size) or unit == "token"):
        raise ValueError(
            f"perturbation: maps {shapes[1]} with unit={unit!r} and images of {size} pixels; "
            "give maps [batch, patches], or for unit='pixel' [batch, 1, height, width] of the "
            "images' size"
        )
    side = round(shapes[1][1] ** 0.5)
    if maps.ndim == 2 and (side * side != shapes[1][1] or size[0] % side or size[1] % side):
        raise ValueError(
            f"perturbation: {shapes[1][1]} patches for images of {size} pixels; needed is a "
            "square grid that divides the images: give one value a patch"
        )


def check_shares(shares_pct: Sequence[float], chunk: int) -> None:
    """Raise ValueError unless shares rise, above 0 and up to 100, and chunks have an input."""
    steps = np.diff([0.0, *shares_pct])
    if not len(steps) or (steps <= 0).any() or shares_pct[-1] > 100 or chunk < 1:
        raise ValueError(
            f"perturbation: shares_pct {list(shares_pct)}, chunk {chunk}; needed are shares that "
            "rise, above 0 and up to 100, and chunks of at least one input"
        )


def check_rows(rows: pd.DataFrame, where: str) -> None:
    """Raise ValueError unless `rows` are those of `perturbation_rows`."""
    absent = [name for name in COLUMNS if name not in rows.columns]
    if absent or rows.empty:
        raise ValueError(
            f"{where}: {len(rows)} rows, columns missing: {absent}; needed are those of "
            "perturbation_rows"
        )

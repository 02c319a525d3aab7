"""The perturbation test: erase what a map calls relevant, see accuracy fall.

Source: RobustViT supplement N, Beyond Intuition Sec. 4, after Chefer, Gur, Wolf 2021 (CVPR).
*Positive* erases the most relevant parts first, so a faithful map has a low area under the
curve (AUC); *negative* erases the least relevant first, and a high AUC is good (differences
E8). Accuracy is always against the label, whichever class the map explains (E9).

What is left open or differs is an option: of `Erasing` the parts (E5) and their colour (E7), of
`auc_weights` the ends of the curve (E6, E7). Photographs are the middle squares of all tests
here; the published scripts squeeze whole ones (F9). RobustViT has published no code of this test
(B21).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from relevit.base.device import at_once
from relevit.choices.words import Fill, Unit
from relevit.evaluate.answering import Answers, label_gap
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.maps import to_heatmap, to_pixels

Direction = Literal["positive", "negative"]
Grid = tuple[int, int]  # rows and columns of what can be erased
DIRECTIONS = get_args(Direction)

SHARES_PCT = tuple(range(10, 100, 10))
PART = 500  # images kept normalised at once; the answers do not depend on it
CHUNK = 50  # inputs in one forward pass (`at_once`)


@dataclass(frozen=True)
class Erasing:
    """What is erased, in which order, and what it becomes.

    Parts are pixels in RobustViT's text and in Beyond Intuition's code, tokens in its text
    (`unit`, differences E5). Erased parts become black in the code for ViTs, mean colour in that
    for CLIP, and the texts do not say (`fill`, E7). `shares_pct` are the shares of the parts to
    erase, rising, above 0 and up to 100; the whole image, 0, is always looked at first.
    """

    unit: Unit = "pixel"
    fill: Fill = "black"
    directions: Sequence[Direction] = DIRECTIONS
    shares_pct: Sequence[float] = SHARES_PCT

    @property
    def shares(self) -> list[float]:
        """All shares that are looked at, in percent: 0, then those erased."""
        return [0.0, *map(float, self.shares_pct)]


AS_PUBLISHED = Erasing()


class Judged(NamedTuple):
    """Images, and the maps that the test judges by them.

    `images` are [batch, 3, height, width], 0 being black, in any format that the test's
    `normalise` takes. `maps` are [batch, patches] or, for pixels, heatmaps [batch, 1, height,
    width]. `explained` is the class whose logit is kept, None the one predicted for the whole
    image.
    """

    images: Tensor
    maps: Tensor
    labels: Int[Tensor, " batch"]
    explained: Int[Tensor, " batch"] | None = None


def judged(
    images: Tensor, maps: Tensor, labels: Tensor, explained: Tensor | None = None
) -> Iterator[Judged]:
    """So many images at once that what they need fits in memory, whatever their number."""
    for part in torch.arange(len(images)).split(PART):
        of = None if explained is None else explained[part]
        yield Judged(images[part], maps[part], labels[part], of)


@torch.inference_mode()
def perturbation_rows(
    model: nn.Module,
    normalise: Callable[[Tensor], Tensor],
    batches: Iterable[Judged],
    grid: Grid,
    erasing: Erasing = AS_PUBLISHED,
    *,
    chunk: int | None = None,
) -> pd.DataFrame:
    """What a classifier answers while more and more of its images is erased.

    `normalise` treats each pixel alone, as `ModelSpec.normalise`. `grid` has the (rows, columns) of
    the patches; their maps become pixels by bilinear interpolation (`to_heatmap`). Each `hit` is
    that of the model's own format (`relevit.evaluate.answering`). `chunk`: inputs in one pass.

    One row a direction, image and share, batch by batch in this order; columns: `answer_rows`.
    """
    answers = Answers(model)
    chunk = chunk or at_once(CHUNK, answers.like.device)
    tables, first = [], 0
    for images, maps, labels, explained in batches:
        pixels = normalise(images).to(answers.like)
        # Normalising first and erasing with a normalised black saves doing it at each share.
        colour = torch.zeros_like(pixels[:1])
        if erasing.fill == "black":
            colour = normalise(torch.zeros_like(images[:1])).to(pixels)
        size = tuple(images.shape[-2:])
        parts = maps.detach().to(pixels.device).flatten(1)
        if erasing.unit == "pixel" and maps.ndim == 2:
            parts = pixel_relevance(parts, size, grid)
        counts = [erased_parts(parts.shape[1], share) for share in erasing.shares]
        cells = grid if erasing.unit == "token" else size
        for direction in erasing.directions:
            ranks = erasing_ranks(parts, direction).unflatten(1, cells)
            logits = _logits(answers, pixels, ranks, cells, counts, colour, labels.cpu(), chunk)
            tables.append(
                answer_rows(logits, labels.cpu(), explained, erasing.shares, direction, first)
            )
        first += len(labels)
    return pd.concat(tables, ignore_index=True)


def answer_rows(
    logits: Float[Tensor, "batch shares classes"],
    labels: Int[Tensor, " batch"],
    explained: Int[Tensor, " batch"] | None,
    shares: Sequence[float],
    direction: Direction,
    first_index: int,
) -> pd.DataFrame:
    """One row an input and share, out of the answers in one direction.

    Columns: `index` (from `first_index` on), `direction`, `share_pct`, `hit` (highest logit at the
    label), `logit` and `probability_pct` of the explained class, `top_logit` and
    `top_probability_pct` of the class that is highest at that share. The published logit and
    probability differences (at a share minus at 0 %) compare the latter, so possibly two classes
    (differences F2).
    """
    explained = logits[:, 0].argmax(dim=1) if explained is None else explained.cpu()
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


# The curve and its area


def accuracy_curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy against the erased share: direction, share_pct, images, accuracy_pct."""
    hits = rows.groupby(["direction", "share_pct"], sort=False, observed=True)["hit"]
    table = pd.DataFrame({"images": hits.size(), "accuracy_pct": 100 * hits.mean()})
    return table.reset_index()


def auc_weights(
    shares_pct: Sequence[float],
    *,
    trapezoids: bool = False,
    whole: bool = False,
    end_at_zero: bool = False,
) -> np.ndarray:
    """What each share's accuracy counts for in the area under the curve (differences E6).

    `shares_pct` begins with 0, the whole image, which counts only with `whole`. The area is the
    mean over the shares that count ("averaged over the masked inputs"; RobustViT supplement N: 10 %
    to 90 %), or with `trapezoids` that under the line through them, so at most 80 for 10 % to 90 %.
    `end_at_zero` takes the point at 100 % for 0, measured or not; else it counts as measured, or
    not at all (E7). Accuracies in percent give an AUC in percent.
    """
    shares = np.asarray(shares_pct, dtype=float) / 100
    counts = (shares > 0) | whole
    if end_at_zero:
        counts &= shares < 1
    places = np.r_[shares[counts], 1.0] if end_at_zero else shares[counts]
    weights = trapezoid_weights(places) if trapezoids else np.full(len(places), 1 / len(places))
    found = np.zeros(len(shares))
    found[counts] = weights[: counts.sum()]
    return found


def trapezoid_weights(places: np.ndarray) -> np.ndarray:
    """Weights that give the integral of a function known at `places`."""
    steps = np.diff(places)
    return (np.r_[0.0, steps] + np.r_[steps, 0.0]) / 2


def image_auc_pct(rows: pd.DataFrame, **rule: bool) -> pd.DataFrame:
    """The area under each image's own curve of hits: index, direction, auc_pct.

    The AUC of a data set is the mean of these, as areas are linear in the accuracies; so
    methods can be compared image by image. `rule` are the options of `auc_weights`.
    """
    shares = sorted(rows["share_pct"].unique().tolist())
    hits = rows.pivot(index=["index", "direction"], columns="share_pct", values="hit")[shares]
    area = 100 * hits.to_numpy(dtype=float) @ auc_weights(shares, **rule)
    return pd.DataFrame({"auc_pct": area}, index=hits.index).reset_index()


def auc_table(rows: pd.DataFrame, **rule: bool) -> pd.DataFrame:
    """AUC of a data set with its 95 % interval over images; `rule` as `auc_weights`.

    Columns: direction, images, auc_pct, low_pct, high_pct. Raises: as `mean_interval`.
    """
    areas = image_auc_pct(rows, **rule).groupby("direction", observed=True)["auc_pct"]
    found = {name: torch.tensor(own.to_numpy()) for name, own in areas}
    table = [
        (name, len(found[name]), found[name].mean().item(), *mean_interval(found[name], PERCENT))
        for name in DIRECTIONS
        if name in found
    ]
    columns = ["direction", "images", "auc_pct", "low_pct", "high_pct"]
    return pd.DataFrame(table, columns=columns)


# What is erased, and when


def erased_parts(parts: int, share_pct: float) -> int:
    """How many of so many parts are erased: whole ones, rounded down (differences E5)."""
    # 29 % of 100 is 28.999999999999996 in floating point.
    return int(parts * share_pct / 100 + 1e-9)


def erasing_ranks(
    relevance: Float[Tensor, "batch parts"], direction: Direction
) -> Int[Tensor, "batch parts"]:
    """Place of each part in the order of erasing, from 0.

    Equal relevance is common: clamped maps are zero in many places, and interpolation
    repeats its border (differences E5). Ties go by one shuffled order of the parts, the
    same for all images and both directions, so that ranks depend on no
    implementation of sorting, and a map that says nothing erases at random. Such is also a
    map with a value that is no finite number: all its parts tie.
    """
    parts = relevance.shape[1]
    random = torch.Generator().manual_seed(0)
    shuffled = torch.randperm(parts, generator=random).to(relevance.device)
    useful = relevance.isfinite().all(dim=1, keepdim=True)
    values = torch.where(useful, relevance, 0.0)[:, shuffled]
    order = values.argsort(dim=1, descending=direction == "positive", stable=True)
    places = torch.arange(parts, device=relevance.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, shuffled[order], places)


def pixel_relevance(
    maps: Float[Tensor, "batch patches"], size: tuple[int, int], grid: Grid
) -> Float[Tensor, "batch pixels"]:
    """Relevance of each pixel of an image of `size`, out of the patches'; empty maps stay NaN."""
    # float64, so that interpolation ties no patches that differ.
    maps = maps.double() if maps.device.type != "mps" else maps
    return to_heatmap(maps, size, grid).flatten(1)


def erase(
    images: Float[Tensor, "batch 3 height width"],
    hidden: Bool[Tensor, "batch rows columns"],
    colour: Float[Tensor, "1 3 height width"],
    cells: Grid,
) -> Float[Tensor, "batch 3 height width"]:
    """Give the hidden parts a colour.

    `cells` is the grid of the patches, or the size of the images where the parts are pixels.
    """
    hidden = to_pixels(hidden, tuple(images.shape[2:]))
    return torch.where(hidden[:, None], colour, images)


def _logits(
    answers: Answers,
    pixels: Float[Tensor, "batch 3 height width"],
    ranks: Int[Tensor, "batch rows columns"],
    cells: Grid,
    counts: list[int],
    colour: Float[Tensor, "1 3 height width"],
    labels: Int[Tensor, " batch"],
    chunk: int,
) -> Float[Tensor, "batch shares classes"]:
    """Answers for each image and number of erased parts, `chunk` inputs at a time, on the CPU."""
    number = torch.tensor(counts, device=ranks.device)

    def erased(inputs: Tensor) -> Tensor:
        image, share = inputs // len(counts), inputs % len(counts)
        return erase(pixels[image], ranks[image] < number[share, None, None], colour, cells)

    everything = torch.arange(len(pixels) * len(counts), device=ranks.device)
    found = []
    for inputs in everything.split(chunk):
        right = labels[inputs.cpu() // len(counts)]
        found.append(answers(erased(inputs), partial(label_gap, labels=right, k=1)))
    return torch.cat(found).reshape(len(pixels), len(counts), -1)

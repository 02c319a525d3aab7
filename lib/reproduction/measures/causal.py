"""What each part of a drawn scene is worth to the answer, and whether a map's mass says so.

A scene is drawn again without a part, all else equal to the pixel. The *worth* of the part is by
how much the logit of the class answered for the whole scene falls. A map's *mass* on a part is its
sum over the pixels that show it. A faithful map has its mass where the worth is. Beyond both
papers; the protocol is the single deletion of FunnyBirds (Hesse, Schaub-Meyer and Roth 2023), on
parts of a scene in place of those of a bird. A sum needs a zero: a map's own, or its least value
(ZEROS). The two tell different truths.

A part is worth what it adds to what lies beneath it, which is seen without it. There are no
shadows; soft edges and an animal that is see-through change pixels that are not the part's
own (`outside_pct`). Worths need not add up (`pair_gaps`). A part of which no pixel is seen has no
worth and no mass: NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import scipy
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from habitats.benchmark import Benchmark
from habitats.composing import PARTS, THINGS
from relevit.attribution import to_heatmap
from relevit.data.batch import Batch, join
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.evaluate.predictions import BATCH
from relevit.models.spec import ModelSpec

PAIRS = tuple(combinations(PARTS, 2))
SCORES = ("rank_correlation", "same_first_pct")
BOUNDS = {"rank_correlation": (-1.0, 1.0), "same_first_pct": PERCENT}
# What a map's mass is counted from: the method's own 0, or the least value of each heatmap, which
# then runs from 0 up as heatmaps that are shown or trained on do.
Zero = Literal["own", "least"]
ZEROS: tuple[Zero, ...] = ("own", "least")


class Scenes(NamedTuple):
    """Scenes, the same without some parts, and which part each pixel shows."""

    whole: Batch
    without: dict[tuple[str, ...], UInt8[Tensor, "scenes 3 height width"]]
    owners: Int[Tensor, "scenes height width"]  # index into PARTS, of the part on top

    def shown(self) -> Float[Tensor, "scenes parts"]:
        """The share of the pixels that show each part."""
        return torch.stack([self._of(i).double().mean(dim=(1, 2)) for i in range(len(PARTS))], 1)

    def _of(self, part: int) -> Tensor:
        return self.owners == part


def joined(parts: Sequence[Scenes]) -> Scenes:
    """Scenes of several sets as one, in order."""
    without = {name: torch.cat([each.without[name] for each in parts]) for name in parts[0].without}
    owners = torch.cat([each.owners for each in parts])
    return Scenes(join([each.whole for each in parts]), without, owners)


def draw_scenes(
    bench: Benchmark,
    set_name: str,
    indices: Sequence[int],
    *,
    size: int | None = None,
    together: int = 1,
) -> Scenes:
    """Draw scenes of a set by number, whole, and without each 1 to `together` of the parts.
    The benchmark is `composable`.
    """
    whole = bench.draw(set_name, indices, size=size)
    without, second = {}, torch.zeros_like(whole.masks)
    for parts in (each for count in range(together) for each in combinations(PARTS, count + 1)):
        drawn = bench.draw(set_name, indices, size=size, without=parts)
        without[parts] = drawn.images
        if parts == THINGS[:1] and drawn.props is not None:
            second = drawn.props
    things = torch.zeros_like(whole.masks) if whole.props is None else whole.props
    owners = torch.full_like(whole.masks, PARTS.index("texture"), dtype=torch.long)
    for part, mask in zip((*THINGS, "animal"), (things, second, whole.masks), strict=True):
        owners[mask] = PARTS.index(part)
    return Scenes(whole, without, owners[:, 0])


def part_worths(model: nn.Module, spec: ModelSpec, scenes: Scenes) -> Float[Tensor, "scenes parts"]:
    """By how much the logit of the class answered for the whole scene falls without each part.

    On the CPU, in the order of PARTS.
    """
    falls = _falls(model, spec, scenes, together=1)
    return torch.stack([falls[part,] for part in PARTS], dim=1)


def pair_gaps(model: nn.Module, spec: ModelSpec, scenes: Scenes) -> Float[Tensor, "scenes pairs"]:
    """The fall without both parts of a pair less the worths of both: 0 where worths add up.

    In logits, in the order of PAIRS. `scenes` are drawn with pairs.
    """
    return _gaps(_falls(model, spec, scenes, together=2))


def _gaps(falls: Mapping[tuple[str, ...], Tensor]) -> Tensor:
    return torch.stack([falls[a, b] - falls[a,] - falls[b,] for a, b in PAIRS], dim=1)


def gap_pct(model: nn.Module, spec: ModelSpec, scenes: Scenes) -> float:
    """`pair_gaps` in percent of what the answer loses without the pairs, both without sign."""
    falls = _falls(model, spec, scenes, together=2)
    both = torch.stack([falls[pair] for pair in PAIRS], dim=1)
    return 100 * float(_gaps(falls).abs().nanmean() / both.abs().nanmean())


def shapley_worths(
    model: nn.Module, spec: ModelSpec, scenes: Scenes
) -> Float[Tensor, "scenes parts"]:
    """What each part is worth by Shapley's value: what it adds, over all orders in which they come.

    They add up to what the answer loses without all parts. A part of which no pixel is seen has
    none, as in `part_worths`. `scenes` are drawn also without each subset of PARTS.
    """
    falls = {(): 0.0, **_falls(model, spec, scenes, hidden=True)}
    values, number = [], len(PARTS)
    for part in PARTS:
        others = [parts for parts in falls if part not in parts]
        added = 0.0
        for parts in others:
            both = tuple(each for each in PARTS if each == part or each in parts)
            orders = math.factorial(len(parts)) * math.factorial(number - len(parts) - 1)
            added = added + orders / math.factorial(number) * (falls[both] - falls[parts])
        values.append(added)
    return torch.where(scenes.shown() > 0, torch.stack(values, dim=1), torch.nan)


def outside_pct(scenes: Scenes) -> Float[Tensor, "scenes parts"]:
    """Of the change of all pixels without a part, what lies outside its own, in percent."""
    shares = []
    for i, part in enumerate(PARTS):
        change = (scenes.whole.images.double() - scenes.without[part,]).abs().sum(dim=1)
        outside = (change * (scenes.owners != i)).sum(dim=(1, 2))
        shares.append(100 * outside / change.sum(dim=(1, 2)))  # 0 of 0: NaN
    return torch.where(scenes.shown() > 0, torch.stack(shares, dim=1), torch.nan)


def worth_maps(
    worths: Float[Tensor, "scenes parts"], scenes: Scenes
) -> Float[Tensor, "scenes 1 height width"]:
    """The heatmaps that tell the truth: each part's worth, spread evenly over its pixels."""
    pixels = scenes.shown() * scenes.owners[0].numel()
    each = worths.nan_to_num() / pixels.clamp_min(1)
    return each.gather(1, scenes.owners.flatten(1)).reshape(scenes.owners.shape)[:, None]


def known_maps(
    worths: Float[Tensor, "scenes parts"], scenes: Scenes, grid: tuple[int, int]
) -> dict[str, Tensor]:
    """Maps that explain nothing, and how well each may do.

    The true worths, seen through as few patches as a map has; the same everywhere, so that mass is
    area; and the animal's mask.
    """
    true = worth_maps(worths, scenes)
    by_patch = nn.functional.interpolate(true, grid, mode="area").flatten(1)
    animal = scenes.whole.masks.double()
    return {"(truth by patch)": by_patch, "(flat)": torch.ones_like(true), "(animal)": animal}


def worths_table(worths: Mapping[str, Float[Tensor, "scenes parts"]], dataset: str) -> pd.DataFrame:
    """The worths in several models of the same scenes: a column a part, model_run and dataset."""
    parts = [
        pd.DataFrame(each.numpy(), columns=PARTS).assign(model_run=run, dataset=dataset)
        for run, each in worths.items()
    ]
    return pd.concat(parts, ignore_index=True)


def part_masses(
    maps: Float[Tensor, "scenes patches"] | Float[Tensor, "scenes 1 height width"],
    scenes: Scenes,
    grid: tuple[int, int],
    zero: Zero = "own",
) -> Float[Tensor, "scenes parts"]:
    """The sum of each map over the pixels that show each part, counted from `zero`.

    Maps of a `grid` of patches become pixels by bilinear interpolation, without scaling. From its
    own zero a map is signed as it is. One that is the same everywhere has no least value to tell
    from the others, and keeps its own zero: its mass is area.
    """
    heat = maps.double()
    if maps.ndim == 2:
        heat = to_heatmap(heat, tuple(scenes.owners.shape[1:]), grid, normalise=False)
    if zero == "least":
        least, most = (end(dim=(1, 2, 3), keepdim=True) for end in (heat.amin, heat.amax))
        heat = torch.where(most > least, heat - least, heat)
    sums = [(heat[:, 0] * (scenes.owners == i)).sum(dim=(1, 2)) for i in range(len(PARTS))]
    return torch.stack(sums, dim=1)


def causal_scores(
    masses: Float[Tensor, "scenes parts"], worths: Float[Tensor, "scenes parts"]
) -> pd.DataFrame:
    """One row a scene: how well the masses tell the worths of the parts that are seen.

    `rank_correlation` is Spearman's, and `same_first_pct` 100 where the part worth most has
    most mass, else 0. A map with the same mass everywhere, or NaN, says nothing and has 0 in both.
    """
    seen = ~worths.isnan()
    both = (torch.where(seen, values, torch.nan) for values in (masses.nan_to_num(), worths))
    mass, worth = (scipy.stats.rankdata(values, axis=1, nan_policy="omit") for values in both)
    last = seen.sum(dim=1, keepdim=True).numpy()  # the rank of one that is alone at the top
    apart = [ranks - np.nanmean(ranks, axis=1, keepdims=True) for ranks in (mass, worth)]
    spread = np.sqrt(np.prod([np.nansum(each**2, axis=1) for each in apart], axis=0))
    common = np.nansum(apart[0] * apart[1], axis=1)
    correlation = np.divide(common, spread, out=np.zeros_like(common), where=spread > 0)
    first = ((mass == last) & (worth == last)).any(axis=1)
    return pd.DataFrame(dict(zip(SCORES, (correlation, 100.0 * first), strict=True)))


def shares_pct(values: Float[Tensor, "scenes parts"]) -> Float[Tensor, "scenes parts"]:
    """Each part's share of a scene's masses or worths, in percent.

    What is below zero speaks against the class, and counts as none. Where nothing speaks for it,
    all have 0.
    """
    speaks = values.nan_to_num(0, 0, 0).clamp_min(0)
    return 100 * speaks / speaks.sum(dim=1, keepdim=True).clamp_min(1e-12)


def worth_overlap_pct(
    masses: Float[Tensor, "scenes parts"], worths: Float[Tensor, "scenes parts"]
) -> Float[Tensor, " scenes"]:
    """Of each map's mass, the share that lies where the worth is, in percent.

    The overlap is the sum over parts of the smaller of both `shares_pct`: 100 of true worths, 0 of
    a map that has all its mass where no worth is, or NaN, or where nothing speaks for the class.
    So a part counts by its worth, and the order of two that are worth nothing, which is luck,
    counts as nothing; a rank correlation takes it for as much as any other.
    """
    return torch.minimum(shares_pct(masses), shares_pct(worths)).sum(dim=1)


def causal_table(
    masses: Mapping[str, Float[Tensor, "scenes parts"]], worths: Float[Tensor, "scenes parts"]
) -> pd.DataFrame:
    """The SCORES of each method with their 95 % intervals over scenes.

    Columns: method, score, scenes, value, low, high. Raises: as `mean_interval`.
    """
    rows = []
    for name, found in masses.items():
        each = causal_scores(found, worths)
        for score in SCORES:
            values = torch.tensor(each[score].to_numpy())
            ends = mean_interval(values, BOUNDS[score])
            rows.append((name, score, len(values), values.mean().item(), *ends))
    return pd.DataFrame(rows, columns=["method", "score", "scenes", "value", "low", "high"])


def causal_of_maps(
    maps: Mapping[str, Tensor],
    worths: Float[Tensor, "scenes parts"],
    scenes: Scenes,
    grid: tuple[int, int],
) -> pd.DataFrame:
    """The `causal_table` of maps, and of those of `known_maps` behind them, from both ZEROS.

    Columns: those of `causal_table`, and zero.
    """
    every, tables = {**maps, **known_maps(worths, scenes, grid)}, []
    for zero in ZEROS:
        masses = {name: part_masses(values, scenes, grid, zero) for name, values in every.items()}
        tables.append(causal_table(masses, worths).assign(zero=zero))
    return pd.concat(tables, ignore_index=True)


@torch.inference_mode()
def _falls(
    model: nn.Module,
    spec: ModelSpec,
    scenes: Scenes,
    *,
    together: int = len(PARTS),
    hidden: bool = False,
) -> dict[tuple[str, ...], Float[Tensor, " scenes"]]:
    """By how much the answer's logit falls without 1 to `together` parts; NaN where one is not
    seen. `hidden` tells those, too: what is hidden by one part may be seen without it.
    """
    device, seen = next(model.parameters()).device, scenes.shown() > 0

    def logits(images: Tensor) -> Tensor:
        parts = [model(spec.normalise(some.to(device))).cpu() for some in images.split(BATCH)]
        return torch.cat(parts).double()

    whole = logits(scenes.whole.images)
    answered = whole.argmax(dim=1, keepdim=True)
    falls = {}
    for parts, images in scenes.without.items():
        if len(parts) > together:
            continue
        fall = (whole - logits(images)).gather(1, answered)[:, 0]
        there = seen[:, [PARTS.index(part) for part in parts]].all(dim=1)
        falls[parts] = fall if hidden else torch.where(there, fall, torch.nan)
    return falls

"""Two phrases on one image (Beyond Intuition Fig. 7): does each point at its own object?"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from habitats.pairs import draw_pairs
from relevit.data.batch import Batch
from relevit.evaluate.looking import own_share_pct, points_at_own
from relevit.models.spec import ModelSpec
from relevit.protocols import Protocol
from relevit.text.clip.dual import CLIP_METHODS
from reproduction.language.encoders import Encoder
from reproduction.measures.methods import pair_maps
from reproduction.params.cells import Params

COLUMNS = ["model", "seed", "classes", "method", "images"]
COLUMNS += ["own_object_pct", "low_pct", "high_pct"]
PairMaps = Float[Tensor, "pairs 2 patches"]


def group_pairs(cfg: Params, encoder: Encoder, size: int) -> Batch:
    """`cfg.pairs` images with two objects for each group, both of the group's classes."""
    groups = [torch.tensor(list(part)) for part in encoder.groups.values()]
    for turn in itertools.count(3):  # of half of the classes are a quarter of the pairs
        pool = draw_pairs(cfg.pairs * 2**turn, seed=cfg.seed, size=size)
        found = [torch.isin(pool.labels, group).all(dim=1).nonzero()[:, 0] for group in groups]
        if min(map(len, found)) >= cfg.pairs:
            break
    return pool.select(torch.cat([places[: cfg.pairs] for places in found]))


def likely_pairs(classifier: nn.Module, spec: ModelSpec, batch: Batch, count: int) -> Batch:
    """The first `count` images (or all) with the two classes they are most similar to.

    These stand in for two known objects. The masks are empty: where photographs show what is not
    known.
    """
    images = batch.images[:count]
    device = next(classifier.parameters()).device
    with torch.no_grad():
        logits = classifier(spec.normalise(images.to(device)))
    masks = torch.zeros(len(images), 2, *images.shape[-2:], dtype=torch.bool)
    return Batch(images, masks, logits.topk(2, dim=1).indices.cpu())


def phrase_maps(
    classifier: nn.Module,
    spec: ModelSpec,
    pairs: Batch,
    *,
    protocol: Protocol = "published",
    on_part: Callable[[int], object] = lambda count: None,
) -> dict[str, PairMaps]:
    """For each of CLIP_METHODS, the maps of both phrases on each image, on the CPU.

    `classifier` is `DualEncoder.image_classifier` with a phrase for each class of the labels. A map
    without any positive value, NaN as published (differences C19), is zero.
    `on_part` hears how many phrases were explained.
    """
    both = pair_maps(classifier, spec, pairs, CLIP_METHODS, protocol, on_part=on_part)
    return {name: values.nan_to_num(nan=0.0) for name, values in both.items()}


def pointing(
    cfg: Params, encoder: Encoder, pairs: Batch, maps: Mapping[str, PairMaps], grid: tuple[int, int]
) -> pd.DataFrame:
    """The pointing game with one phrase for each object; a pair counts for the group of both.

    Columns: COLUMNS; images counts explanations, own_object_pct is 50 by chance
    (`relevit.evaluate.looking`). There are no rows of photographs, whose pairs have no masks.
    """
    own = {name: points_at_own(pairs, both, grid) for name, both in maps.items()}
    rows = []
    for group, classes in encoder.groups.items() if bool(pairs.masks.any()) else ():
        inside = torch.isin(pairs.labels, torch.tensor(list(classes))).all(dim=1, keepdim=True)
        counted = inside.expand(-1, 2)
        for name, right in own.items():
            about = (cfg.dual_model, encoder.seed, group, name, int(counted.sum()))
            rows.append((*about, *own_share_pct(right, counted)))
    return pd.DataFrame(rows, columns=COLUMNS)

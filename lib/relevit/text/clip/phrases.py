"""Two phrases on one image (Beyond Intuition Fig. 7): does each point at its own object?

And what the published settings for CLIP change in the maps (differences D11, D12).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attribution import METHODS, method_options
from relevit.attribution.beyond_intuition import express_all
from relevit.config import ClipParams
from relevit.data.batch import Batch
from relevit.data.pairs import draw_pairs
from relevit.evaluate.methods import shared_maps
from relevit.evaluate.pointing import own_share_pct, points_at_own
from relevit.models.spec import ModelSpec
from relevit.protocols import Protocol
from relevit.text.clip.dual import CLIP_METHODS
from relevit.text.clip.encoders import Encoder
from relevit.text.token_maps import rank_correlation

RECOGNISED = 3  # best phrases of an image, which has two objects and a background
COLUMNS = ["model", "seed", "classes", "phrases", "method", "images"]
COLUMNS += ["own_object_pct", "low_pct", "high_pct"]
PairMaps = Float[Tensor, "pairs 2 patches"]


def group_pairs(cfg: ClipParams, encoder: Encoder, size: int) -> Batch:
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
    rules = {"protocol": protocol, "on_part": on_part}
    sides = [
        shared_maps(classifier, spec, pairs.images, CLIP_METHODS, target=target, **rules)
        for target in pairs.labels.T
    ]
    both = {name: torch.stack([side[name] for side in sides], dim=1) for name in CLIP_METHODS}
    return {name: values.nan_to_num(nan=0.0) for name, values in both.items()}


def pointing(
    cfg: ClipParams,
    encoder: Encoder,
    pairs: Batch | None,
    maps: Mapping[str, PairMaps],
    logits: Float[Tensor, "pairs classes"],
    grid: tuple[int, int],
) -> pd.DataFrame:
    """The pointing game with one phrase for each object; a pair counts for the group of both.

    Two tables in one: of `all` phrases, and of those that are `recognised`, among the RECOGNISED
    most similar to the image (`logits`) out of the group's. A map cannot be better than what it
    explains: where the encoder does not see the object, there is nothing to point at.
    Columns: COLUMNS; images counts explanations, own_object_pct is 50 by chance
    (`relevit.evaluate.pointing`). What has no explanation has no row; there is none without pairs.
    """
    if pairs is None:
        return pd.DataFrame(columns=COLUMNS)
    own = {name: points_at_own(pairs, both, grid) for name, both in maps.items()}
    rows = []
    for group, classes in encoder.groups.items():
        inside = torch.isin(pairs.labels, torch.tensor(list(classes))).all(dim=1, keepdim=True)
        known = phrase_ranks(logits, pairs.labels, classes) < RECOGNISED
        kinds = {"all": inside.expand(-1, 2), "recognised": inside & known}
        for kind, counted in kinds.items():
            about = (cfg.dual_model, encoder.seed, group, kind)
            count = int(counted.sum())
            for name, right in own.items() if count else ():
                rows.append((*about, name, count, *own_share_pct(right, counted)))
    return pd.DataFrame(rows, columns=COLUMNS)


def phrase_ranks(
    logits: Float[Tensor, "pairs classes"],
    labels: Int[Tensor, "pairs 2"],
    candidates: Sequence[int],
) -> Int[Tensor, "pairs 2"]:
    """How many of the candidates' phrases are more similar to the image than each of its two."""
    others = logits[:, list(candidates)].cpu()
    return (others[:, None] > logits.cpu().gather(1, labels)[:, :, None]).sum(dim=2)


def first_of_groups(
    pairs: Batch, maps: Mapping[str, PairMaps], groups: int, count: int
) -> list[tuple[Batch, dict[str, Float[Tensor, "some 2 patches"]]]]:
    """The first `count` pairs of each group (or all of it), with their maps.

    The groups have as many pairs each, one group after the other (`group_pairs`).
    """
    each = len(pairs) // groups
    rows = [range(i * each, i * each + min(count, each)) for i in range(groups)]
    return [
        (pairs.select(part), {name: both[list(part)] for name, both in maps.items()})
        for part in rows
    ]


def setting_maps(
    classifier: nn.Module, spec: ModelSpec, pairs: Batch
) -> dict[tuple[str, str, int], PairMaps]:
    """Both variants as published for CLIP, and with what differences D11 and D12 name undone.

    Keys: method, setting, first block. A map is perception times feedback, entry by entry, and only
    perception differs: gradients along the path, which take nearly all of the time, are taken once.
    Everything else is as published. For a head that reads the class token.
    """
    # and head_wise
    start = method_options(classifier, "token_wise", "published")["start_block"]
    plain = {"after_attention": False}  # the tokens before the block, Z of Eq. 14, as for images
    rules = {
        ("token_wise", "published", start): {},
        ("token_wise", "values of Z (D12)", start): plain,
        ("token_wise", "all blocks (D11)", 1): {},
        ("token_wise", "both", 1): plain,
        ("head_wise", "published", start): {},
        ("head_wise", "all blocks (D11)", 1): {},
    }
    pixels = spec.normalise(pairs.images.to(next(classifier.parameters()).device))
    maps: dict[tuple[str, str, int], list[Tensor]] = {rule: [] for rule in rules}
    for target in pairs.labels.to(pixels.device).T:
        alone = [("none", "integrated_gradient")]
        [feedback] = express_all(classifier, pixels, target, pairs=alone, rules={})
        for (method, setting, start), own in rules.items():
            perception = METHODS[method](
                classifier, pixels, target, feedback="none", start_block=start, **own
            )
            made = (perception * feedback).nan_to_num(nan=0.0).cpu()
            maps[method, setting, start].append(made)
    return {rule: torch.stack(sides, dim=1) for rule, sides in maps.items()}


def settings_table(
    pairs: Batch, maps: Mapping[tuple[str, str, int], PairMaps], grid: tuple[int, int]
) -> pd.DataFrame:
    """How far `setting_maps` agree with those as published, and where they point.

    Columns: method, setting, first_block, same_order (Spearman's correlation over patches with the
    map as published, mean over maps; NaN where all are constant), same_top_pct (maps whose highest
    patch is the same), and, where the pairs have masks, own_object_pct of the pointing game.
    """
    published = {method: made for (method, kind, _), made in maps.items() if kind == "published"}
    rows = []
    for (method, setting, start), made in maps.items():
        usual = published[method]
        top = (made.argmax(dim=-1) == usual.argmax(dim=-1)).double().mean().item()
        pairs_of_maps = zip(made.flatten(0, 1), usual.flatten(0, 1), strict=True)
        order = pd.Series([rank_correlation(*two) for two in pairs_of_maps]).mean()
        rows.append((method, setting, start, order, 100 * top))
    columns = ["method", "setting", "first_block", "same_order", "same_top_pct"]
    table = pd.DataFrame(rows, columns=columns)
    if bool(pairs.masks.any()):
        own = (points_at_own(pairs, made, grid) for made in maps.values())
        table["own_object_pct"] = [own_share_pct(right)[0] for right in own]
    return table

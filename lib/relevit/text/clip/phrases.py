"""Two phrases on one image (Beyond Intuition Fig. 7): does each point at its own object?

And what the published settings for CLIP change in the maps (differences D11, D12).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from relevit.attribution.beyond_intuition import express
from relevit.attribution.observe import first_block
from relevit.config import ClipParams
from relevit.data.batch import Batch
from relevit.data.pairs import Pairs, draw_pairs
from relevit.evaluate.methods import BATCH, shared_maps
from relevit.evaluate.pointing import own_share_pct, points_at_own
from relevit.models.spec import ModelSpec
from relevit.relevance import Protocol
from relevit.text.clip.dual import CLIP_METHODS, check_methods
from relevit.text.clip.encoders import Encoder
from relevit.text.token_maps import rank_correlation

RECOGNISED = 3  # best phrases of an image, which has two objects and a background
ROUNDS = 8  # of draws that look for pairs of a group
PairMaps = Float[Tensor, "pairs 2 patches"]


def group_pairs(cfg: ClipParams, encoder: Encoder, size: int) -> Pairs:
    """`cfg.pairs` images with two objects for each group, both of the group's classes.

    Raises: ValueError when they do not come up.
    """
    for turn in range(ROUNDS):
        pool = draw_pairs(cfg.pairs * 2 ** (turn + 3), seed=cfg.seed, size=size)
        inside = [
            torch.isin(pool.labels, torch.tensor(list(part))).all(dim=1)
            for part in encoder.groups.values()
        ]
        if min(int(mask.sum()) for mask in inside) >= cfg.pairs:
            keep = torch.cat([mask.nonzero()[: cfg.pairs, 0] for mask in inside])
            return pool.select(keep)
    raise ValueError(
        f"12_clip: pairs = {cfg.pairs} of classes in {list(encoder.groups)}: too few came up; "
        "take fewer pairs"
    )


def likely_pairs(classifier: nn.Module, spec: ModelSpec, batch: Batch, count: int) -> Pairs:
    """The first `count` images (or all) with the two classes they are most similar to.

    These stand in for two known objects. The masks are empty: where photographs show what is not
    known.
    """
    batch = batch.select(range(len(batch))[:count])
    device = next(classifier.parameters()).device
    with torch.no_grad():
        logits = classifier(spec.normalise(batch.images.to(device)))
    masks = torch.zeros(len(batch), 2, *batch.images.shape[-2:], dtype=torch.bool)
    return Pairs(batch.images, masks, logits.topk(2, dim=1).indices.cpu())


def phrase_maps(
    classifier: nn.Module,
    spec: ModelSpec,
    pairs: Pairs,
    methods: Iterable[str] = CLIP_METHODS,
    *,
    protocol: Protocol = "published",
    on_part: Callable[[int], object] = lambda count: None,
) -> dict[str, Float[Tensor, "pairs 2 patches"]]:
    """For each method, the maps of both phrases on each image, on the CPU.

    `classifier` is `DualEncoder.image_classifier` with a phrase for each class of the labels. A map
    without any positive value, NaN as published (differences C19), is zero.
    Raises: ValueError for a method that CLIP has not or a model whose answers are not finite,
    before any work, and as the methods do. `on_part` hears how many phrases were explained.
    """
    methods = tuple(methods)
    check_methods("phrase_maps", methods)
    device = next(classifier.parameters()).device
    for start, images in enumerate(pairs.images.split(BATCH)):
        _need_answers(classifier, spec.normalise(images.to(device)), start * BATCH)
    sides = [
        shared_maps(
            classifier,
            spec,
            pairs.images,
            methods,
            target=target,
            protocol=protocol,
            on_part=on_part,
        )
        for target in pairs.labels.T
    ]
    both = {name: torch.stack([side[name] for side in sides], dim=1) for name in methods}
    return {name: values.nan_to_num(nan=0.0) for name, values in both.items()}


def phrase_pointing(
    pairs: Pairs,
    maps: Mapping[str, Float[Tensor, "pairs 2 patches"]],
    groups: Mapping[str, Sequence[int]],
    logits: Float[Tensor, "pairs classes"] | None = None,
) -> pd.DataFrame:
    """The pointing game with one phrase for each object, for pairs of classes of each group.

    A pair counts in a group when both of its objects are of the group's classes. With the pairs'
    `logits` there are two tables in one: of all phrases, and of those that are `recognised`, among
    the RECOGNISED most similar to the image out of the group's. A map cannot be better than what
    it explains: where the encoder does not see the object, there is nothing to point at.
    Columns: group, phrases (all, recognised), method, explanations, own_object_pct,
    standard_error_pts (over images). Chance is 50 %, as in `relevit.evaluate.pointing`. What has
    no explanation has no row.
    Raises: ValueError when no group has a pair, or for maps of other pairs.
    """
    lengths = {name: len(values) for name, values in maps.items()}
    if set(lengths.values()) - {len(pairs)}:
        raise ValueError(
            f"phrase_pointing: {len(pairs)} pairs, maps of {lengths}; give those of phrase_maps"
        )
    own = {name: _points_at_own(pairs, both) for name, both in maps.items()}
    rows = []
    for group, classes in groups.items():
        inside = torch.isin(pairs.labels, torch.tensor(list(classes)))
        kinds = {"all": inside.all(dim=1, keepdim=True).expand(-1, 2)}
        if logits is not None:
            seen = phrase_ranks(logits, pairs.labels, classes) < RECOGNISED
            kinds["recognised"] = kinds["all"] & seen
        for kind, counted in kinds.items():
            count = int(counted.sum())
            for name, right in own.items() if count else ():
                rows.append((group, kind, name, count, *own_share_pct(right, counted)))
    if not rows:
        raise ValueError(
            f"phrase_pointing: none of {len(pairs)} pairs has both classes in one of "
            f"{list(groups)}; draw more pairs, or give larger groups"
        )
    columns = ["group", "phrases", "method", "explanations", "own_object_pct"]
    return pd.DataFrame(rows, columns=[*columns, "standard_error_pts"])


def phrase_ranks(
    logits: Float[Tensor, "pairs classes"],
    labels: Int[Tensor, "pairs 2"],
    candidates: Sequence[int],
) -> Int[Tensor, "pairs 2"]:
    """How many of the candidates' phrases are more similar to the image than each of its two."""
    others = logits[:, list(candidates)].cpu()
    return (others[:, None] > logits.cpu().gather(1, labels)[:, :, None]).sum(dim=2)


def pointing(
    cfg: ClipParams,
    encoder: Encoder,
    pairs: Pairs | None,
    maps: Mapping[str, Tensor],
    logits: Float[Tensor, "pairs classes"] | None = None,
) -> pd.DataFrame:
    """`phrase_pointing` with the names that claims read; empty, with its columns, without pairs.

    Rows whose `phrases` are recognised are of those that the image's `logits` rank high.
    """
    columns = [
        "model",
        "seed",
        "classes",
        "phrases",
        "method",
        "images",
        "own_object_pct",
        "standard_error_pts",
    ]
    if pairs is None:
        return pd.DataFrame(columns=columns)
    table = phrase_pointing(pairs, maps, encoder.groups, logits)
    table = table.rename(columns={"group": "classes", "explanations": "images"})
    return table.assign(model=cfg.dual_model, seed=encoder.seed)[columns]


def first_of_groups(
    pairs: Pairs, maps: Mapping[str, Float[Tensor, "pairs 2 patches"]], groups: int, count: int
) -> list[tuple[Pairs, dict[str, Float[Tensor, "some 2 patches"]]]]:
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
    classifier: nn.Module, spec: ModelSpec, pairs: Pairs
) -> dict[tuple[str, str, int], Float[Tensor, "pairs 2 patches"]]:
    """Both variants as published for CLIP, and with what differences D11 and D12 name undone.

    Keys: method, setting, first block. A map is perception times feedback, entry by entry, and only
    perception differs: gradients along the path, which take nearly all of the time, are taken once.
    Everything else is as published. For a head that reads the class token.
    """
    # Without the family the tokens before the block are taken, Z of Eq. 14, as for images.
    plain = copy.copy(classifier)
    plain.family = "vit"
    starts = {
        name: first_block(classifier, None, "published", name)
        for name in ("token_wise", "head_wise")
    }
    rules = {
        ("token_wise", "published", starts["token_wise"]): classifier,
        ("token_wise", "values of Z (D12)", starts["token_wise"]): plain,
        ("token_wise", "all blocks (D11)", 1): classifier,
        ("token_wise", "both", 1): plain,
        ("head_wise", "published", starts["head_wise"]): classifier,
        ("head_wise", "all blocks (D11)", 1): classifier,
    }
    device = next(classifier.parameters()).device
    pixels = spec.normalise(pairs.images.to(device))
    maps: dict[tuple[str, str, int], list[Tensor]] = {rule: [] for rule in rules}
    for target in pairs.labels.to(device).T:
        feedback = express(classifier, pixels, target, perception="none")
        for (method, setting, start), model in rules.items():
            perception = express(
                model, pixels, target, perception=method, feedback="none", start_block=start
            )
            made = (perception * feedback).nan_to_num(nan=0.0).cpu()
            maps[method, setting, start].append(made)
    return {rule: torch.stack(sides, dim=1) for rule, sides in maps.items()}


def settings_table(
    pairs: Pairs, maps: Mapping[tuple[str, str, int], Float[Tensor, "pairs 2 patches"]]
) -> pd.DataFrame:
    """How far `setting_maps` agree with those as published, and where they point.

    Columns: method, setting, first_block, same_order (Spearman's correlation over patches with the
    map as published, mean over maps; NaN where all are constant), same_top_pct (maps whose highest
    patch is the same), and, where the pairs have masks, own_object_pct of the pointing game.
    """
    rows = []
    for (method, setting, start), made in maps.items():
        published = next(
            v for (name, kind, _), v in maps.items() if (name, kind) == (method, "published")
        )
        same = (made.argmax(dim=-1) == published.argmax(dim=-1)).double().mean().item()
        orders = map(rank_correlation, made.flatten(0, 1), published.flatten(0, 1))
        known = [order for order in orders if not np.isnan(order)]
        order = float(np.mean(known)) if known else float("nan")
        rows.append((method, setting, start, order, 100 * same))
    columns = ["method", "setting", "first_block", "same_order", "same_top_pct"]
    table = pd.DataFrame(rows, columns=columns)
    if bool(pairs.masks.any()):
        own = (_points_at_own(pairs, made) for made in maps.values())
        table["own_object_pct"] = [own_share_pct(right)[0] for right in own]
    return table


def _points_at_own(pairs: Pairs, maps: PairMaps) -> Bool[Tensor, "pairs 2"]:
    """Whether each phrase's map points at its own object, as `pointing_table` decides it."""
    return torch.stack([points_at_own(pairs, maps[:, i], i) for i in (0, 1)], dim=1)


@torch.no_grad()
def _need_answers(classifier: nn.Module, pixels: Tensor, first: int) -> None:
    """Raise ValueError unless all similarities are finite: a NaN map is then C19's, no fault."""
    finite = classifier(pixels).isfinite().all(dim=1)
    if not bool(finite.all()):
        raise ValueError(
            f"phrase_maps: image {first + int(finite.int().argmin())}: the model's similarities "
            "are not finite (NaN or infinite), so no map would mean anything; check its weights "
            "and what was trained, or run it in float32"
        )

"""What the published settings for CLIP change, and which words the text side finds."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor, nn

from relevit.attribution.beyond_intuition import express
from relevit.attribution.observe import first_block
from relevit.data.textures import FAMILIES
from relevit.evaluate.pointing import Pairs, pointing_table
from relevit.models.spec import ModelSpec
from relevit.text.clip.captions import COLOURS, names
from relevit.text.clip.dual import CLIP_METHODS, DualEncoder
from relevit.text.clip.phrases import word_attributions, word_table
from relevit.text.tokens import Tokens

# Beside the class, what a caption says: "a red bus on sand".
WORDS = {"colour": COLOURS, "background": tuple(family.name for family in FAMILIES)}


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


def first_of_groups(
    pairs: Pairs, maps: Mapping[str, Float[Tensor, "pairs 2 patches"]], groups: int, count: int
) -> list[tuple[Pairs, dict[str, Float[Tensor, "some 2 patches"]]]]:
    """The first `count` pairs of each group (or all of it), with their maps.

    The groups have as many pairs each, one group after the other (`experiment.group_pairs`).
    """
    each = len(pairs) // groups
    rows = [range(i * each, i * each + min(count, each)) for i in range(groups)]
    return [
        (pairs.select(part), {name: both[list(part)] for name, both in maps.items()})
        for part in rows
    ]


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
        rows.append((method, setting, start, _same_order(made, published), 100 * same))
    columns = ["method", "setting", "first_block", "same_order", "same_top_pct"]
    table = pd.DataFrame(rows, columns=columns)
    if bool(pairs.masks.any()):
        first = pairs.labels[:, 0]
        explain = {
            str(i): partial(
                lambda both, target: torch.where(
                    (target == first)[:, None], both[:, 0], both[:, 1]
                ),
                made,
            )
            for i, made in enumerate(maps.values())
        }
        table["own_object_pct"] = pointing_table(pairs, explain)["own_object_pct"]
    return table


def word_shares(
    dual: DualEncoder,
    texts: Sequence[Tokens],
    image_features: Float[Tensor, "texts width"],
    methods: Sequence[str] = CLIP_METHODS,
    kinds: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """`word_table` of each method for captions held against their own images, with its name."""
    kinds = {"class": names()} | WORDS if kinds is None else kinds
    parts = []
    for method in methods:
        maps = word_attributions(dual, texts, image_features, method)
        parts.append(word_table(texts, maps, kinds).assign(method=method))
    return pd.concat(parts, ignore_index=True)


def _same_order(made: Tensor, published: Tensor) -> float:
    pairs = zip(made.flatten(0, 1).numpy(), published.flatten(0, 1).numpy(), strict=True)
    found = [
        spearmanr(*pair).statistic
        for pair in pairs
        if all(len(np.unique(values)) > 1 for values in pair)
    ]
    return float(np.mean(found)) if found else float("nan")

"""Two phrases on one image (Beyond Intuition Fig. 7): does each point at its own object?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.data.foregrounds import CLASSES
from relevit.evaluate.methods import BATCH, shared_maps

# What decides `two_objects.pointing_table`, here for each phrase apart.
from relevit.evaluate.pointing import Pairs, own_share_pct, points_at_own
from relevit.models.spec import ModelSpec
from relevit.relevance import Protocol
from relevit.text.attribute import attribute
from relevit.text.clip.captions import class_of_caption
from relevit.text.clip.dual import CLIP_METHODS, DualEncoder, check_methods
from relevit.text.tokens import Tokens

RECOGNISED = 3  # best phrases of an image, which has two objects and a background


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
    standard_error_pts (over images). Chance is 50 %, as in `two_objects.pointing_table`. What has
    no explanation has no row.
    Raises: ValueError when no group has a pair, or for maps of other pairs.
    """
    lengths = {name: len(values) for name, values in maps.items()}
    if set(lengths.values()) - {len(pairs)}:
        raise ValueError(
            f"phrase_pointing: {len(pairs)} pairs, maps of {lengths}; give those of phrase_maps"
        )
    own = {
        name: torch.stack([points_at_own(pairs, both[:, i], i) for i in (0, 1)], dim=1)
        for name, both in maps.items()
    }
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


def phrase_targets(phrases: Sequence[str], classes: Sequence[str] = CLASSES) -> Int[Tensor, " n"]:
    """The class that each phrase names. Raises: ValueError as `class_of_caption`."""
    return torch.tensor([class_of_caption(text, classes) for text in phrases])


def word_attributions(
    dual: DualEncoder,
    texts: Sequence[Tokens],
    image_features: Float[Tensor, "texts width"],
    method: str,
    *,
    protocol: Protocol = "published",
) -> list[Float[Tensor, " tokens"]]:
    """What each token of each text contributes to the similarity to its own image.

    The other side of Fig. 7: `image_features[i]` is the image that text i is held against. Special
    tokens get 0. Raises: ValueError for another number of images, and as `attribute`.
    """
    if len(image_features) != len(texts):
        raise ValueError(
            f"word_attributions: {len(texts)} texts and {len(image_features)} images; give one "
            "image's features for each text"
        )
    check_methods("word_attributions", [method])
    classifier = dual.text_classifier(image_features)
    target = torch.arange(len(texts))
    return attribute(classifier, texts, method, target, protocol=protocol)


def word_table(
    texts: Sequence[Tokens],
    maps: Sequence[Float[Tensor, " tokens"]],
    kinds: Mapping[str, Sequence[str]],
) -> pd.DataFrame:
    """Which words of captions a method finds: one row a kind of word, and one for all others.

    `kinds` has the words of each kind ("class": names of classes, "colour": ...). A text's values,
    negative ones as 0, are divided by their sum. Columns: kind, tokens (of all texts), share_pct
    (mean over texts of what the kind's tokens have of the sum), highest_pct (of the texts, those
    whose highest token is of this kind). Texts without any positive value are left out.
    """
    lists = {kind: {w for word in words for w in _letters(word)} for kind, words in kinds.items()}
    rows = {kind: [0, 0.0, 0] for kind in (*kinds, "other")}
    counted = 0
    for text, values in zip(texts, maps, strict=True):
        found = [_kind(text, i, lists) for i in range(len(text))]
        values = values.nan_to_num(nan=0.0).clamp(min=0)
        total = float(values.sum())
        counted += total > 0
        for place, kind in enumerate(found):
            if kind is None or total <= 0:
                continue
            rows[kind][0] += 1
            rows[kind][1] += float(values[place]) / total
        if total > 0:
            rows[found[int(values.argmax())]][2] += 1
    most = max(counted, 1)
    table = [
        (kind, n, 100 * share / most, 100 * top / most) for kind, (n, share, top) in rows.items()
    ]
    return pd.DataFrame(table, columns=["kind", "tokens", "share_pct", "highest_pct"])


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


def _letters(word: str) -> list[str]:
    return word.lower().replace("-", " ").split()


def _kind(text: Tokens, place: int, lists: Mapping[str, set[str]]) -> str | None:
    """The kind of the word that a token is a part of; None for special tokens."""
    if text.special[place]:
        return None
    start, stop = text.offsets[place]
    while start > 0 and text.text[start - 1].isalnum():
        start -= 1
    while stop < len(text.text) and text.text[stop].isalnum():
        stop += 1
    word = text.text[start:stop].strip().lower()
    return next((kind for kind, words in lists.items() if word in words), "other")

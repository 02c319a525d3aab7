"""Zero-shot: answers sought among prompts, for classes with captions and classes without.

Source: Beyond Intuition Sec. 4.2 (CLIP ViT-B/32, zero-shot on ImageNet), Table 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize

from relevit.config import ClipParams
from relevit.data.batch import Batch
from relevit.evaluate.intervals import bootstrap_interval
from relevit.evaluate.methods import perturb, perturb_by_label, shared_maps
from relevit.evaluate.perturbation import SHARES_PCT, Rule, auc_table, auc_weights
from relevit.models.spec import ModelSpec
from relevit.paper.attribution import METHOD_NAMES, TARGET_NAMES
from relevit.paper.published import read_table
from relevit.relevance import Protocol
from relevit.text.clip.captions import Captioned, captioned
from relevit.text.clip.dual import CLIP_METHODS, DualEncoder, check_methods
from relevit.text.clip.encoders import ALL, SEEN, UNSEEN, Encoder
from relevit.text.clip.joining import Examples

TARGETS = ("predicted", "label")


def held_out(cfg: ClipParams, spec: ModelSpec) -> Captioned:
    """Cutouts of `val`, which no training has, with what could be written below them."""
    return captioned("val", range(cfg.held_out_images), seed=cfg.seed, size=spec.image_size)


def projected(encoder: Encoder, shown: Examples) -> Float[Tensor, "images features"]:
    """Image features out of what the tower, run once for all seeds, made of the images."""
    with torch.no_grad():
        return normalize(encoder.dual.image_projection(shown.features), dim=1)


def embed_batches(
    dual: DualEncoder, batches: Iterable[Batch]
) -> tuple[Float[Tensor, "images features"], Int[Tensor, " images"]]:
    """Features and labels of images that come batch by batch; those of unknown class left out."""
    like, found = next(dual.parameters()), []
    for batch in batches:
        known = batch.select(batch.labels >= 0)
        if len(known):
            pixels = dual.spec.normalise(known.images, like=like)
            found.append((dual.embed_images(pixels), known.labels))
    if not found:
        raise ValueError("12_clip: no image with a known class; choose other held_out_images")
    features, labels = zip(*found, strict=True)
    return torch.cat(features), torch.cat(labels)


def zero_shot_hits(
    image_features: Float[Tensor, "images features"],
    text_features: Float[Tensor, "classes features"],
    labels: Int[Tensor, " images"],
    candidates: Sequence[int],
) -> Bool[Tensor, " images"]:
    """Whether the most similar of the candidates' texts is the label's.

    Raises: ValueError for a label that is no candidate, or a candidate without a text.
    """
    places = torch.tensor(list(candidates))
    lost = labels[~torch.isin(labels, places)].unique().tolist()
    if lost or bool(((places < 0) | (places >= len(text_features))).any()):
        raise ValueError(
            f"zero_shot: labels {lost[:5]} are not among the candidates {list(candidates)[:5]}..., "
            f"or these are not among the {len(text_features)} texts; give images of the "
            "candidates alone, and a text for each class"
        )
    logits = image_features @ text_features[places.to(text_features.device)].T
    return places[logits.argmax(dim=1).cpu()] == labels


def zero_shot_table(
    image_features: Float[Tensor, "images features"],
    text_features: Float[Tensor, "classes features"],
    labels: Int[Tensor, " images"],
    groups: Mapping[str, Sequence[int]],
    seed: int = 0,
    *,
    by_class: bool = True,
) -> pd.DataFrame:
    """Accuracy within each group of classes, against chance.

    The answer is sought among the group's classes alone, so that chance is one in as many.
    Columns: group, classes, images, accuracy_pct, low_pct, high_pct, chance_pct. The mean is over
    classes and the interval holds 95 % of the bootstrap over them, not over images: there is one
    drawing of a class, and a class is known or is not. Without `by_class` both are over images,
    and a class may have none.
    Raises: ValueError for a group of fewer than two classes or without images of one.
    """
    rows = []
    for name, classes in groups.items():
        absent = sorted(set(classes) - set(labels.tolist()))
        if by_class and (len(classes) < 2 or absent):
            raise ValueError(
                f"zero_shot: group {name!r} of {len(classes)} classes, without images: "
                f"{absent[:5]}; give two classes or more, and images of each"
            )
        keep = torch.isin(labels, torch.tensor(list(classes)))
        hits = zero_shot_hits(
            image_features[keep.to(image_features.device)], text_features, labels[keep], classes
        )
        right = 100 * hits.double()
        if by_class:
            right = torch.stack([right[labels[keep] == c].mean() for c in classes])
        interval = bootstrap_interval(right, seed=seed)
        counts = (len(classes), int(keep.sum()))
        rows.append((name, *counts, right.mean().item(), *interval, 100 / len(classes)))
    columns = ["group", "classes", "images", "accuracy_pct", "low_pct", "high_pct", "chance_pct"]
    return pd.DataFrame(rows, columns=columns)


def zero_shot_rows(
    cfg: ClipParams,
    encoder: Encoder,
    images: Float[Tensor, "images features"],
    labels: Int[Tensor, " images"],
    phrases: Sequence[str] | None = None,
) -> pd.DataFrame:
    """`zero_shot_table` of the encoder's groups: model, seed, classes (the group), candidates."""
    texts, groups = encoder.texts(phrases), encoder.groups
    table = zero_shot_table(images, texts, labels, groups, cfg.seed, by_class=ALL not in groups)
    table = table.rename(columns={"classes": "candidates", "group": "classes"})
    table.insert(0, "seed", encoder.seed)
    table.insert(0, "model", cfg.dual_model)
    return table


def erased_group(zero_shot: pd.DataFrame, seed: int) -> str:
    """The group whose images are to be erased: UNSEEN where its interval is above chance.

    Else SEEN: of an encoder that guesses nothing can be erased. ALL where that is the only one.
    """
    rows = zero_shot[zero_shot["seed"] == seed].set_index("classes")
    if ALL in rows.index:
        return ALL
    unseen = rows.loc[UNSEEN]
    return UNSEEN if unseen["low_pct"] > unseen["chance_pct"] else SEEN


def erased_images(
    cfg: ClipParams, encoder: Encoder, group: str, batch: Batch
) -> tuple[nn.Module, Batch]:
    """A classifier of the classes of a group, and `cfg.images` images of these.

    Labels are places among the group's prompts. Raises: ValueError without such an image.
    """
    classes = torch.tensor(list(encoder.groups[group]))
    places = torch.isin(batch.labels, classes).nonzero()[: cfg.images, 0]
    if not len(places):
        raise ValueError(f"12_clip: no image of the classes {group}; draw more images")
    chosen = batch.select(places)
    labels = torch.searchsorted(classes, chosen.labels)
    chosen = Batch(chosen.images, chosen.masks, labels, chosen.families)
    return encoder.classifier([encoder.prompts[i] for i in classes]), chosen


def zero_shot_perturbation(
    classifier: nn.Module,
    spec: ModelSpec,
    batch: Batch,
    methods: Iterable[str] = CLIP_METHODS,
    *,
    protocol: Protocol = "published",
    on_method: Callable[[], object] = lambda: None,
    **options: Any,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The perturbation test on an image classifier made of prompts, as Beyond Intuition Table 3.

    `classifier` is `DualEncoder.image_classifier`. The paper's own script for CLIP erases to the
    mean colour, and measures 100 % erased, too, instead of setting it to 0 (differences E7). The
    former is the default here; the latter is done as published, where shares must end with 100. As
    described the area is the mean over the masked inputs (E6), of 10 % to 90 % erased by default.
    `options` as `perturbation_rows`. Each map is for the predicted class and, under target
    `label`, for the right one.
    Returns: the rows of `perturb` with target; and the areas: method, direction, images,
    auc_pct, standard_error_pts, target.
    Raises: ValueError for an unknown method or one that CLIP has not, and as the test.
    """
    methods = tuple(methods)
    check_methods("zero_shot", methods)
    whole = protocol == "published"
    rule: Rule = "measured" if whole else "described"
    shares = (*SHARES_PCT, 100) if whole else SHARES_PCT
    options = {"fill": "mean", "shares_pct": shares} | options
    auc_weights([0, *options["shares_pct"]], rule)  # refuses shares before the work
    maps = shared_maps(classifier, spec, batch.images, methods, protocol=protocol)
    predicted = perturb(classifier, spec, batch, maps, on_method, **options)
    by_label = perturb_by_label(classifier, spec, batch, predicted, protocol=protocol, **options)
    parts = dict(zip(TARGETS, (predicted, by_label), strict=True))
    areas = [
        auc_table(rows[rows["method"] == name], rule).assign(method=name, target=target)
        for target, rows in parts.items()
        for name in methods
    ]
    columns = ["method", "direction", "images", "auc_pct", "standard_error_pts", "target"]
    rows = [rows.assign(target=target) for target, rows in parts.items()]
    return pd.concat(rows, ignore_index=True), pd.concat(areas, ignore_index=True)[columns]


def perturbation(
    cfg: ClipParams,
    classifier: nn.Module,
    spec: ModelSpec,
    group: str,
    batch: Batch,
    **options: Any,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`zero_shot_perturbation` on images of `group`, with the names that claims read."""
    rows, table = zero_shot_perturbation(classifier, spec, batch, protocol=cfg.protocol, **options)
    table = table.assign(model=cfg.dual_model, classes=group)
    return rows, table.replace({"target": {"label": "target"}})


def published_zero_shot_perturbation() -> pd.DataFrame:
    """Beyond Intuition Table 3: CLIP ViT-B/32 on ImageNet val, area under the accuracy curve.

    Columns: method (keys of METHODS), direction, target (predicted, label), auc_pct. Raw attention
    and rollout, the same for every class, stand under `predicted` alone.
    """
    table = read_table("perturbation")
    table = table[(table["paper"] == "beyond_intuition") & (table["table"] == "T3")]
    table = table.replace({"method": METHOD_NAMES, "target": TARGET_NAMES})
    columns = ["method", "direction", "target", "value"]
    return table[columns].rename(columns={"value": "auc_pct"}).reset_index(drop=True)

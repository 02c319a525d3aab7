"""Zero-shot: answers sought among prompts, for classes with captions and classes without.

Source: Beyond Intuition Sec. 4.2 (CLIP ViT-B/32, zero-shot on ImageNet), Table 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize

from habitats.benchmark import Benchmark
from habitats.captions import captioned
from relevit.data.batch import Batch
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.evaluate.perturbation import SHARES_PCT, Erasing, auc_table
from relevit.models.spec import ModelSpec
from relevit.protocols import options
from relevit.text.clip.dual import CLIP_METHODS
from reproduction.language.encoders import ALL, SEEN, UNSEEN, Encoder
from reproduction.language.towers import Towers, examples
from reproduction.measures.methods import perturb, perturb_by_label, shared_maps
from reproduction.params.cells import Params

READ_AT_ONCE = 100  # images of a benchmark


@dataclass(frozen=True)
class NewImages:
    """Images that no training has seen, and what each encoder makes of them.

    `batch` holds images for maps: all drawn ones, or the first few photographs.
    """

    batch: Batch
    labels: Int[Tensor, " images"]
    features: list[Tensor]  # of each encoder, a row an image
    captions: tuple[tuple[str, ...], ...] = ()


def drawn_images(cfg: Params, towers: Towers, encoders: Sequence[Encoder]) -> NewImages:
    """`cfg.zero_shot_images` captioned Cutouts; the image tower is run once for all encoders."""
    count, size = cfg.zero_shot_images, towers.spec.image_size
    batch, captions = captioned("val", range(count), seed=cfg.seed, size=size)
    seen = examples(towers, batch, captions).features  # run once for all seeds
    with torch.no_grad():
        features = [normalize(one.dual.image_tower.head(seen), dim=1) for one in encoders]
    return NewImages(batch, batch.labels, features, captions)


def read_images(cfg: Params, encoder: Encoder, images: Benchmark) -> NewImages:
    """As many of a benchmark's `val`, for an encoder that came ready; those of unknown class are
    left out."""
    dual, size, found = encoder.dual, encoder.dual.spec.image_size, []
    for batch in images.batches("val", cfg.zero_shot_images, READ_AT_ONCE, size=size):
        known = batch.select(batch.labels >= 0)
        if len(known):
            pixels = dual.spec.normalise(known.images, like=dual.scale)
            found.append((dual.embed_images(pixels), known.labels))
    features, labels = map(torch.cat, zip(*found, strict=True))
    return NewImages(images.draw("val", range(cfg.shown), size=size), labels, [features])


def zero_shot_table(
    cfg: Params, encoders: Sequence[Encoder], new: NewImages, phrases: Sequence[str] | None = None
) -> pd.DataFrame:
    """`zero_shot_rows` of every encoder."""
    answered = zip(encoders, new.features, strict=True)
    tables = [zero_shot_rows(cfg, one, x, new.labels, phrases) for one, x in answered]
    return pd.concat(tables, ignore_index=True)


def zero_shot_rows(
    cfg: Params,
    encoder: Encoder,
    image_features: Float[Tensor, "images features"],
    labels: Int[Tensor, " images"],
    phrases: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Accuracy within each group of the encoder's classes, by their prompts or other `phrases`.

    The answer is sought among the group's classes alone, so that chance is one in as many.
    Columns: model, seed, classes (the group), candidates, images, accuracy_pct, low_pct, high_pct,
    chance_pct. Where towers are joined, the mean and its interval are over classes, not over
    images: there is one drawing of a class, and a class is known or is not. Of an encoder that came
    ready both are over images, and a class may have none.
    """
    texts, rows = encoder.texts(phrases), []
    for name, classes in encoder.groups.items():
        places = torch.tensor(list(classes))
        keep = torch.isin(labels, places)
        logits = image_features[keep.to(texts.device)] @ texts[places.to(texts.device)].T
        right = 100 * (places[logits.argmax(dim=1).cpu()] == labels[keep]).double()
        if name != ALL:
            right = torch.stack([right[labels[keep] == c].mean() for c in classes])
        ends = mean_interval(right, PERCENT)
        counts = (len(classes), int(keep.sum()))
        rows.append((name, *counts, right.mean().item(), *ends, 100 / len(classes)))
    columns = ["classes", "candidates", "images", "accuracy_pct", "low_pct", "high_pct"]
    table = pd.DataFrame(rows, columns=[*columns, "chance_pct"])
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
    encoder: Encoder, group: str, batch: Batch, count: int
) -> tuple[nn.Module, Batch]:
    """A classifier of the classes of a group, and so many images of these.

    Labels are places among the group's prompts.
    """
    classes = torch.tensor(list(encoder.groups[group]))
    chosen = batch.select(torch.isin(batch.labels, classes).nonzero()[:count, 0])
    labels = torch.searchsorted(classes, chosen.labels)
    chosen = Batch(chosen.images, chosen.masks, labels, chosen.families)
    return encoder.classifier([encoder.prompts[i] for i in classes]), chosen


def zero_shot_perturbation(
    cfg: Params,
    classifier: nn.Module,
    spec: ModelSpec,
    group: str,
    batch: Batch,
    *,
    on_method: Callable[[], object] = lambda: None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The perturbation test on an image classifier made of prompts, as Beyond Intuition Table 3.

    Maps are by `cfg.protocol`, each for the predicted class and, under target `label`, for the
    right one. Erased pixels get the mean colour, as in the script for CLIP; the text names none
    (differences E7). The area is, of the text, the mean over the masked inputs (E6). The script
    goes on to 100 % and measures that end too (E7).
    Returns: the rows of `perturb` with target; and the areas as claims read them: method,
    direction, images, auc_pct, low_pct, high_pct, target, model, classes (the `group` of the
    images).
    """
    area = options(cfg.protocol, "zero_shot_perturbation")
    erasing = Erasing(fill="mean", shares_pct=area.pop("shares_pct", SHARES_PCT))
    maps = shared_maps(classifier, spec, batch.images, CLIP_METHODS, protocol=cfg.protocol)
    predicted = perturb(classifier, spec, batch, maps, erasing, on_method=on_method)
    by_label = perturb_by_label(classifier, spec, batch, predicted, erasing, protocol=cfg.protocol)
    parts = {"predicted": predicted, "label": by_label}
    columns = ["method", "direction", "images", "auc_pct", "low_pct", "high_pct", "target"]
    areas = pd.concat(
        [
            auc_table(rows[rows["method"] == name], **area).assign(method=name, target=target)
            for target, rows in parts.items()
            for name in CLIP_METHODS
        ],
        ignore_index=True,
    )[columns].assign(model=cfg.dual_model, classes=group)
    rows = [rows.assign(target=target) for target, rows in parts.items()]
    return pd.concat(rows, ignore_index=True), areas.replace({"target": {"label": "target"}})

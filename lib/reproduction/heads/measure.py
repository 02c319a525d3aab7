"""What 08_iav measures in every finetuned model, as the rows of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attribution import METHODS, patch_grid
from relevit.base.device import Precision, autocast
from relevit.data.batch import Batch
from relevit.iav.scores import (
    attention_entropy,
    centred_scores,
    class_attention,
    ia_scores,
    map_drift,
    uniform_score,
)
from relevit.iav.space import NEIGHBOURS, class_structure
from relevit.iav.trend import score_rows
from relevit.models.spec import ModelSpec
from reproduction.heads.runs import FinetunedRun

PART = 25  # images explained at once


@dataclass(frozen=True)
class Explanation:
    """What the heads of one model look at in some images, and maps of what matters in them.

    `attention` holds the rows of the class token (or of whatever pools), `maps` a value a patch
    under each name, of which IA-scores are taken with the part above 0.
    """

    attention: Float[Tensor, "images layers heads patches"]
    maps: Mapping[str, Float[Tensor, "images patches"]]
    grid: tuple[int, int]  # rows and columns of patches

    def scores(self, name: str) -> Float[Tensor, "images layers heads"]:
        """IA-scores with one of the maps (IAV Eq. 1)."""
        return ia_scores(self.attention, self.maps[name].clamp(min=0))

    def first(self, count: int) -> Explanation:
        """The same for the first images alone."""
        maps = {name: values[:count] for name, values in self.maps.items()}
        return Explanation(self.attention[:count], maps, self.grid)

    def held_against(self, others: Mapping[str, Float[Tensor, "images patches"]]) -> Explanation:
        """With more maps, of whatever origin (Any-AV)."""
        return replace(self, maps={**self.maps, **others})

    def named(self, names: Mapping[str, str]) -> Explanation:
        """With these maps alone: `names` says what they are to be called."""
        return replace(self, maps={title: self.maps[name] for name, title in names.items()})


@dataclass(frozen=True)
class Explainer:
    """How SmoothGrad explains the true class: `chunk` noisy copies at once, which bounds memory."""

    draws: int = 20
    chunk: int = 50
    precision: Precision = "float32"
    seed: int = 0

    def __call__(self, model: nn.Module, spec: ModelSpec, pictures: Batch) -> Explanation:
        """The heads' rows and SmoothGrad of each picture."""
        device = next(model.parameters()).device
        options = {"draws": self.draws, "chunk": self.chunk, "seed": self.seed}
        attention, maps = [], []
        for part in pictures.split(PART):
            pixels, target = spec.normalise(part.images.to(device)), part.labels.to(device)
            with autocast(device, self.precision):
                values = METHODS["smoothgrad"](model, pixels, target, **options)
            maps.append(values.detach().float().cpu())
            attention.append(class_attention(model, pixels, chunk=self.chunk).float().cpu())
        grid = patch_grid(model, pixels)
        return Explanation(torch.cat(attention), {"smoothgrad": torch.cat(maps)}, grid)


def follow_epochs(
    run: FinetunedRun,
    explainer: Explainer,
    pictures: Batch,
    last: Explanation,
    epochs: int,
    device: str = "auto",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What happens on the way: the tables `epochs` and `drift` of one run.

    `last` is what was found after the last of the `epochs`, on at least these pictures.
    """
    last = last.first(len(pictures))
    tables, drifts = [], []
    for epoch in range(1, epochs + 1):
        found = last
        if epoch < epochs:
            found = explainer(run.load(epoch, device), run.spec, pictures)
        tables.append(_of(run, _means(found), epoch=epoch))
        drifts.append(_of(run, _drift(found, last), epoch=epoch))
    return pd.concat(tables, ignore_index=True), pd.concat(drifts, ignore_index=True)


def space_table(
    run: FinetunedRun, scores: Float[Tensor, "images layers heads"], labels: Tensor
) -> pd.DataFrame:
    """How each layer's scores group the classes: model, kind, seed, layer and `ClassStructure`.

    No more neighbours vote than a class has images: the others would outvote it.
    """
    neighbours = max(1, min(NEIGHBOURS, len(labels) // len(labels.unique())))
    rows = [
        {"layer": layer + 1, **class_structure(scores[:, layer], labels, neighbours)._asdict()}
        for layer in range(scores.shape[1])
    ]
    return _of(run, pd.DataFrame(rows))


def object_share_pct(pictures: Batch) -> Float[Tensor, " images"]:
    """Share of each image that its object covers, in percent; NaN where there are no masks."""
    if not bool(pictures.masks.any()):
        return torch.full((len(pictures),), torch.nan)
    return 100 * pictures.masks.float().mean(dim=(1, 2, 3))


def score_table(
    run: FinetunedRun, scores: Mapping[str, Float[Tensor, "images layers heads"]], labels: Tensor
) -> pd.DataFrame:
    """One run's rows: model, kind, seed, map, image, label, layer, head, score."""
    parts = [_of(run, score_rows(values, labels), map=name) for name, values in scores.items()]
    return pd.concat(parts, ignore_index=True)


def chance_table(run: FinetunedRun, seen: Explanation) -> pd.DataFrame:
    """One run's agreement with SmoothGrad beside that of no choice, a row a layer, means over all.

    Columns: model, kind, seed, layer, `score` (Eq. 1), `uniform` (the score of a head that looks
    everywhere alike) and `centred` (`centred_scores`).
    """
    smooth = seen.maps["smoothgrad"]
    rows = pd.DataFrame({"score": seen.scores("smoothgrad").mean(dim=(0, 2)).numpy()})
    rows.insert(0, "layer", rows.index + 1)
    rows["uniform"] = float(uniform_score(smooth).mean())
    rows["centred"] = centred_scores(seen.attention, smooth).mean(dim=(0, 2)).numpy()
    return _of(run, rows)


def entropy_table(
    run: FinetunedRun,
    attention: Float[Tensor, "images layers heads patches"],
    object_share_pct: Float[Tensor, " images"],
) -> pd.DataFrame:
    """Entropy in nats of every row: model, kind, seed, image, layer, head, entropy, and the share
    of the image that its object covers."""
    entropy = attention_entropy(attention)
    rows = score_rows(entropy, torch.arange(len(entropy))).rename(columns={"score": "entropy"})
    rows["object_share_pct"] = object_share_pct.numpy()[rows["image"]]
    return _of(run, rows.drop(columns="label"))


def _means(found: Explanation) -> pd.DataFrame:
    """Mean over images: layer, head, entropy."""
    means = attention_entropy(found.attention).mean(dim=0)
    rows = score_rows(means[None], torch.zeros(1, dtype=torch.long))
    return rows.rename(columns={"score": "entropy"}).drop(columns=["image", "label"])


def _drift(found: Explanation, last: Explanation) -> pd.DataFrame:
    """How far the maps are from the last epoch's (IAV Fig. 4): quantity, difference."""
    pairs = {
        "smoothgrad": (found.maps["smoothgrad"], last.maps["smoothgrad"]),
        "attention": (found.attention, last.attention),
    }
    rows = [(name, float(map_drift(*pair).mean())) for name, pair in pairs.items()]
    return pd.DataFrame(rows, columns=["quantity", "difference"])


def _of(run: FinetunedRun, rows: pd.DataFrame, **more: object) -> pd.DataFrame:
    """The rows with what names the run, and more, in front."""
    about = {**run.columns, **more}
    return rows.assign(**about)[[*about, *rows.columns]]

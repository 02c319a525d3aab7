"""What 08_iav measures in every finetuned model, as the rows of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Self

import pandas as pd
import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from relevit.attribution import METHODS, patch_grid
from relevit.base.device import Precision, autocast
from relevit.base.files import write_atomically
from relevit.base.results import read_rows
from relevit.data.batch import Batch
from relevit.finetune.epochs import LOG
from relevit.iav.masking import masking_curves
from relevit.iav.scores import (
    attention_entropy,
    class_attention,
    ia_scores,
    map_drift,
    patch_average,
    uniform_score,
)
from relevit.iav.space import NEIGHBOURS, class_structure
from relevit.iav.trend import score_rows
from relevit.models.spec import ModelSpec
from reproduction.heads.compared import finetuned, named, spec_of
from reproduction.measures.corruptions import shift_table
from reproduction.measures.methods import segmentation_table, shared_maps
from reproduction.params.cells import Params
from reproduction.runs.run import Row, read
from reproduction.training.pretrained import test_pictures

PART = 25  # images explained at once
ATTENTION, GRID = "attention", "grid"  # in a file, beside the names of maps
BEYOND = "beyond"  # another image's map


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

    def beyond(self, name: str) -> Float[Tensor, "images layers heads"]:
        """`scores`, less those with the map of the image before: that much is of this image.

        Source: none; the zero of `chance_table`, image by image.
        """
        other = self.maps[name].roll(1, 0).clamp(min=0)
        return self.scores(name) - ia_scores(self.attention, other)

    def on_pct(self, name: str) -> Float[Tensor, "images layers heads"]:
        """Of each head's attention to patches the share on a mask, in percent."""
        weighed = self.attention * self.maps[name][:, None, None]
        return 100 * weighed.sum(dim=3) / self.attention.sum(dim=3).clamp_min(1e-12)

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

    def save(self, path: Path) -> None:
        """Write it to a file, for notebooks that go on from here."""
        tensors = {ATTENTION: self.attention, GRID: torch.tensor(self.grid), **self.maps}
        kept = {name: values.contiguous().clone() for name, values in tensors.items()}
        write_atomically(path, partial(save_file, kept))

    @classmethod
    def read(cls, path: Path) -> Self:
        """What `save` wrote. Raises: FileNotFoundError, which says what to run."""
        if not path.is_file():
            raise FileNotFoundError(f"results: {path} is missing; run the stage that writes it")
        tensors = load_file(path)
        rows, columns = tensors.pop(GRID).tolist()
        return cls(tensors.pop(ATTENTION), tensors, (rows, columns))


Found = Mapping[Row, Explanation]


def by_image(
    found: Found, of: Callable[[Explanation], Float[Tensor, "images layers heads"]]
) -> Float[Tensor, " images"]:
    """Mean over models, layers and heads, of each image."""
    return torch.stack([of(seen).mean(dim=(1, 2)) for seen in found.values()]).mean(dim=0)


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

    def of_run(self, run: Row, pictures: Batch, epoch: int | None = None) -> Explanation:
        """The same of one of the compared models after an epoch (None: the last)."""
        return self(finetuned(run, epoch), spec_of(run), pictures)


# Over all runs


def epochs_table(runs: Iterable[Row]) -> pd.DataFrame:
    """The table `models`, seeds first: model, kind, seed, epoch, validation_top1_pct.

    Raises: as `runs.read`.
    """
    by_seed = sorted(runs, key=lambda run: run.params.seed)
    logs = [_of(run, pd.DataFrame(read_rows(read(run).path.parent / LOG))) for run in by_seed]
    columns = ["model", "kind", "seed", "epoch", "validation_top1_pct"]
    return pd.concat(logs, ignore_index=True)[columns]


def explain_runs(
    cfg: Params,
    runs: Iterable[Row],
    explainer: Explainer,
    pictures: Batch,
    known: Found = MappingProxyType({}),
) -> dict[Row, Explanation]:
    """What each run's heads look at after the last epoch; those in `known` are taken from there.

    Maps are the model's own `smoothgrad`, `aav_dino`, which is that of `cfg.reference` with the
    same seed, and `mask`, where the pictures have any.
    """
    found = {run: known.get(run) or explainer.of_run(run, pictures) for run in runs}
    smooth = {
        run.params.seed: seen.maps["smoothgrad"]
        for run, seen in found.items()
        if run.params.model == cfg.reference
    }
    held = {}
    for run, seen in found.items():
        others = {"aav_dino": smooth[run.params.seed]}
        if bool(pictures.masks.any()):
            others["mask"] = patch_average(pictures.masks.float(), seen.grid)
        held[run] = seen.held_against(others)
    return held


def shift_rows(
    cfg: Params, runs: Iterable[Row], count: int, levels: Mapping[str, Sequence[float]]
) -> pd.DataFrame:
    """`shift_table` of each run after its last epoch, on `count` test images of 08_iav."""
    tables = []
    for run in runs:
        spec = spec_of(run)
        test = test_pictures(cfg, count, spec.image_size)
        images = test.read(range(len(test))).images
        found = shift_table(finetuned(run), spec, images, test.labels, levels)
        tables.append(found.assign(**named(run)))
    return pd.concat(tables, ignore_index=True)


OUTLINING = ("raw_attention", "token_wise")


def outline_table(runs: Iterable[Row], pictures: Batch) -> pd.DataFrame:
    """The segmentation test of OUTLINING in each run, as `segmentation_table`; pictures have masks.

    Source: Beyond Intuition App. D, of a model that learned without labels and one with.
    """
    tables = []
    for run in runs:
        model, spec = finetuned(run), spec_of(run)
        maps = shared_maps(model, spec, pictures.images, OUTLINING)
        table = segmentation_table(maps, pictures.masks > 0, spec.grid)
        tables.append(table.assign(**named(run)))
    return pd.concat(tables, ignore_index=True)


def follow_epochs(
    run: Row, explainer: Explainer, pictures: Batch, last: Explanation
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What happens on the way: the tables `epochs` and `drift` of one run.

    `last` is what was found after the last epoch, on at least these pictures.
    """
    last, epochs = last.first(len(pictures)), run.params.epochs
    tables, drifts = [], []
    for epoch in range(1, epochs + 1):
        found = explainer.of_run(run, pictures, epoch) if epoch < epochs else last
        tables.append(_of(run, _means(found), epoch=epoch))
        drifts.append(_of(run, _drift(found, last), epoch=epoch))
    return pd.concat(tables, ignore_index=True), pd.concat(drifts, ignore_index=True)


# Tables of what was found


def score_table(found: Found, labels: Tensor) -> pd.DataFrame:
    """IA-scores with every map: model, kind, seed, map, image, label, layer, head, score."""
    parts = [
        _of(run, score_rows(seen.scores(name), labels), map=name)
        for run, seen in found.items()
        for name in seen.maps
    ]
    return pd.concat(parts, ignore_index=True)


def beyond_table(found: Found, labels: Tensor) -> pd.DataFrame:
    """`score_table` of `Explanation.beyond` with SmoothGrad. The map is called BEYOND."""
    parts = []
    for run, seen in found.items():
        rows = score_rows(seen.beyond("smoothgrad"), labels)
        parts.append(_of(run, rows, map=BEYOND))
    return pd.concat(parts, ignore_index=True)


def chance_table(found: Found) -> pd.DataFrame:
    """Agreement with SmoothGrad beside its zeros, a row a run and layer, means over all.

    Columns: model, kind, seed, layer, `score` (Eq. 1), `uniform` (the score of a head that looks
    everywhere alike) and `other` (that with the SmoothGrad of the image before).
    """
    parts = []
    for run, seen in found.items():
        smooth = seen.maps["smoothgrad"]
        rows = pd.DataFrame({"score": seen.scores("smoothgrad").mean(dim=(0, 2)).numpy()})
        rows.insert(0, "layer", rows.index + 1)
        rows["uniform"] = float(uniform_score(smooth).mean())
        rows["other"] = ia_scores(seen.attention, smooth.roll(1, 0)).mean(dim=(0, 2)).numpy()
        parts.append(_of(run, rows))
    return pd.concat(parts, ignore_index=True)


def entropy_table(found: Found, pictures: Batch) -> pd.DataFrame:
    """Entropy in nats of every row: model, kind, seed, image, layer, head, entropy, and the share
    of the image that its object covers."""
    share, parts = object_share_pct(pictures).numpy(), []
    for run, seen in found.items():
        entropy = attention_entropy(seen.attention)
        rows = score_rows(entropy, torch.arange(len(entropy))).rename(columns={"score": "entropy"})
        rows["object_share_pct"] = share[rows["image"]]
        parts.append(_of(run, rows.drop(columns="label")))
    return pd.concat(parts, ignore_index=True)


def space_table(found: Found, labels: Tensor) -> pd.DataFrame:
    """How each layer's scores group the classes: model, kind, seed, layer and `ClassStructure`.

    No more neighbours vote than a class has images: the others would outvote it.
    """
    neighbours = max(1, min(NEIGHBOURS, len(labels) // len(labels.unique())))
    parts = []
    for run, seen in found.items():
        scores = seen.scores("smoothgrad")
        rows = [
            {"layer": layer + 1, **class_structure(scores[:, layer], labels, neighbours)._asdict()}
            for layer in range(scores.shape[1])
        ]
        parts.append(_of(run, pd.DataFrame(rows)))
    return pd.concat(parts, ignore_index=True)


def masking_table(
    found: Found, pictures: Batch, ratios_pct: Sequence[float], seed: int
) -> pd.DataFrame:
    """`masking_curves` of each run, in the order of its attention, of SmoothGrad, and at random."""
    tables = []
    for run, seen in found.items():
        orders = {
            "attention": seen.attention.mean(dim=(1, 2)),
            "smoothgrad": seen.maps["smoothgrad"],
        }
        shown, rules = (pictures.images, pictures.labels), (seen.grid, ratios_pct)
        curves = masking_curves(finetuned(run), spec_of(run), *shown, orders, *rules, seed=seed)
        tables.append(curves.assign(**named(run)))
    return pd.concat(tables, ignore_index=True)


def object_share_pct(pictures: Batch) -> Float[Tensor, " images"]:
    """Share of each image that its object covers, in percent; NaN where there are no masks."""
    if not bool(pictures.masks.any()):
        return torch.full((len(pictures),), torch.nan)
    return 100 * pictures.masks.float().mean(dim=(1, 2, 3))


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


def _of(run: Row, rows: pd.DataFrame, **more: object) -> pd.DataFrame:
    """The rows with what names the run, and more, in front."""
    about = {**named(run), **more}
    return rows.assign(**about)[[*about, *rows.columns]]

"""What the study of photographs shows: PACS as a model sees it, and which pictures get masks.

Originals learn from photographs, and runs are finetuned on a few of these. All pictures of the
other domains are the test.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from habitats.real.pacs import CLASSES, read_pacs
from relevit.base.device import choose_device
from relevit.choices.words import MaskSource
from relevit.data.batch import Batch
from relevit.data.image_set import ImageSet
from relevit.finetune.own_folder import files_fingerprint
from relevit.masks.automatic import AutomaticMasks, automatic_masks
from relevit.masks.backbone import feature_model, feature_spec
from relevit.masks.stored import MASKS, load_masks, save_masks
from relevit.models.loading import RANDOM, OwnModel, open_model
from relevit.protocols import options
from reproduction.runs.one_run import with_masks
from reproduction.stages import digest

TRAIN, VAL, SHARE = "train", "val", 0.8  # of the photographs; the share that originals learn from

domains = cache(read_pacs)


@dataclass(frozen=True)
class Study:
    """Where the pictures are, where runs go, and what is the same for all of them."""

    data: Path
    out: Path
    model: str = "dinov2-s"
    side: int = 112  # pixels
    images_per_class: int = 16  # finetuned on
    masked: int = 140  # val photographs whose background is changed
    features: tuple[str, int] = ("dinov2-s", 224)  # what TokenCut cuts, and the pixels it is shown

    @property
    def identity(self) -> dict[str, Any]:
        """What every run follows from, as plain values."""
        told = {key: value for key, value in asdict(self).items() if key not in ("data", "out")}
        return told | {"pictures": _fingerprint(self.data)}

    def open(self, weights: Path | None = None, seed: int = 0) -> OwnModel:
        """Its model with these weights, or with an untrained head on its pretraining."""
        start = RANDOM if weights is None and self.model == "tiny" else weights
        how = {"classes": len(CLASSES), "new_head": weights is None, "seed": seed}
        return open_model(self.model, start, options={"img_size": self.side}, device="auto", **how)


@cache
def _fingerprint(data: Path) -> str:
    return digest({name: files_fingerprint(part) for name, part in domains(data).items()})


@cache
def pictures(study: Study) -> dict[str, ImageSet]:
    """All pictures as the model sees them, in memory: TRAIN, VAL, and the other domains."""
    from sklearn.model_selection import train_test_split

    view, how = study.open().view, {"train_size": SHARE, "random_state": 0}
    sets = {name: part.image_set(view) for name, part in domains(study.data).items()}
    photos = sets.pop("photo")
    parts = train_test_split(range(len(photos)), stratify=photos.labels, **how)
    sets = dict(zip((TRAIN, VAL), map(photos.select, parts), strict=True)) | sets
    return {name: each.kept() for name, each in sets.items()}


def tokencut(study: Study, of: Any, batch: Batch) -> AutomaticMasks:
    """TokenCut's masks of a seed's photographs, or of `validation`: made once."""
    folder, (name, side) = study.out / f"masks.{of}-{digest(study.identity)}", study.features
    if not (folder / MASKS).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        network, refining = feature_model(name, side), options("published", "refine")
        network.to(choose_device("auto"))
        found = automatic_masks(network, feature_spec(name), batch.images, **refining)
        save_masks(folder, {of: (found, batch.images)})
    return load_masks(folder, of, batch.images)


def masked(batch: Batch, found: AutomaticMasks) -> Batch:
    """Those with a mask worth training on (B15, B17)."""
    return replace(batch, masks=found.refined).select(found.kept.nonzero()[:, 0])


def to_finetune(study: Study, seed: int, masks: MaskSource = "tokencut") -> Batch:
    """The photographs that runs of a seed are finetuned on; classes take turns (`with_masks`)."""
    train = pictures(study)[TRAIN]
    order = np.random.default_rng(seed).permutation(len(train))
    drawn = pd.DataFrame({"place": order, "label": train.labels.numpy()[order]})
    drawn["turn"] = drawn.groupby("label").cumcount()
    drawn = drawn[drawn["turn"] < study.images_per_class].sort_values(["turn", "label"])
    batch = train.read(drawn["place"].tolist())
    return with_masks(masked(batch, tokencut(study, seed, batch)), masks)


def to_look_at(study: Study) -> tuple[Batch, AutomaticMasks]:
    """The first photographs of VAL, and their masks."""
    val = pictures(study)[VAL]
    batch = val.read(range(len(val))[: study.masked])
    return batch, tokencut(study, "validation", batch)

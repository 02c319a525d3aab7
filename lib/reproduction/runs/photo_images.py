"""What the study of photographs shows: PACS as a model sees it, and which pictures get masks.

Originals learn from photographs, and runs are finetuned on a few of these. All pictures of the
other domains are the test.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from habitats.real.pacs import CLASSES, DOMAINS, read_pacs
from relevit.base.device import choose_device
from relevit.data.batch import Batch
from relevit.data.image_set import ImageSet
from relevit.finetune.own_folder import files_fingerprint
from relevit.masks.automatic import AutomaticMasks, automatic_masks, sound
from relevit.masks.backbone import feature_model, feature_spec
from relevit.masks.stored import MASKS, load_masks, save_masks
from relevit.models.loading import RANDOM, OwnModel, open_model
from relevit.protocols import options
from reproduction.runs.runs import with_masks
from reproduction.stages import digest

TRAIN, VAL, SHARE = "train", "val", 0.8  # of the source; the share that originals learn from
Masks = Literal["sound", "tokencut", "others", "ellipse"]

domains = cache(read_pacs)


@dataclass(frozen=True)
class Study:
    """Where the pictures are, where runs go, and what is the same for all of them."""

    data: Path
    out: Path
    model: str = "dinov2-s"
    side: int = 112  # pixels
    source: str = "photo"  # the domain that models learn from; the others are the test
    images_per_class: int = 16  # finetuned on
    masked: int = 140  # val photographs whose background is changed
    features: tuple[str, int] = ("dinov2-s", 224)  # what TokenCut cuts, and the pixels it is shown

    @property
    def shifted(self) -> tuple[str, ...]:
        """The domains that no model has learnt from."""
        return tuple(name for name in DOMAINS if name != self.source)

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
    """All pictures as the model sees them, in memory: TRAIN and VAL of the source, and the rest."""
    from sklearn.model_selection import train_test_split

    view, how = study.open().view, {"train_size": SHARE, "random_state": 0}
    sets = {name: part.image_set(view) for name, part in domains(study.data).items()}
    source = sets.pop(study.source)
    parts = train_test_split(range(len(source)), stratify=source.labels, **how)
    sets = dict(zip((TRAIN, VAL), map(source.select, parts), strict=True)) | sets
    return {name: each.kept() for name, each in sets.items()}


@cache
def tokencut(study: Study, part: str) -> AutomaticMasks:
    """TokenCut's masks of all pictures of TRAIN or VAL, as the published code keeps them."""
    folder = study.out / f"masks.{part}-{digest(study.identity)}"
    of, images = "validation" if part == VAL else 0, _whole(study, part).images
    if not (folder / MASKS).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        name, side = study.features
        network, refining = feature_model(name, side), options("published", "refine")
        network.to(choose_device("auto"))
        found = automatic_masks(network, feature_spec(name), images, **refining)
        save_masks(folder, {of: (found, images)})
    return load_masks(folder, of, images)


def masked(study: Study, part: str, kept: AutomaticMasks) -> Batch:
    """The photographs of a part with their masks, those that are kept."""
    return replace(_whole(study, part), masks=kept.refined).select(kept.kept.nonzero()[:, 0])


def _whole(study: Study, part: str) -> Batch:
    every = pictures(study)[part]
    return every.read(range(len(every)))


def to_finetune(study: Study, seed: int, masks: Masks = "sound") -> Batch:
    """The photographs that runs of a seed are finetuned on.

    `tokencut` draws from all whose mask the published code keeps, others from the `sound` ones.
    """
    found = tokencut(study, TRAIN)
    train = masked(study, TRAIN, found if masks == "tokencut" else sound(found))
    order = np.random.default_rng(seed).permutation(len(train))
    drawn = pd.DataFrame({"place": order, "label": train.labels.numpy()[order]})
    drawn["turn"] = drawn.groupby("label").cumcount()  # classes take turns: neighbours differ
    drawn = drawn[drawn["turn"] < study.images_per_class].sort_values(["turn", "label"])
    return with_masks(train.select(drawn["place"].tolist()), masks)


def to_look_at(study: Study) -> Batch:
    """The first photographs of VAL with a sound mask."""
    found = masked(study, VAL, sound(tokencut(study, VAL)))
    return found.select(range(len(found))[: study.masked])

"""Cures on photographs: originals, and arms of each, as the study has them by the same names.

Originals learn from photographs of PACS, and runs are finetuned on a few of these. All pictures of
the other domains are the test. Which runs there are: tools/photos.py. What is asked of them,
written before any: docs/photographs.md.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from habitats.real.pacs import CLASSES, DOMAINS, read_pacs
from relevit.base.device import choose_device, choose_precision
from relevit.base.files import file_fingerprint, write_atomically
from relevit.base.results import read_json
from relevit.choices.words import Precision
from relevit.data.batch import Batch
from relevit.data.image_set import ImageSet
from relevit.evaluate.lean import lean_rows
from relevit.evaluate.predictions import BATCH, Classifier
from relevit.finetune.epochs import WEIGHTS
from relevit.finetune.own_folder import files_fingerprint
from relevit.finetune.run import Start
from relevit.finetune.settings import FinetuneSettings, resolved
from relevit.masks.automatic import AutomaticMasks, automatic_masks, sound
from relevit.masks.backbone import feature_model, feature_spec
from relevit.masks.stored import MASKS, load_masks, save_masks
from relevit.models.loading import RANDOM, OwnModel, open_model
from relevit.protocols import options
from reproduction.measures.context import relevance_shares
from reproduction.measures.paired import ORIGINAL
from reproduction.params.cells import FINETUNED, params_of
from reproduction.runs.run import MADE, with_masks
from reproduction.stages import digest, preset_file
from reproduction.training.classifier import TrainSettings, train_classifier

SEARCHED, EPOCHS = 0, 2  # the seed whose runs the rule looks at; those of an original
MAPS, LOOKED_AT = 16, 64  # photographs: of the log's maps, of `looks`
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


# The runs


class Run(NamedTuple):
    """An arm of a seed, at a rate, from its original of so many epochs; or this original."""

    arm: str
    seed: int
    lr: float = 0.0
    masks: Masks = "sound"
    epochs: int = EPOCHS

    @property
    def start(self) -> Run:
        return Run(ORIGINAL, self.seed, epochs=self.epochs)


def settings_of(run: Run) -> FinetuneSettings:
    """Those of the study's arm, with labels in the class term as all arms have there."""
    path = preset_file("study")
    cures, maps = (params_of(name).from_preset(path) for name in ("04_cures", "05a_ablations"))
    arm = cures.arm_settings | (maps.maps | cures.arms)[run.arm] | {"seed": run.seed, "lr": run.lr}
    of = params_of(FINETUNED)
    params = of.checked(of.from_preset(path).model_dump() | arm, run.arm)
    return resolved(params, run.lr, _precision())


def _precision() -> Precision:
    return choose_precision("auto", choose_device("auto"))


@cache
def folder_of(study: Study, run: Run) -> Path:
    """Named after all that makes a run, its original's weights among it."""
    about = study.identity | run._asdict() | {"precision": _precision()}
    words = [run.arm, run.masks, f"epochs_{run.epochs}", f"lr_{run.lr:.1e}"]
    if run.arm != ORIGINAL:
        about["origin"] = file_fingerprint(folder_of(study, run.start) / WEIGHTS)
        about["settings"] = dict(settings_of(run).identity)
    return study.out / f"{'.'.join(words)}.seed{run.seed}-{digest(about)}"


def train(study: Study, run: Run) -> Path:
    """Make a run's weights and log, or go on with one that was stopped; its folder.

    Where the loss becomes infinite `run.json` says so, and there are no weights.
    """
    folder, failed = folder_of(study, run), ""
    if not (folder / MADE).is_file():
        begun = pictures(study) and time.process_time()  # reading is not training
        try:
            (_original if run.arm == ORIGINAL else _finetuned)(study, run, folder)
        except FloatingPointError as error:
            failed = str(error)
        made = run._asdict() | {"failed": failed, "seconds": time.process_time() - begun}
        write_atomically(folder / MADE, json.dumps(made, indent=2) + "\n")
    return folder


def _original(study: Study, run: Run, folder: Path) -> None:
    own, sets, cfg = study.open(seed=run.seed), pictures(study), preset_file("study")
    how = {"epochs": run.epochs, "seed": run.seed, "precision": _precision()}
    how |= {"images": len(sets[TRAIN])}
    start = params_of("00_start").from_preset(cfg)
    settings = TrainSettings.from_params(start, choose_device("auto"), **how)
    shown = {"train": sets[TRAIN], "validation": sets[VAL], "identity": study.identity}
    train_classifier(own.network, own.spec, settings, folder, **shown)


def _finetuned(study: Study, run: Run, folder: Path) -> None:
    origin, val = folder_of(study, run.start) / WEIGHTS, pictures(study)[VAL]
    own, found = study.open(origin), sound(tokencut(study, VAL))
    found = AutomaticMasks(*(part[:MAPS] for part in vars(found).values()))
    start = Start(
        own.network,
        own.spec,
        to_finetune(study, run.seed, run.masks),
        val.read(range(len(val))),
        len(val),
        len(found),
        study.identity | {"masks": run.masks, "origin": file_fingerprint(origin)},
        found,
    )
    settings = settings_of(run)
    validated = (0, settings.epochs) if run.seed == SEARCHED else ()
    start.finetuned(settings, folder, validated=validated)


def answer(study: Study, run: Run) -> Path:
    """Train a run, and leave what it answers beside its weights; its folder.

    `answers` has all pictures of VAL and the other domains (as `Classifier.answer`), `looks` the
    shares of relevance, and `lean` photographs of VAL on changed backgrounds.
    """
    folder = train(study, run)
    if read_json(folder / MADE)["failed"]:
        return folder
    own, batch = study.open(folder / WEIGHTS), to_look_at(study)
    looked = batch.select(range(len(batch))[:LOOKED_AT]).split(BATCH)
    _, *tests = pictures(study).items()
    sets = {name: each.batches(BATCH) for name, each in tests}
    shown = batch.images, batch.masks, batch.labels
    tables = {
        "answers": lambda: Classifier(own.network, own.spec).answer(sets),
        "looks": lambda: relevance_shares(own.network, own.spec, looked),
        "lean": lambda: lean_rows(own.network, own.spec, *shown, seed=0),
    }
    for name, made in tables.items():
        if not (folder / f"{name}.parquet").is_file():
            write_atomically(folder / f"{name}.parquet", made().to_parquet)
    return folder

"""Cures on photographs: originals, and arms of each, as the study has them by the same names.

Which runs there are: tools/photos.py. What is asked of them, written before any:
docs/photographs.md.
"""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from relevit.base.device import choose_device, choose_precision
from relevit.base.files import file_fingerprint, write_atomically
from relevit.base.results import read_json
from relevit.choices.words import Precision
from relevit.data.batch import Batch
from relevit.evaluate.predictions import BATCH, Classifier
from relevit.finetune.epochs import WEIGHTS
from relevit.finetune.loop import finetune
from relevit.finetune.settings import FinetuneSettings, resolved
from relevit.finetune.validation import validation_figures
from relevit.masks.automatic import AutomaticMasks, sound
from relevit.models.loading import OwnModel
from reproduction.measures.context import relevance_shares
from reproduction.measures.paired import ORIGINAL
from reproduction.params.cells import FINETUNED, params_of
from reproduction.runs.photo_images import (
    TRAIN,
    VAL,
    Masks,
    Study,
    pictures,
    to_finetune,
    to_look_at,
    tokencut,
)
from reproduction.stages import digest, preset_file
from reproduction.training.classifier import TrainSettings, train_classifier

SEARCHED, EPOCHS = 0, 2  # the seed whose runs the rule looks at; those of an original
MAPS, LOOKED_AT = 16, 64  # photographs: of the log's maps, of `looks`
MADE = "run.json"


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
    own, found, settings = study.open(origin), sound(tokencut(study, VAL)), settings_of(run)
    found = AutomaticMasks(*(part[:MAPS] for part in vars(found).values()))
    figures = validation_figures(
        own.spec,
        images=len(val),
        maps=len(found),
        precision=settings.precision,
        masks=found,
        draw=lambda name, places, **how: val.read(list(places)),
    )
    how = {"inputs": study.identity | {"masks": run.masks, "origin": file_fingerprint(origin)}}
    how["validated"] = (0, settings.epochs) if run.seed == SEARCHED else ()
    batch = to_finetune(study, run.seed, run.masks)
    finetune(own.network, own.spec, batch, figures, settings, folder, **how)


def answer(study: Study, run: Run) -> Path:
    """Train a run, and leave what it answers beside its weights; its folder.

    `answers` has all pictures of VAL and the other domains (as `Classifier.predict`), `looks` the
    shares of relevance, and `lean` photographs of VAL on changed backgrounds.
    """
    folder = train(study, run)
    if read_json(folder / MADE)["failed"]:
        return folder
    own, batch = study.open(folder / WEIGHTS), to_look_at(study)
    looked = batch.select(range(len(batch))[:LOOKED_AT]).split(BATCH)
    tables = {
        "answers": lambda: _answers(study, own),
        "looks": lambda: relevance_shares(own.network, own.spec, looked),
        "lean": lambda: _lean(own, batch),
    }
    for name, made in tables.items():
        if not (folder / f"{name}.parquet").is_file():
            write_atomically(folder / f"{name}.parquet", made().to_parquet)
    return folder


def _answers(study: Study, own: OwnModel) -> pd.DataFrame:
    _, *tests = pictures(study).items()
    classifier = Classifier(own.network, own.spec)
    found = {name: classifier.predict(each.batches(BATCH)) for name, each in tests}
    return pd.concat(found, names=["dataset", "index"]).reset_index()


def _lean(own: OwnModel, batch: Batch) -> pd.DataFrame:
    from relevit.evaluate.lean import lean_rows

    return lean_rows(own.network, own.spec, batch.images, batch.masks, batch.labels, seed=0)

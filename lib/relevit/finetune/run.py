"""A run: a model finetuned from its start by settings, in a folder that goes on where it stopped.

Presets and one's own images say which runs there are and what these see: a record each, all that
its numbers follow from, and no device or place. All are named (`named`), made (`noted`,
`Start.finetuned`), judged by the rule of `learning_rate`, and answer by `Classifier.answer`.
"""

from __future__ import annotations

import copy
import json
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from relevit.base import errors
from relevit.base.device import at_once
from relevit.base.errors import FailedError
from relevit.base.files import digest, write_atomically
from relevit.base.results import Kept, read_json
from relevit.data.batch import Batch
from relevit.evaluate.predictions import BATCH, predict
from relevit.finetune.epochs import History, read
from relevit.finetune.loop import finetune, step_tokens
from relevit.finetune.settings import BASELINES, FinetuneSettings
from relevit.finetune.step import step_losses
from relevit.masks import AutomaticMasks
from relevit.models.spec import ModelSpec
from relevit.models.trunk import Frozen, open_trunk

MADE = "run.json"  # the last file of a run
TRACE = "traceback.txt"  # of one that failed
DIVERGED = "diverged"  # how the reason begins of one whose loss became infinite
FULL = "disk: "  # how an error begins that tells of a full disk (`base.files`)
LONGEST = 80  # characters of a name that say what a run is


def named(words: Iterable[str], record: Mapping[str, Any]) -> str:
    """The folder of a run: in words what it is, its seed, and a digest of its whole record."""
    return f"{'.'.join(words)[:LONGEST]}.seed{record['seed']}-{digest(record)}"


def noted(folder: Path, known: dict[str, Any], make: Callable[[dict[str, Any]], object]) -> Path:
    """Make a run in its folder, and write MADE last: what is `known` of it, with what `make` adds.

    `seconds` are those of a processor that it took now. One that fails leaves the reason there, as
    `failed`, so that others do not hang on it, and in TRACE where in the code it was.
    Raises: OSError for a full disk, which others would meet, too.
    """
    known["failed"], begun = "", time.process_time()
    for earlier in (MADE, TRACE):
        (folder / earlier).unlink(missing_ok=True)
    try:
        make(known)
    except Exception as error:
        if str(error).startswith(FULL):
            raise
        if isinstance(error, FloatingPointError):  # a rate far too high: a finding, no accident
            known["failed"] = f"{DIVERGED}: {error}"
        else:
            write_atomically(folder / TRACE, traceback.format_exc())
            known["failed"] = errors.one_line(error)
    known["seconds"] = round(time.process_time() - begun, 1)
    write_atomically(folder / MADE, json.dumps(known, indent=2, sort_keys=True) + "\n")
    return folder


def read_run(folder: Path, *, or_diverged: bool = False) -> Kept:
    """What MADE says of a run.

    Raises: FileNotFoundError where it is not made; FailedError for one that failed, but for a
    diverged one where that is asked for.
    """
    if not (folder / MADE).is_file():
        raise FileNotFoundError(f"the run {folder.name} is not made yet")
    made = read_json(folder / MADE)
    if made["failed"] and not (or_diverged and made["failed"].startswith(DIVERGED)):
        more = f"; its {TRACE} says where" if (folder / TRACE).is_file() else ""
        raise FailedError(f"the run {folder.name} has failed: {made['failed']}{more}")
    return made


@dataclass(frozen=True, eq=False)
class Start:
    """What runs have in common that differ in their settings alone, such as arms and rates.

    `network` is the original, which they leave as it is. Of `validation` the first `images` are
    answered and the first `maps` explained after an epoch; there may be fewer, and none of a
    network that has `no_maps`. With automatic `masks` of the latter, those count that are fit for
    training. `inputs` tells it from another start, in plain values.
    """

    network: nn.Module
    spec: ModelSpec
    train: Batch
    validation: Batch
    images: int
    maps: int
    inputs: Mapping[str, Any]
    masks: AutomaticMasks | None = None
    no_maps: bool = False

    def finetuned(
        self,
        settings: FinetuneSettings,
        folder: Path,
        *,
        validated: Collection[int] | None = None,
        kept: Path | None = None,
        on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
        on_step: Callable[[int, int, int], object] = lambda epoch, step, steps: None,
    ) -> tuple[nn.Module, History]:
        """The finetuned model and its log; both are in `folder`, and read where they are there.

        `validated` are the epochs after which validation images are looked at, 0 for before; None,
        and wherever they choose the epoch, after each, which takes a third of the time. `kept` and
        the rest as `loop.finetune`, which raises and resumes.
        """
        network = copy.deepcopy(self.network)
        frozen = None if kept is None else Frozen(kept, settings.trained_blocks)
        history = finetune(
            network,
            self.spec,
            self.train,
            partial(self.figures, frozen=frozen),
            settings,
            folder,
            inputs=dict(self.inputs),
            validated=validated if settings.keep == "last" else None,
            kept=kept,
            on_epoch=on_epoch,
            on_step=on_step,
        )
        return network, history

    def figures(
        self, model: nn.Module, settings: FinetuneSettings, frozen: Frozen | None = None
    ) -> dict[str, Any]:
        """What is seen of a model after an epoch, on the validation images alone.

        `top1_pct`, `confidence_loss` (Eq. 4 without temperature) and `label_loss` (cross-entropy of
        the label), in nats; the losses of the maps, computed as in training but without
        augmentation; `class_losses` are the run's own class term of each image. Tokens of `frozen`
        blocks are kept.
        """
        device, trunk = next(model.parameters()).device, open_trunk(model, frozen)
        size, found = settings.batch_size, []
        if settings.method not in BASELINES:  # of which some terms are sums over a batch
            size = at_once(size, device)
        parts = list(self._mapped.split(size))
        for part in parts:
            pixels = self.spec.normalise(part.images.to(device))
            masks, labels = part.masks.to(device).float(), part.labels.to(device)
            outlined = torch.zeros_like(labels, dtype=torch.bool) if self.no_maps else None
            with step_tokens(trunk, pixels, settings, train=False):
                losses = step_losses(
                    model, pixels, masks, labels, settings, outlined=outlined, train=False
                )
            found.append({name: value.detach() for name, value in losses.named.items()})
        rows = [pd.Series(row) * len(part) for row, part in zip(read(found), parts, strict=True)]
        means = (sum(rows) / len(self._mapped)).to_dict()
        asked = self.validation.select(range(len(self.validation))[: self.images])
        answers = predict(model, self.spec, asked.split(BATCH), settings.precision, frozen)
        losses = {
            "confidence": -np.log(answers["confidence_pct"] / 100),
            "label": answers["label_loss"],
        }
        return {
            "top1_pct": 100 * float((answers["label_rank"] == 0).mean()),
            **{f"{name}_loss": float(each.mean()) for name, each in losses.items()},
            "class_losses": losses[settings.class_loss].round(6).tolist(),
            **means,
        }

    @cached_property
    def _mapped(self) -> Batch:
        """The images whose maps are looked at, with their masks."""
        shown = self.validation.select(range(len(self.validation))[: self.maps])
        if self.masks is None:
            return shown
        return replace(shown, masks=self.masks.refined).select(self.masks.kept.nonzero()[:, 0])

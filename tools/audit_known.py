"""Does the audit find what is known? Models of `make controls`, whose gap redrawing gives exactly.

    python tools/audit_known.py outputs/controls/runs     30 min on 2 cores, after make controls

In Habitats the same animal can be drawn at home and in a random home. So the true gap of a model is
known, without cutting or pasting. The audit sees the images at home alone: with exact masks, and
with TokenCut's. Two more originals are trained for it, which were LESS_AT_HOME. Writes
docs/results/audit_known.csv (docs/audit.md).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from habitats.homes import habitats
from relevit.base.device import autocast, choose_precision
from relevit.base.files import project_root
from relevit.data.batch import Batch
from relevit.evaluate.intervals import mean_interval
from relevit.evaluate.lean import Interval, background_gap, lean_rows, lean_verdict
from relevit.evaluate.predictions import predict
from relevit.finetune.epochs import WEIGHTS
from relevit.models.loading import OwnModel, open_model
from relevit_own.images import tokencut_masks
from reproduction.params.cells import FINETUNED, params_of
from reproduction.runs.run import make_missing, original_of_world
from reproduction.stages import preset_file

TARGET = project_root() / "docs" / "results" / "audit_known.csv"
IMAGES, SIDE = 300, 112  # of an audit; pixels
DRAWS = 3  # of images, for models that do not lean: how often is it wrong of these?
LESS_AT_HOME = (0.5, 0.8)  # shares of the training images of originals that no run starts from
LESS_AT_HOME_IMAGES = 12800  # that these have learned, as others at 95, 98 and 100 % have
NOT_LEANING = "images_51200"  # trained until the gap was gone; also what was finetuned from it


def models(runs: Path) -> Iterator[tuple[str, Path]]:
    """The originals, by what they have learned, and all that started from NOT_LEANING."""
    folders = {folder.name: folder for folder in (*runs.iterdir(), *less_at_home())}
    for folder in map(folders.get, sorted(folders)):
        name = re.sub(r"-[0-9a-f]{6}$", "", folder.name)
        if name.startswith("original.") or NOT_LEANING in name:
            own = name.startswith("original.") and ".home_" not in name
            if own:  # one for all seeds, in 00_start
                name, folder = name.removesuffix(".seed0"), runs.parent / "00_start"
            yield name, folder / WEIGHTS


def less_at_home() -> Iterator[Path]:
    """Folders of the originals of LESS_AT_HOME, which are trained where they are not there."""
    params = params_of(FINETUNED).from_preset(preset_file("controls"))
    for share in LESS_AT_HOME:
        world = {"home_share": share, "original_images": LESS_AT_HOME_IMAGES}
        benchmark = params.benchmark.model_copy(update=world)
        row = original_of_world(params.model_copy(update={"benchmark": benchmark}))
        make_missing([row])
        yield row.folder


@cache
def twins(draw: int) -> tuple[Batch, Batch]:
    """The same animals at home and in a random home."""
    places = range(draw * IMAGES, (draw + 1) * IMAGES)
    home, random = (
        habitats().draw(name, places, size=SIDE) for name in ("mixed_same", "mixed_random")
    )
    return home, random


def redrawn(model: OwnModel, home: Batch, random: Batch) -> Interval:
    right = [
        (predict(model.network, model.spec, batch.split(50))["label_rank"] == 0).to_numpy(float)
        for batch in (home, random)
    ]
    change = 100 * (right[0] - right[1])
    return Interval(len(change), change.mean(), *mean_interval(torch.from_numpy(change)))


def audited(model: OwnModel, batch: Batch) -> Interval:
    """What `relevit audit` would say of these images and masks."""
    shown = (batch.images, batch.masks, batch.labels)
    return background_gap(lean_rows(model.network, model.spec, *shown, seed=0))


def rows(runs: Path) -> Iterator[dict[str, object]]:
    for name, weights in models(runs):
        model = open_model("dinov2-s", weights, classes=40, options={"img_size": SIDE})
        own = NOT_LEANING in name
        for draw in range(DRAWS if own else 1):
            home, random = twins(draw)
            masks = {"annotated": home}
            if name.startswith("original.") and not draw:
                found = tokencut_masks(home, torch.device("cpu"))
                kept = found.kept.nonzero()[:, 0]
                masks["tokencut"] = replace(home, masks=found.refined).select(kept)
            with autocast(torch.device("cpu"), choose_precision("auto", "cpu")):
                truth = redrawn(model, home, random)
                gaps = {kind: audited(model, batch) for kind, batch in masks.items()}
            for kind, gap in gaps.items():
                yield {
                    "model": name,
                    "draw": draw,
                    "masks": kind,
                    **_ends("redrawn", truth),
                    **_ends("gap", gap),
                    "images": gap.images,
                    "verdict": lean_verdict(gap, kind),
                }


def _ends(name: str, found: Interval) -> dict[str, float]:
    ends = zip(("", "_low", "_high"), found[1:], strict=True)
    return {f"{name}{end}_pts": np.round(value, 2) for end, value in ends}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    made = []
    for row in rows(parser.parse_args().runs):
        print(row, flush=True)
        made.append(row)
    pd.DataFrame(made).to_csv(TARGET, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()

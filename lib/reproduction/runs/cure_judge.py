"""Cures held against one task: the row of *Which cure?* for a function.

The task is a file (`assets/data/cure_task.yaml`): which original, which images and masks, how many
seeds. Its original and all its images are made here, and told by hash, so that rows of others can
stand beside one's own. Source: docs/cures.md has the comparison that this is a small form of.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import timm
import torch
from pydantic import Field
from torch import Tensor, nn

import relevit
from habitats.benchmark import Benchmark
from habitats.cutouts import SHIFTED_SETS, TEST_SETS
from habitats.homes import CHALLENGE, habitats
from relevit.base.device import choose_device, choose_precision
from relevit.base.errors import one_line
from relevit.base.files import project_root
from relevit.base.seeding import seeded
from relevit.choices.checked import Checked
from relevit.choices.finetuning import FinetuneChoices
from relevit.choices.numbers import Count, Epochs, Rate, Seed, Some, Temperature, Weight
from relevit.choices.words import ModelName, MoreLoss
from relevit.data.batch import Batch
from relevit.evaluate.predictions import BATCH, Classifier
from relevit.finetune.run import Start
from relevit.finetune.settings import FinetuneSettings, resolved
from relevit.models.dinov2 import fingerprint
from relevit.models.loading import load_model
from relevit.models.registry import shipped_weights
from reproduction.measures.context import backgrounds_challenge
from reproduction.measures.judged import load_callable
from reproduction.measures.paired import difference
from reproduction.params.yaml_files import yaml_values
from reproduction.runs.effects import worst
from reproduction.runs.run import with_masks

TASK = "cure_task.yaml"
ROWS = Path("docs", "results", "judge_cures")  # below the project
NO_ROWS = f"the rows are not here: they are in {ROWS.as_posix()} of the repository"
HOW = f"""Add a row: write a function (model, spec, batch, seed) -> model, and then
  relevit judge --cure my_cure.py:train --out {ROWS.as_posix()}/my_cure.json
  make numbers
and make a pull request of both. docs/judge.md says what the columns mean.
"""
NUMBERS = {"change_pts": "shifted sets", "val_pts": "val"}  # each with its interval
# Gets the original, how it takes pictures, images with masks and labels, and a seed; changes
# the model or gives another.
Cure = Callable[[nn.Module, Any, Batch, int], nn.Module | None]


class BuiltIn(FinetuneChoices):
    """A built-in cure, in the words of 02_finetune. What is None is the paper's."""

    model: ModelName
    class_term: Literal["confidence", "label"] = "label"
    keep: Literal["last"] = "last"
    temperature: Temperature | None = None
    weight_relevance: Weight | None = None
    weight_classification: Weight | None = 0.05
    weight_background: Weight | None = None
    weight_foreground: Weight | None = Field(None, validate_default=True)
    more_losses: dict[MoreLoss, Weight] = Field({})


class CureTask(Checked):
    """What `cure_task.yaml` says; another such file is another task."""

    version: int = Field(ge=1)
    model: ModelName
    images_per_class: Count[1]
    masks: Literal["annotated", "boxes"]
    seeds: Some[Seed]
    images_per_set: Count[40]
    challenge_images: Count[40]
    epochs: Epochs
    batch_size: Count[1, 65_536]
    rate: Rate
    cures: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, path: Path | None = None) -> CureTask:
        """The package's task, or that of a file. Raises: ValueError, FileNotFoundError."""
        path = path or Path(str(files("reproduction") / "assets" / "data" / TASK))
        task = cls.checked(yaml_values(path), str(path))
        for name in task.cures:
            task.settings(name, 0, where=f"{path}: {name}")
        return task

    def settings(
        self, name: str, seed: int, device: str = "cpu", where: str = "judge"
    ) -> FinetuneSettings:
        """A built-in cure as a finetuning run. Raises: ValueError for a wrong parameter."""
        base = {"model": self.model, "seed": seed, "epochs": self.epochs}
        base |= {"batch_size": self.batch_size}
        cure = BuiltIn.checked(base | self.cures[name], where)
        return resolved(cure, self.rate, choose_precision("auto", choose_device(device)))


class Opened(NamedTuple):
    """A task with its benchmark, its original's weights, what that one answers, and its gap."""

    task: CureTask
    bench: Benchmark
    origin: Path
    answers: pd.DataFrame
    gap_pts: float
    device: str = "auto"

    @property
    def images(self) -> list[Batch]:
        """What is finetuned on, a batch a seed."""
        size, found = self.bench.spec(self.task.model).image_size, []
        for seed in self.task.seeds:
            labels = [label for half in self.bench.split(seed) for label in half]
            drawn = self.bench.to_finetune(labels * self.task.images_per_class, seed, size)
            found.append(with_masks(drawn, self.task.masks))
        return found

    def hashes(self) -> set[str]:
        """The SHA-256 of the pixels of each test image, those of the gap among them."""
        counts = dict.fromkeys(TEST_SETS, self.task.images_per_set)
        counts |= dict.fromkeys(CHALLENGE, self.task.challenge_images)
        size, drawn = self.bench.spec(self.task.model).image_size, self.bench.test_batches
        batches = (drawn(name, count, BATCH, size=size) for name, count in counts.items())
        return {pixels_hash(image) for some in batches for batch in some for image in batch.images}


def open_task(task: CureTask, device: str = "auto") -> Opened:
    """The task, and the answers of its original."""
    bench, origin = habitats(), shipped_weights(task.model, "habitats")
    classifier = Classifier(load_model(task.model, origin, device=device), bench.spec(task.model))
    return Opened(
        task,
        bench,
        origin,
        _answers(classifier, task, bench),
        _gap(classifier, task, bench),
        device,
    )


def read_cure(given: str, task: CureTask, device: str = "auto") -> Cure:
    """A cure of the task by its name, or what `my_file.py:name` is.

    Raises: FileNotFoundError; ValueError for what is none.
    """
    if given in task.cures:
        return _built_in(given, task, device)
    known = f"FILE.py:NAME, or one of {', '.join(task.cures)}"
    return load_callable(given, f"cure; give {known}", "(model, spec, batch, seed) -> model")


def _built_in(name: str, task: CureTask, device: str) -> Cure:
    def cure(model: nn.Module, spec: Any, batch: Batch, seed: int) -> nn.Module:
        settings = task.settings(name, seed, device)
        start = Start(model, spec, batch, batch, 0, 0, {})
        with TemporaryDirectory() as folder:
            return start.finetuned(settings, Path(folder), validated=())[0]

    return cure


def judge(
    cure: Cure, name: str, opened: Opened, say: Callable[[str], object] = print
) -> dict[str, Any]:
    """The record of a cure: the row's numbers, versions, hashes of original and images.

    Raises: ValueError for a cure that fails, or gives what is no such model; as `load_model`.
    """
    task, bench, _, before, _, device = opened
    spec, parts, gaps, seconds = bench.spec(task.model), [], [], []
    for seed, batch in zip(task.seeds, opened.images, strict=True):
        begun = time.perf_counter()
        model = load_model(task.model, opened.origin, device=device)
        model = _cured(cure, model, spec, batch, seed)
        seconds.append(time.perf_counter() - begun)
        classifier = Classifier(model, spec)
        parts.append(_answers(classifier, task, bench).assign(seed=seed))
        gaps.append(_gap(classifier, task, bench))
        say(f"seed {seed}: {seconds[-1]:.0f} s, {100 * _mean(parts[-1]):.1f} % on the shifted sets")
    seen = pd.concat(parts, ignore_index=True)
    start = pd.concat([before.assign(seed=seed) for seed in task.seeds], ignore_index=True)
    numbers: dict[str, Any] = {}
    for key, sets in {"change_pts": None, "val_pts": ["val"]}.items():
        found = difference(seen, start, *([sets] if sets else []))
        numbers[key] = [round(found[end], 4) for end in ("change_pts", "low_pts", "high_pts")]
    numbers |= {"worst_home_pct": round(worst(seen, bench)["worst_home_pct"], 4)}
    numbers |= {"gap_pts": round(float(np.mean(gaps)), 4)}
    numbers |= {"seconds": round(float(np.mean(seconds)), 1)}
    return {"cure": name, "numbers": numbers, "before": _before(opened), **_made_by(opened)}


def _before(opened: Opened) -> dict[str, float]:
    """Top-1 of the original in percent, and its gap in points."""
    val = opened.answers[opened.answers["dataset"] == "val"]["right"].mean()
    found = {"shifted_pct": 100 * _mean(opened.answers), "val_pct": 100 * val}
    found |= {
        "worst_home_pct": worst(opened.answers.assign(seed=0), opened.bench)["worst_home_pct"]
    }
    return {
        key: round(float(each), 4) for key, each in (found | {"gap_pts": opened.gap_pts}).items()
    }


def _cured(cure: Cure, model: nn.Module, spec: Any, batch: Batch, seed: int) -> nn.Module:
    with seeded(seed, next(model.parameters()).device):
        try:
            found = cure(model, spec, batch, seed)
        except Exception as error:  # whatever the code of others raises
            raise ValueError(f"judge: the cure fails ({one_line(error)}); mend it") from error
    found = model if found is None else found
    if not isinstance(found, nn.Module):
        raise ValueError(
            f"judge: the cure gives a {type(found).__name__}; it changes the model that it is "
            "given, or returns one"
        )
    if bad := [key for key, part in found.named_parameters() if not part.isfinite().all()]:
        raise ValueError(f"judge: after the cure {bad[0]} has NaN or infinity; take a lower rate")
    return found.eval()


def _answers(classifier: Classifier, task: CureTask, bench: Benchmark) -> pd.DataFrame:
    """A row an image of the nine sets: dataset, index, label, right."""
    count, size = task.images_per_set, classifier.spec.image_size
    sets = {name: bench.test_batches(name, count, BATCH, size=size) for name in TEST_SETS}
    rows = classifier.answer(sets)
    return rows.assign(right=rows["label_rank"] == 0)[["dataset", "index", "label", "right"]]


def _gap(classifier: Classifier, task: CureTask, bench: Benchmark) -> float:
    found = backgrounds_challenge(classifier, bench.test_batches, task.challenge_images)
    return found["background_gap_pts"]


def _mean(answers: pd.DataFrame) -> float:
    shifted = answers[answers["dataset"].isin(SHIFTED_SETS)]
    return float(shifted.groupby("dataset")["right"].mean().mean())


def _made_by(opened: Opened) -> dict[str, Any]:
    weights = load_model(opened.task.model, opened.origin, device="cpu").state_dict()
    trained = {
        f"{place} {key}": part
        for place, batch in enumerate(opened.images)
        for key, part in (("images", batch.images), ("masks", batch.masks))
    }
    device = choose_device(opened.device).type
    versions = {each.__name__: each.__version__ for each in (relevit, torch, timm, np)}
    return {
        "task": opened.task.model_dump(),
        "original": fingerprint(weights),
        "finetuned_on": fingerprint(trained),
        "tested_on": hashlib.sha256("".join(sorted(opened.hashes())).encode()).hexdigest(),
        "versions": {"python": platform.python_version(), "device": device} | versions,
    }


def pixels_hash(image: Tensor) -> str:
    """SHA-256 of a picture's pixels, [3, height, width] of bytes, as rows of RGB."""
    return hashlib.sha256(image.permute(1, 2, 0).contiguous().numpy().tobytes()).hexdigest()


# The rows


def kept_in() -> Path:
    """Where the rows are; a folder that is not there without the repository."""
    try:
        return project_root() / ROWS
    except FileNotFoundError:
        return ROWS


def read_records(task: CureTask, folder: Path | None = None) -> list[dict[str, Any]]:
    """The rows that are kept, of the same task. Raises: ValueError for a file that is none."""
    found = []
    for path in sorted((folder or kept_in()).glob("*.json")):
        try:
            each = json.loads(path.read_text("utf-8"))
            in_words([each])
            same = each["task"] == task.model_dump()
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ValueError(f"judge: {path} is no whole row of a cure; judge it anew") from None
        found += [each] if same else []
        if same and not comparable(found[0], each):
            raise ValueError(
                f"judge: {path} was judged on another original or other images than the others; "
                "judge it anew"
            )
    return found


def comparable(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether both started from the same original, and saw the same images."""
    return all(one[key] == other[key] for key in ("task", "original", "finetuned_on", "tested_on"))


def in_words(records: Iterable[dict[str, Any]]) -> str:
    """The rows for a terminal."""
    return rows(records).to_string()


def rows(records: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """A row a cure, the largest gain first, with numbers and intervals as text."""
    found_rows, records = {}, list(records)
    for each in sorted(records, key=lambda each: -each["numbers"]["change_pts"][0]):
        found = each["numbers"]
        cells = {
            said: "{:+.1f} ({:+.1f} to {:+.1f})".format(*found[key])
            for key, said in NUMBERS.items()
        }
        cells |= {"worst home": f"{found['worst_home_pct']:.0f}", "gap": f"{found['gap_pts']:.1f}"}
        cells |= {"seconds": f"{found['seconds']:.0f}"}
        found_rows[each["cure"]] = cells
    if records:
        first = records[0]["before"]
        found_rows["(original)"] = {
            "shifted sets": f"{first['shifted_pct']:.1f} %",
            "val": f"{first['val_pct']:.1f} %",
            "worst home": f"{first['worst_home_pct']:.0f}",
            "gap": f"{first['gap_pts']:.1f}",
            "seconds": "",
        }
    return pd.DataFrame.from_dict(found_rows, orient="index").rename_axis("cure")

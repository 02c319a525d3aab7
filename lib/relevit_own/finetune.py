"""RobustViT's method, and its like, on one's own model and images, from a folder to tables.

`prepare` reads and checks all there is before any long work. `search` finetunes at each rate, and
`networks` adds a twin by the cure that ours is compared with: runs by their record, as those of
presets (`relevit.finetune.run`). Then `answer_all` tests each model, `audit_all` asks how much it
leans, and `changes` says what changed, image by image. `finetune_folder` does it all. Everything is
in the folder that it is given, and goes on where it stopped.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from relevit.base.device import choose_device, choose_precision
from relevit.base.errors import FailedError
from relevit.base.files import need_disk_space, write_atomically
from relevit.base.results import read_rows
from relevit.choices.finetuning import LOSS_WEIGHTS, FinetuneChoices
from relevit.data.batch import Batch
from relevit.data.filling import fit_for_swap
from relevit.evaluate.frozen_features import linear_probe
from relevit.evaluate.intervals import mean_interval
from relevit.evaluate.looking import Look, look
from relevit.evaluate.predictions import Classifier, accuracy_table
from relevit.finetune.augmenting import backgrounds
from relevit.finetune.epochs import LOG, WEIGHTS, History
from relevit.finetune.learning_rate import highest_passing, judge, taken_rate
from relevit.finetune.run import Start, named, noted, read_run
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import frozen_part, trained_weights
from relevit.models.checkpoints import load_weights, save_weights
from relevit.models.describing import need_grid_in_training
from relevit.models.dinov2 import fingerprint
from relevit.models.loading import OwnModel, open_model, side_of
from relevit.models.passport import write_passport
from relevit.models.trunk import Frozen
from relevit_own.audit import Audited, are_boxes, audit_images, with_masks
from relevit_own.choices import OWN_CURES, Cure, OwnChoices
from relevit_own.images import (
    HELD_OUT,
    TOKENCUT,
    OwnData,
    OwnImages,
    batches,
    decoded,
    divide,
    need_knowledge,
    numbered,
    sample,
    sample_evenly,
    training_images,
)
from relevit_own.run_folder import (
    SAID,
    Log,
    Say,
    claim,
    files_fingerprint,
    need_run_or_nothing,
    with_mask_files,
)
from relevit_own.table import Table

ORIGINAL = "original"
LEDGER = "ledger.csv"  # what each file was used for, or why not
REMEDY = "give --set head_classes=[...], else fit a new one with --new-head"
Step = Callable[[str, int, int], object]  # what is at work, steps done, and those of all runs


class _Told(dict[str, str]):
    """What is said of each cure; of an extension's the sentence of "" with its name in it."""

    def __missing__(self, cure: str) -> str:
        return self[""].format(cure)


# What tables and folders call the models, and what each cure trains on.
NAMES = _Told({
    "label": "without",
    "relevance": "with relevance",
    "swap": "with swaps",
    "both": "with both",
    "": "with {}",
})  # fmt: skip
ABOUT = _Told({
    "label": "the class term alone",
    "relevance": "the relevance terms",
    "swap": "the class term on swapped backgrounds",
    "both": "the relevance terms on swapped backgrounds",
    "": "the class term on images changed by {}",
})  # fmt: skip
COUNTS = ("images_per_class", "validation_images", "validation_maps")
# What a folder's runs are asked beside: cures that they are compared with and rates are free.
OF_RUNS = {*FinetuneChoices.model_fields, *LOSS_WEIGHTS, "more_losses", "cure"}
SWAPPED = ("swap", "both")
LOOKING = ("relevance", "both")


@dataclass(frozen=True)
class Row:
    """A run: a cure in its settings, on what it shares with others (`OwnRun.inputs`)."""

    cure: Cure
    settings: FinetuneSettings
    inputs: Mapping[str, Any]

    @property
    def record(self) -> dict[str, Any]:
        """Everything that its numbers follow from, as plain values: no device or place."""
        return {"cure": self.cure, "start": self.inputs} | self.settings.identity

    @property
    def name(self) -> str:
        """Its folder: the model as tables call it, the rate, and a digest."""
        return named([NAMES[self.cure].replace(" ", "_"), f"lr_{self.settings.lr:g}"], self.record)


@dataclass(frozen=True)
class OwnRun:
    """All that the steps need, of all runs of a folder; nothing in it changes."""

    choices: OwnChoices
    data: OwnData
    model: OwnModel  # the original
    images: OwnImages
    device: torch.device
    out: Path
    inputs: Mapping[str, Any]  # where all start and what they see, as plain values
    cure: Cure
    why: str  # it is that one
    settings: Mapping[Cure, FinetuneSettings]  # of its cure and of its twin's, at the first rate
    given: bool  # the model, as a network in Python

    @property
    def twin(self) -> Cure | None:
        """The cure that it is compared with; None where it is the same one, or not asked for."""
        return next((cure for cure in self.settings if cure != self.cure), None)

    def table(self, lr: float | None = None) -> list[Row]:
        """The table of runs: ours at each rate, lowest first, and the twin at `lr` once chosen."""
        wanted = [(self.cure, each) for each in sorted(self.choices.rates)]
        if self.twin and lr is not None:
            wanted.append((self.twin, lr))
        settings = self.settings
        return [
            Row(cure, settings[cure].model_copy(update={"lr": each}), self.inputs)
            for cure, each in wanted
        ]

    @property
    def start(self) -> Start:
        """Where all of them start, and what they see."""
        seen = self.images
        shown = (seen.train, seen.validation, len(seen.validation), seen.maps)
        how = (self.inputs, seen.found, bool(self.model.no_maps))
        return Start(self.model.network, self.model.spec, *shown, *how)

    @property
    def frozen(self) -> Frozen:
        """Where tokens of blocks that are not trained are kept until the run is finished."""
        return Frozen(self.out / "tokens", self.choices.trained_blocks)

    def shown(self, answers: pd.DataFrame) -> Table:
        """Test images for pictures: those that the cure or what it is held against alone names
        rightly, by turns, the first of each, of the set that has most of the rarer kind, so that
        the pictures do not show the wins of one alone.

        It is held against its twin, or the original where it has none. Where no image tells the two
        apart, it is the first of the first set. `answers` are those of `answer_all`.
        """
        models = answers["model"].unique()
        right = answers.assign(right=answers["label_rank"] == 0).pivot(
            index=["dataset", "index"], columns="model", values="right"
        )
        change = right[models[-1]].astype(int) - right[models[-2]].astype(int)
        counts = [(change == kind).groupby("dataset", sort=False).sum() for kind in (1, -1)]
        rarer = np.minimum(*counts)
        name = (rarer + sum(counts) / (1 + len(change))).idxmax()  # then of both
        kinds = change[name].sort_index()
        kinds = kinds[kinds != 0] if kinds.any() else kinds[:1]
        turn = kinds.groupby(kinds).cumcount().sort_values(kind="stable")
        part = sample(self.data.test[name], self.choices.test_images, self.choices.seed)
        return part.select(turn.index[: self.choices.shown])


# Which cure


def cure_settings(choices: OwnChoices, cure: Cure) -> dict[str, Any]:
    """What `FinetuneSettings` is told by a cure, beside rate and precision."""
    weights = {name.removeprefix("weight_"): getattr(choices, name) for name in LOSS_WEIGHTS}
    if cure not in LOOKING:
        weights["relevance"] = 0.0
    asked = {name: getattr(choices, name) for name in FinetuneChoices.model_fields}
    if cure not in SWAPPED:
        asked["augmentation"] = "none" if cure in OWN_CURES else cure
    return asked | {"weights": weights | choices.more_losses}


def taken_cure(choices: OwnChoices, train: Batch, drawn: Table | None) -> tuple[Cure, str]:
    """The cure of a run on the images `train`, and why it is that one.

    `drawn` has their masks as they are on disk, None where TokenCut made them. Source of what
    `auto` takes: docs/cures.md and docs/photographs.md.
    Raises: as `backgrounds`, where a swap is asked for and there is nothing to swap.
    """
    count = int(fit_for_swap(train).sum())
    asked = {choices.cure, choices.against if choices.control else ""}
    if count < 2 and asked & set(SWAPPED):
        backgrounds(train, choices.augmentation)  # which says why not
    if choices.cure != "auto":
        return choices.cure, "as asked"
    if drawn is not None and are_boxes(drawn.mask(place) for place in range(len(drawn))):
        return "relevance", "the masks are boxes, with which no other was better on drawings"
    if count < 2:
        found = f"{count} of {len(train)} training images have a mask and a background beside it"
        return "relevance", f"{found}, and a swap needs two"
    return "swap", "what led on photographs (docs/photographs.md)"


# Before the work


def prepare(
    choices: OwnChoices,
    out: Path | str,
    device: str = "auto",
    say: Say = lambda line: None,
    *,
    network: nn.Module | None = None,
    replace_other: bool = False,
) -> OwnRun:
    """Read and check images, masks and model; claim the folder `out`; fit a new head if asked for.

    A `network` with timm's `pretrained_cfg` takes the place of `own_model` and is left as it was;
    what is frozen in it stays frozen, which is said.
    `replace_other` removes another run that `out` holds, as a stage's folder is its notebook's own.
    Raises: ValueError, FileNotFoundError or ConnectionError in one sentence, before anything is
    written; ValueError for a folder that holds another run.
    """
    out, where = Path(out).expanduser(), choose_device(device)
    need_run_or_nothing(out)
    if network is None:
        side = side_of(choices.own_model, choices.own_options)
        number = choose_precision(choices.precision, where)
        say(f"{choices.own_model} at {side} x {side} pixels, on {where} in {number}")
    say(f"reading {choices.data}")
    data = divide(choices)
    weights = Path(choices.own_weights) if choices.own_weights else None
    wanted = len(data.classes) if choices.new_head else None
    options = {"classes": wanted, "new_head": choices.new_head, "options": choices.own_options}
    options["answers_alone"] = True  # which is all that labels and swaps need
    given = choices.own_model if network is None else copy.deepcopy(network)
    model = open_model(given, weights, **options, seed=choices.seed, device=where)
    data = data if choices.new_head else numbered(data, model, choices)
    trained = trained_weights(model.network, choices.trained_blocks)  # says where there are none
    frozen = frozen_part(model.network, choices.trained_blocks)
    data = replace(data, notes=(*data.notes, *_frozen_notes(len(trained), **frozen)))
    inputs = inputs_of(choices, data, model) | frozen
    claim(out, choices.model_dump(include=OF_RUNS) | inputs, replace_other)
    need_disk_space(out, 100 + 5 * sum(p.numel() * 4 for p in model.network.parameters()) // 2**20)
    _count(data, choices, say)
    images = training_images(choices, data, model, where, say)
    drawn = data.finetuning if data.masks == "annotated" else None
    cure, why = taken_cure(choices, images.train, drawn)
    say(f"cure {cure} ({ABOUT[cure]}): {why}")
    need_what_cures_read(model, [cure, choices.against] if choices.control else [cure])
    if model.new_head:
        model = _with_fitted_head(model, data, out, choices, say)
    else:
        need_knowledge(model, images.validation, "finetune: the original", REMEDY)
    if images.drawn is not None:
        masked = with_mask_files(images.drawn, images.train.masks, model.view, out / "masks")
        data = replace(data, finetuning=masked)
        inputs["images"] |= {"finetuning": files_fingerprint(masked)}
    if (found := images.found) is not None:
        inputs["found"] = fingerprint({"masks": found.refined.cpu(), "kept": found.kept.cpu()})
    how = {"lr": choices.rates[0], "precision": choose_precision(choices.precision, where)}
    asked = [cure, choices.against] if choices.control else [cure]
    settings = {each: FinetuneSettings(**cure_settings(choices, each), **how) for each in asked}
    given = network is not None
    run = OwnRun(choices, data, model, images, where, out, inputs, cure, why, settings, given)
    _plan(run, say)
    return run


def need_what_cures_read(model: OwnModel, cures: Sequence[Cure]) -> None:
    """Raise ValueError, before the work, for cures by maps and a model that has none to train on.

    In training it drops nothing that a map needs: with tokens left out it has no grid.
    """
    if not (looking := [cure for cure in cures if cure in LOOKING]):
        return
    if model.no_maps:
        raise ValueError(f"{model.no_maps}; or take the cures label and swap")
    need_grid_in_training(model.network, model.spec.image_size, looking[0])


def inputs_of(choices: OwnChoices, data: OwnData, model: OwnModel) -> dict[str, Any]:
    """What runs start from and see: with the settings of a run all that its numbers follow from.

    A new head is fitted to all of train.
    """
    spec, state = model.spec, model.network.state_dict()
    seen = {"finetuning": data.finetuning, "validation": data.validation}
    seen |= {"train": data.train} if model.new_head else {}
    return {
        "model": [spec.timm_name, dict(spec.options), *spec.mean, *spec.std, repr(spec.view)],
        "origin": fingerprint({key: value.cpu() for key, value in state.items()}),
        "new_head": model.new_head,
        "classes": list(data.classes),
        "masks": data.masks,
        "images": {name: files_fingerprint(part) for name, part in seen.items()},
        **choices.model_dump(include=set(COUNTS)),
    }


def _frozen_notes(trained: int, frozen: Sequence[str] = ()) -> list[str]:
    some = f"{len(frozen)} of the {len(frozen) + trained} weights to train"
    why = "as in the network that was given (requires_grad is False)"
    return [f"{some} stay frozen, {why}; the first is {frozen[0]}"] if frozen else []


def _count(data: OwnData, choices: OwnChoices, say: Say) -> None:
    present, c = len(set(data.train.labels.tolist())), choices
    most = f"{c.images_per_class} images of each at most are finetuned on"
    say(f"{present} classes; {most}; masks: {data.masks}")
    for name, part in ({"finetuning": data.finetuning} | data.parts).items():
        say(f"  {name:12} {len(part.images):6} images")
    for note in data.notes:
        say(f"  note: {note}")


def _plan(run: OwnRun, say: Say) -> None:
    c, steps = run.choices, -(-len(run.data.finetuning) // run.choices.batch_size)
    rates = ", ".join(f"{rate:g}" for rate in c.rates)
    then = f", then one with {ABOUT[run.twin]}" if run.twin else ""
    if c.control and not run.twin:
        then = f", and nothing to compare with, for against is {run.cure}, too"
    say(f"rates {rates}: epochs {c.epochs}, steps in each {steps}{then}")


def _with_fitted_head(
    model: OwnModel, data: OwnData, out: Path, choices: OwnChoices, say: Say
) -> OwnModel:
    """The model under a linear head, fitted to all of train on frozen features; kept in `out`."""
    path = out / "original.safetensors"
    if path.is_file():
        network = copy.deepcopy(model.network)
        load_weights(path, network, model.spec.name)
        return replace(model, network=network.eval())
    say("fitting a new head")
    network = linear_probe(model.network, model.spec, decoded(data.train, model.view))
    save_weights(path, network, model.spec.name)
    return replace(model, network=network)


# Finetuning


def search(
    run: OwnRun, say: Say = lambda line: None, step: Step = lambda what, done, steps: None
) -> pd.DataFrame:
    """Finetune at each rate: the rows of `OwnRun.table`, what `judge` says, and `log`, the history.

    Goes on where it stopped. A rate at which a loss became infinite has an infinite `drop_pts`.
    Raises: FailedError for a run that failed otherwise, with its reason; OSError for a full disk.
    """
    rows = []
    for row in run.table():
        history, lr = _made(run, row, say, step), row.settings.lr
        known = {"model": NAMES[row.cure], "cure": row.cure, "lr": lr, "folder": row.name}
        judged = judge(lr, history, row.settings) | {"log": history or []}
        rows.append(known | judged)
        say(f"rate {lr:g}: {_judged(rows[-1])}")
    return pd.DataFrame(rows)


def _judged(row: Mapping[str, Any]) -> str:
    """What the rule looks at, for people."""
    if not np.isfinite(row["drop_pts"]):
        return "the loss became infinite"
    before, after = row["class_loss_before"], row["class_loss"]
    return (
        f"validation top-1 changes by {-row['drop_pts']:+z.1f} points, the class loss from "
        f"{before:.3g} to {after:.3g} nats ({after - before:+.2g} ± {row['class_loss_error']:.1g})"
        f"{', a rise' if row['rising'] else ''}"
    )


def chosen_rate(run: OwnRun, rates: pd.DataFrame) -> float:
    """By the paper's rule; where no rate passes it, the lowest. Raises: as `taken_rate`."""
    return taken_rate(rates, run.choices.limit_pts)


def about_rate(run: OwnRun, rates: pd.DataFrame, lr: float) -> str:
    """How the rate was chosen, in a sentence."""
    if highest_passing(rates, run.choices.limit_pts) == lr:
        return f"rate {'by' if len(rates) > 1 else 'as given; it passes'} the rule: {lr:g}"
    row = rates.set_index("lr").loc[lr].to_dict()
    return (
        f"no rate passes the rule (top-1 within {run.choices.limit_pts:g} points, no rise of the "
        f"class loss); {lr:g} is the lowest and is taken: {_judged(row)}"
    )


def networks(
    run: OwnRun,
    lr: float,
    say: Say = lambda line: None,
    step: Step = lambda what, done, steps: None,
) -> dict[str, nn.Module]:
    """The original, its twin by `OwnRun.twin` (if there is one), and ours, at a rate, by name.

    There is no twin where its loss became infinite. Raises: as `search`.
    """
    found = {ORIGINAL: run.model.network}
    for row in reversed([row for row in run.table(lr) if row.settings.lr == lr]):
        if row.cure == run.twin:
            say(f"the same images, steps and rate with {ABOUT[row.cure]}")
        if _made(run, row, say, step):
            found[NAMES[row.cure]], _ = run.start.finetuned(row.settings, run.out / row.name)
        else:
            say("its loss became infinite: it is left out")
    return found


def _made(run: OwnRun, row: Row, say: Say, step: Step) -> History | None:
    """The log of a run, made where it is not; None where its loss became infinite.

    Raises: as `search`.
    """
    folder = run.out / row.name
    try:
        known = read_run(folder, or_diverged=True)
    except (FileNotFoundError, FailedError):
        folder.mkdir(exist_ok=True)
        noted(folder, {"record": row.record}, lambda known: _finetune(run, row, say, step))
        known = read_run(folder, or_diverged=True)
    return None if known["failed"] else read_rows(folder / LOG)


def _finetune(run: OwnRun, row: Row, say: Say, step: Step) -> None:
    """Finetune a run of the table in its folder, from the original or where it was stopped."""
    lr, epochs = row.settings.lr, row.settings.epochs
    name, rows = f"rate {lr:g}, cure {row.cure}", run.table(lr)
    before, runs = rows.index(row), len(rows)
    goes_on = True  # unless its first epoch is seen

    def on_epoch(row: Mapping[str, Any]) -> None:
        if row["epoch"]:
            say(f"  {name}: epoch {row['epoch']} of {epochs}")

    def on_step(epoch: int, done: int, steps: int) -> None:
        nonlocal goes_on
        if goes_on and epoch > 1:
            say(f"  {name}: going on from epoch {epoch - 1} of {epochs}")
        goes_on, what = False, f"{name}, epoch {epoch} of {epochs}"
        step(what, (before * epochs + epoch - 1) * steps + done, runs * epochs * steps)

    how = {"kept": run.frozen.folder, "on_epoch": on_epoch, "on_step": on_step}
    run.start.finetuned(row.settings, run.out / row.name, **how)


# What came of it


def answer_all(
    run: OwnRun, models: Mapping[str, nn.Module], say: Say = lambda line: None
) -> pd.DataFrame:
    """Every model's answer to every test image: columns of `Classifier.answer`, and `model` and
    `file` (its path in the set's folder).
    """
    c, rows = run.choices, []
    shown = {name: sample(part, c.test_images, c.seed) for name, part in run.data.test.items()}
    files = [name for part in shown.values() for name in part.ids]
    for name, network in models.items():
        classifier = Classifier(network, run.model.spec, frozen=run.frozen)
        sets = {dataset: batches(part, run.model.view) for dataset, part in shown.items()}
        rows.append(classifier.answer(sets).assign(model=name, file=files))
        say(f"answered: {name}")
    return pd.concat(rows, ignore_index=True)


def audit_all(
    run: OwnRun, models: Mapping[str, nn.Module], say: Say = lambda line: None
) -> dict[str, Audited]:
    """The audit of each model on held-out images, by its name (`audit.audit_images`).

    Their masks are TokenCut's where those of finetuning are. Where nothing can be put on another
    background there is no audit, and `say` is told why.
    """
    c, tokencut, part = run.choices, run.data.masks == TOKENCUT, run.data.test[HELD_OUT]
    if not tokencut:
        part = part.select(np.flatnonzero(part.rows["mask"].notna()))
    part = sample_evenly(part, c.looked_at, c.seed)
    if not len(part):
        say("no background gap: no held-out image has a mask")
        return {}
    images, notes = decoded(part, run.model.view), []
    try:
        if tokencut:
            images, part, note = with_masks(run.model, images, part, c.protocol)
            notes.append(note)
        return {
            name: audit_images(
                name, replace(run.model, network=network), images, part, run.data.classes,
                data=c.data, tokencut=tokencut, notes=notes, seed=c.seed, ledger=run.data.ledger,
            )
            for name, network in models.items()
        }  # fmt: skip
    except ValueError as error:
        say(f"no background gap: {error}")
        return {}


def examples(
    run: OwnRun, models: Mapping[str, nn.Module], answers: pd.DataFrame
) -> tuple[Batch, dict[str, Look]]:
    """The images of `OwnRun.shown`, and what each model sees in them."""
    batch, names = decoded(run.shown(answers), run.model.view), list(run.data.classes)
    return batch, {name: look(m, run.model.spec, batch, names) for name, m in models.items()}


def accuracies(answers: pd.DataFrame) -> pd.DataFrame:
    """Top-1 in percent, a row a set and a column a model, in the order of `answers`."""
    table = accuracy_table(answers, ["dataset", "model"])
    table = table.pivot(index="dataset", columns="model", values="top1_pct")
    return table.loc[answers["dataset"].unique(), answers["model"].unique()]


def changes(answers: pd.DataFrame) -> pd.DataFrame:
    """What finetuning changed and what its cure added, on each set, paired image by image.

    The models are those of `networks`, in their order.
    Columns: dataset, change (`with relevance - original` and so on), images, gained and lost
    (images newly right and newly wrong), change_pts, low_pts and high_pts (95 % over images,
    `evaluate.intervals`). One run each: what other seeds would give is not in it.
    """
    right = answers.assign(right=(answers["label_rank"] == 0).astype(float)).pivot(
        index=["dataset", "index"], columns="model", values="right"
    )
    original, *twin, ours = answers["model"].unique()
    pairs = [(ours, original), *((name, original) for name in twin), *((ours, n) for n in twin)]
    rows = []
    for dataset in answers["dataset"].unique():
        for after, before in pairs:
            change = (right[after] - right[before]).loc[dataset].to_numpy()
            gained, lost = int((change > 0).sum()), int((change < 0).sum())
            ends = 100 * change.mean(), *mean_interval(torch.from_numpy(100 * change))
            rows.append((dataset, f"{after} - {before}", len(change), gained, lost, *ends))
    columns = ["dataset", "change", "images", "gained", "lost", "change_pts", "low_pts", "high_pts"]
    return pd.DataFrame(rows, columns=columns)


# All of it


@dataclass(frozen=True)
class OwnResult:
    """What `finetune_folder` leaves in its folder, as tables; `lr` is the rate of the rule."""

    run: OwnRun
    lr: float
    rates: pd.DataFrame
    answers: pd.DataFrame
    changes: pd.DataFrame
    audits: Mapping[str, Audited]
    models: Mapping[str, nn.Module]

    @property
    def weights(self) -> Path:
        """The finetuned model, as plain timm takes it."""
        return self.run.out / WEIGHTS


def finetune_folder(
    choices: OwnChoices,
    out: Path | str,
    device: str = "auto",
    say: Say = lambda line: None,
    step: Step = lambda what, done, steps: None,
    *,
    network: nn.Module | None = None,
) -> OwnResult:
    """Finetune a model by a cure, from a folder of images to tables in `out`.

    Source: RobustViT Sec. 3-4. The rate is the paper's rule's on the validation images; then the
    same by the cure `against`, so that what `cure` adds is told from what more training does.
    Leaves the weights, the tables of `save`, `run.json` and `log.txt`; a run that was stopped goes
    on. `network` as in `prepare`. `say` is told each line for people, `step` each step.
    Raises: as `prepare`, `search` and `chosen_rate`.
    """
    say = Log(say)
    run = prepare(choices, out, device, say, network=network)
    say.file = run.out / SAID
    rates = search(run, say, step)
    lr = chosen_rate(run, rates)
    say(about_rate(run, rates, lr))
    models = networks(run, lr, say, step)
    answers = answer_all(run, models, say)
    audits = audit_all(run, models, say)
    result = OwnResult(run, lr, rates, answers, changes(answers), audits, models)
    save(result)
    return result


def save(result: OwnResult) -> None:
    """Write the weights, and `rates`, `answers`, `changes` and `lean` (each answer of the audits)
    as parquet, and `audits.json`, an `Audit` a model."""
    out, audits = result.run.out, result.audits
    lean = [found.rows.assign(model=name) for name, found in audits.items()]
    tables = {
        "rates": result.rates.drop(columns="log"),
        "answers": result.answers,
        "changes": result.changes,
        "lean": pd.concat(lean, ignore_index=True) if lean else pd.DataFrame(),
    }
    for name, table in tables.items():
        write_atomically(out / f"{name}.parquet", table.to_parquet)
    facts = {name: found.audit.model_dump() for name, found in audits.items()}
    write_atomically(out / "audits.json", json.dumps(facts, indent=1) + "\n")
    write_atomically(out / LEDGER, result.run.data.ledger.files.to_csv(index=False))
    taken = next(row for row in result.run.table() if row.settings.lr == result.lr)
    made = out / taken.name / WEIGHTS
    write_atomically(result.weights, lambda target: shutil.copyfile(made, target))
    model, ours = result.run.model, list(result.models.values())[-1]
    write_passport(result.weights, ours, model.spec, result.run.data.classes)
    shutil.rmtree(result.run.frozen.folder, ignore_errors=True)

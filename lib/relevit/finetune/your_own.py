"""RobustViT's method, and its like, on one's own model and images, from a folder to tables.

`prepare` reads and checks all there is before any long work, `search` finetunes by the paper's rule
for the learning rate, `networks` does the same by the cure that it is compared with, `answer_all`
and `look_at_all` test each model, `changes` says what changed, image by image. `finetune_folder`
does it all. Everything is in the folder that it is given, and goes on where it stopped.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy
import torch
from torch import nn

from relevit.base.device import choose_device, choose_precision
from relevit.base.files import file_fingerprint, need_disk_space, write_atomically
from relevit.choices.own import OwnChoices
from relevit.choices.words import Cure
from relevit.data.batch import Batch, join
from relevit.data.image_set import AHEAD
from relevit.data.own.check import samples
from relevit.data.own.listing import Listing
from relevit.evaluate.frozen_features import linear_probe
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.evaluate.lean import background_gap, lean_rows
from relevit.evaluate.looking import Look, look, look_rows
from relevit.evaluate.predictions import BATCH, make_classifier, predict
from relevit.finetune.epochs import WEIGHTS, History
from relevit.finetune.learning_rate import highest_passing, judge
from relevit.finetune.loop import finetune
from relevit.finetune.own_cure import ABOUT, NAMES, cure_settings, taken_cure
from relevit.finetune.own_data import HELD_OUT, TOKENCUT, OwnData, divide, sample, sample_evenly
from relevit.finetune.own_folder import (
    FREE,
    SAID,
    Log,
    Say,
    claim,
    files_fingerprint,
    of_run,
    origin,
    scaled,
    with_mask_files,
)
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import frozen_part, trained_weights
from relevit.finetune.validation import validation_figures
from relevit.masks import AutomaticMasks, automatic_masks, feature_model, feature_spec, sound
from relevit.models.checkpoints import load_weights, save_weights
from relevit.models.loading import OwnModel, open_model, side_of
from relevit.models.spec import View
from relevit.models.trunk import Frozen
from relevit.protocols import Protocol, options

ORIGINAL = "original"
REMEDY = "give --set head_classes=[...], else fit a new one with --new-head"
FEATURES, FEATURE_SIDE = "dinov2-s", 224  # what TokenCut cuts, and the pixels it is shown
SQUEEZED = 256 / 224  # side that training crops from, over the model's (B4)
FEWEST_MAPS = 4  # annotated validation images below which TokenCut makes their masks, too
FEWEST_TO_TELL = 20  # validation images, whether a head knows the classes
TRIES = 4  # times as many images as asked for, in which TokenCut looks for objects
PROBED = 100  # validation images on which bfloat16 is compared with float32
Step = Callable[[str, int, int], object]  # what is at work, steps done, and those of all runs


@dataclass(frozen=True)
class OwnImages:
    """What runs train on and choose on, decoded. The first `maps` of validation have masks."""

    train: Batch
    validation: Batch
    maps: int
    found: AutomaticMasks | None  # of these, where they are TokenCut's
    drawn: Listing | None = None  # those to train on, where TokenCut makes their masks
    looked: int = 0  # images in which it looked for them


@dataclass(frozen=True)
class OwnRun:
    """All that the steps need; nothing in it changes."""

    choices: OwnChoices
    data: OwnData
    model: OwnModel  # the original
    images: OwnImages
    device: torch.device
    out: Path
    identity: Mapping[str, Any]
    cure: Cure
    why: str  # it is that one

    @property
    def twin(self) -> Cure | None:
        """The cure that it is compared with; None where it is the same one, or not asked for."""
        c = self.choices
        return c.against if c.control and c.against != self.cure else None

    @property
    def settings(self) -> FinetuneSettings:
        """Of the runs, at the first of the rates."""
        return self.settings_of(self.cure)

    def settings_of(self, cure: Cure) -> FinetuneSettings:
        """As `settings`, by any cure."""
        c = self.choices
        precision = choose_precision(c.precision, self.device)
        return FinetuneSettings(**cure_settings(c, cure), lr=c.rates[0], precision=precision)

    @property
    def frozen(self) -> Frozen:
        """Where tokens of blocks that are not trained are kept until the run is finished."""
        return Frozen(self.out / "tokens", self.choices.trained_blocks)

    @property
    def shown(self) -> Listing:
        """Test images for pictures: of as many classes as possible, of the last shifted set, or
        held out."""
        return samples(list(self.data.test.values())[-1], self.choices.shown, self.choices.seed)


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
    Where `own_model` is the folder of a run before, its model and classes are meant.
    `replace_other` removes another run that `out` holds, as a stage's folder is its notebook's own.
    Raises: ValueError, FileNotFoundError or ConnectionError in one sentence, before anything is
    written; ValueError for a folder that holds another run.
    """
    out, where, choices = Path(out).expanduser(), choose_device(device), of_run(choices)
    if network is None:
        side = side_of(choices.own_model, choices.own_options)
        number = choose_precision(choices.precision, where)
        say(f"{choices.own_model} at {side} x {side} pixels, on {where} in {number}")
    say(f"reading {choices.data}")
    data = divide(choices)
    weights, wanted = Path(choices.own_weights) if choices.own_weights else None, len(data.classes)
    options = {"classes": wanted, "new_head": choices.new_head, "options": choices.own_options}
    given = choices.own_model if network is None else copy.deepcopy(network)
    model = open_model(given, weights, **options, seed=choices.seed, device=where)
    model = scaled(model, data.train.white)
    trained = trained_weights(model.network, choices.trained_blocks)  # says where there are none
    frozen = frozen_part(model.network, choices.trained_blocks)
    data = replace(data, notes=(*data.notes, *_frozen_notes(len(trained), **frozen)))
    identity: dict[str, Any] = {
        "choices": choices.model_dump(exclude=set(FREE)),
        "weights": origin(weights, network),
        "table": file_fingerprint(Path(choices.data)) if Path(choices.data).is_file() else "",
        "classes": list(data.classes),
        "images": {name: files_fingerprint(part) for name, part in data.parts.items()},
    } | frozen
    if data.train.white:
        identity["white"] = data.train.white
    claim(out, identity, replace_other)
    need_disk_space(out, 100 + 5 * sum(p.numel() * 4 for p in model.network.parameters()) // 2**20)
    _count(data, choices, say)
    images = _training_images(choices, data, model, where, say)
    drawn = data.finetuning if data.masks == "annotated" else None
    cure, why = taken_cure(choices, images.train, drawn)
    say(f"cure {cure} ({ABOUT[cure]}): {why}")
    if model.new_head:
        model = _with_fitted_head(model, data, out, choices, say)
    else:
        need_knowledge(model, images.validation, "finetune: the original", REMEDY)
    if images.drawn is not None:
        masked = with_mask_files(images.drawn, images.train.masks, model.view, out / "masks")
        data = replace(data, finetuning=masked)
        identity["finetuned on"] = files_fingerprint(masked)
    run = OwnRun(choices, data, model, images, where, out, identity, cure, why)
    _plan(run, say)
    return run


def _frozen_notes(trained: int, frozen: Sequence[str] = ()) -> list[str]:
    some = f"{len(frozen)} of the {len(frozen) + trained} weights to train"
    why = "as in the network that was given (requires_grad is False)"
    return [f"{some} stay frozen, {why}; the first is {frozen[0]}"] if frozen else []


def _count(data: OwnData, choices: OwnChoices, say: Say) -> None:
    present, c = len(set(data.train.labels.tolist())), choices
    say(f"{present} classes, {c.images_per_class} images of each finetuned on; masks: {data.masks}")
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
    network = linear_probe(model.network, model.spec, _read(data.train, model.view))
    save_weights(path, network, model.spec.name)
    return replace(model, network=network)


# Finetuning


def search(
    run: OwnRun, say: Say = lambda line: None, step: Step = lambda what, done, steps: None
) -> pd.DataFrame:
    """Finetune at each rate; one row a rate, as `judge` gives it, and `log`, its history.

    Goes on where it stopped. A rate at which a loss became infinite has an infinite `drop_pts`.
    """
    rows = []
    for place, lr in enumerate(sorted(run.choices.rates)):
        try:
            history = _finetuned(run, run.cure, lr, say, step, place)[1]
        except FloatingPointError:  # far too high: a finding, not an accident
            rows.append({"lr": lr, "drop_pts": float("inf"), "rising": True, "log": []})
        else:
            rows.append(judge(lr, history, run.settings) | {"log": history})
        say(f"rate {lr:g}: {_judged(rows[-1])}")
    return pd.DataFrame(rows)


def _judged(row: Mapping[str, Any]) -> str:
    """What the rule looks at, for people."""
    if not np.isfinite(row["drop_pts"]):
        return "the loss became infinite"
    before, after = row["class_loss_before"], row["class_loss"]
    change = round(-row["drop_pts"], 1) + 0.0  # no -0.0
    return (
        f"validation top-1 changes by {change:+.1f} points, the class loss from "
        f"{before:.3g} to {after:.3g} nats ({after - before:+.2g} ± {row['class_loss_error']:.1g})"
        f"{', a rise' if row['rising'] else ''}"
    )


def chosen_rate(run: OwnRun, rates: pd.DataFrame) -> float:
    """By the paper's rule (`highest_passing`); where none passes it, the one that harms least.

    That is the smallest fall of top-1, and of equal falls the smallest rise of the class loss.
    Raises: ValueError when the loss became infinite at every rate.
    """
    passing = highest_passing(rates, run.choices.limit_pts)
    if passing is not None:
        return passing
    finite = rates[np.isfinite(rates["drop_pts"])]
    if finite.empty:
        raise ValueError(
            f"finetune: the loss became infinite at each of the rates {sorted(rates['lr'])}; give "
            "a lower one, such as --rate 1.0e-7"
        )
    harm = finite.assign(drop=finite["drop_pts"].clip(lower=0)).assign(
        rise=finite["class_loss"] - finite["class_loss_before"]
    )
    return float(harm.sort_values(["drop", "rise", "lr"])["lr"].iloc[0])


def about_rate(run: OwnRun, rates: pd.DataFrame, lr: float) -> str:
    """How the rate was chosen, in a sentence."""
    if highest_passing(rates, run.choices.limit_pts) == lr:
        return f"rate {'by' if len(rates) > 1 else 'as given; it passes'} the rule: {lr:g}"
    row = rates.set_index("lr").loc[lr].to_dict()
    return (
        f"no rate passes the rule (top-1 within {run.choices.limit_pts:g} points, no rise of the "
        f"class loss); {lr:g} harms least and is taken: {_judged(row)}"
    )


def networks(
    run: OwnRun,
    lr: float,
    say: Say = lambda line: None,
    step: Step = lambda what, done, steps: None,
) -> dict[str, nn.Module]:
    """The original, its twin by `OwnRun.twin` (if there is one), and ours, at a rate, by name.

    There is no twin where its loss became infinite.
    """
    found = {ORIGINAL: run.model.network}
    if run.twin:
        say(f"the same images, steps and rate with {ABOUT[run.twin]}")
        try:
            last = len(run.choices.rates)
            found[NAMES[run.twin]] = _finetuned(run, run.twin, lr, say, step, last)[0]
        except FloatingPointError:
            say("its loss became infinite: it is left out")
    found[NAMES[run.cure]] = _finetuned(run, run.cure, lr, say, step)[0]
    return found


def _folder_of(run: OwnRun, cure: Cure, lr: float) -> Path:
    return run.out / f"{NAMES[cure].replace(' ', '_')}_lr_{lr:.1e}"


def _finetuned(
    run: OwnRun, cure: Cure, lr: float, say: Say, step: Step, before: int = 0
) -> tuple[nn.Module, History]:
    """One run from the original, after so many of its length; read when its folder is there."""
    settings = run.settings_of(cure).changed(lr=lr)
    epochs, name = settings.epochs, f"rate {lr:g}, cure {cure}"
    runs = len(run.choices.rates) + bool(run.twin)
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

    network, shown, spec = copy.deepcopy(run.model.network), run.images.validation, run.model.spec
    figures = validation_figures(
        spec,
        images=len(shown),
        maps=run.images.maps,
        precision=settings.precision,
        masks=run.images.found,
        draw=lambda name, places, **options: shown.select(list(places)),
        frozen=run.frozen,
    )
    history = finetune(
        network,
        spec,
        run.images.train,
        figures,
        settings,
        _folder_of(run, cure, lr),
        inputs=dict(run.identity),
        kept=run.frozen.folder,
        on_epoch=on_epoch,
        on_step=on_step,
    )
    return network, history


# Images


def _training_images(
    choices: OwnChoices, data: OwnData, model: OwnModel, device: torch.device, say: Say
) -> OwnImages:
    """Decoded, with their masks; TokenCut's where there are no others."""
    part, annotated, view = data.validation, data.masks == "annotated", model.view
    order = np.random.default_rng(choices.seed).permutation(len(part)).tolist()
    order.sort(key=lambda place: part.masks[place] is None)
    shown = part.select(order[: choices.validation_images])
    masked, maps = int(shown.rows["mask"].notna().sum()), min(choices.validation_maps, len(shown))
    if annotated:
        view = replace(view, **options(choices.protocol, "View.mask"))
    train = _read(data.finetuning, _to_crop(view)) if annotated else None
    if annotated and masked >= FEWEST_MAPS:
        halves = [shown.select(range(masked)), shown.select(range(masked, len(shown)))]
        read = [_read(half, view) for half in halves if len(half)]
        kind = read[0].masks.dtype
        validation = join([replace(each, masks=each.masks.to(kind)) for each in read])
        return OwnImages(train, validation, min(maps, masked), None)
    validation = _read(shown, model.view)
    say(f"TokenCut finds the objects of {maps} validation images")
    found = tokencut_masks(validation.select(range(maps)), device, choices.protocol)
    _need_objects(bool(found.kept.any()), maps, "validation")
    if annotated:
        return OwnImages(train, validation, maps, found)
    return OwnImages(
        validation=validation,
        maps=maps,
        found=found,
        **_with_objects(choices, data.train, view, device, say),
    )


def _with_objects(
    choices: OwnChoices, part: Listing, view: View, device: torch.device, say: Say
) -> dict[str, Any]:
    """The first images of each class in which TokenCut finds an object: fields of `OwnImages`.

    It looks at no more than TRIES as many as are asked for.
    """
    wanted, labels = choices.images_per_class, part.labels.numpy()
    left = {label: np.flatnonzero(labels == label)[: TRIES * wanted] for label in set(labels)}
    batches, places, looked = [], [], 0
    missing = dict.fromkeys(left, wanted)
    say(f"TokenCut looks for images of each class with an object: {wanted}")
    while asked := [place for label in left for place in left[label][: missing[label]]]:
        left = {label: row[missing[label] :] for label, row in left.items()}
        looked += len(asked)
        images = _read(part.select(asked), view)
        found = tokencut_masks(images, device, choices.protocol)
        kept = found.kept.nonzero()[:, 0]
        batches.append(replace(images, masks=found.refined).select(kept))
        places += (chosen := [asked[place] for place in kept.tolist()])
        for place in chosen:
            missing[labels[place]] -= 1
    _need_objects(bool(places), looked, "finetuning")
    if lost := looked - len(places):
        say(f"  note: in {lost} of {looked} it found no object, or the background in its place")
    for label, count in missing.items():
        if count:
            say(f"  note: class {part.classes[label]} has {wanted - count} images to finetune on")
    order = np.argsort(places, kind="stable").tolist()  # as they are in the part
    drawn = part.select([places[i] for i in order])
    return {"train": join(batches).select(order), "drawn": drawn, "looked": looked}


def _need_objects(some: bool, count: int, what: str) -> None:
    """Raise ValueError where no image has a mask that is worth training on (B15, B17)."""
    if not some:
        raise ValueError(
            f"finetune: TokenCut finds no object in any of the {count} {what} images; give "
            "masks, or more images"
        )


def need_knowledge(model: OwnModel, images: Batch, what: str, mend: str) -> None:
    """Raise ValueError for a head that has learned other classes, or these in another order."""
    answers = predict(model.network, model.spec, images.split(BATCH))
    right, classes = int((answers["label_rank"] == 0).sum()), model.spec.classes
    by_chance = scipy.stats.binomtest(right, len(images), 1 / classes, alternative="greater")
    if by_chance.pvalue > 0.05 and len(images) >= FEWEST_TO_TELL:
        raise ValueError(
            f"{what} is right on {right} of {len(images)} images, no more than a guess among its "
            f"{classes} classes; if its head has the classes in another order, {mend}"
        )


def _to_crop(view: View) -> View:
    """Squeezed to more pixels than the model takes, out of which training crops (B4)."""
    side = round(view.crop * SQUEEZED)
    return replace(view, resize=side, crop=side, squash=True)


def _read(part: Listing, view: View) -> Batch:
    return join(list(_batches(part, view)))


def _batches(part: Listing, view: View) -> Iterator[Batch]:
    """A part's images in its order, with masks where every image has one.

    Those that cannot be read are gone: one that is skipped now would shift all after it.
    """
    return part.image_set(view).batches(BATCH, ahead=AHEAD)


def tokencut_masks(
    batch: Batch, device: torch.device, protocol: Protocol = "published"
) -> AutomaticMasks:
    """Masks of one's own images, which have no annotation; kept are those of an object."""
    network = feature_model(FEATURES, FEATURE_SIDE, device)
    refining = options(protocol, "refine")
    return sound(automatic_masks(network, feature_spec(FEATURES), batch.images, **refining))


# What came of it


def answer_all(
    run: OwnRun, models: Mapping[str, nn.Module], say: Say = lambda line: None
) -> pd.DataFrame:
    """Every model's answer to every test image: columns of `Classifier.predict`, and `model`,
    `dataset`, `index` (number of the image in its set) and `file` (its path in the set's folder).
    """
    c, spec, rows = run.choices, run.model.spec, []
    shown = run.images.validation
    probe = list(shown.select(range(min(PROBED, len(shown)))).split(BATCH))
    for name, network in models.items():
        classifier = make_classifier(network, spec, c.precision, probe=probe, frozen=run.frozen)
        for dataset, part in run.data.test.items():
            shown = sample(part, c.test_images, c.seed)
            answers = classifier.predict(_batches(shown, run.model.view))
            names = {"index": range(len(answers)), "file": shown.ids}
            rows.append(answers.assign(model=name, dataset=dataset, **names))
        say(f"answered: {name}")
    return pd.concat(rows, ignore_index=True)


def look_at_all(run: OwnRun, models: Mapping[str, nn.Module]) -> pd.DataFrame:
    """Where each model looks, on test images with a mask: `look_rows`, `model` and `file`.

    Without any such image the table is empty.
    """
    names, rows = list(run.data.classes), []
    for dataset, part in run.data.test.items():
        masked = part.select(np.flatnonzero(part.rows["mask"].notna()))
        shown = sample(masked, run.choices.looked_at, run.choices.seed)
        if not len(shown):
            continue
        batch = _read(shown, run.model.view)
        seen = batch.masks.flatten(1).any(dim=1).nonzero()[:, 0]
        batch, files = batch.select(seen), shown.select(seen).ids
        for name, network in models.items():
            found = look_rows(look(network, run.model.spec, batch, names), batch, dataset)
            rows.append(found.assign(model=name, file=files))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def lean_of_all(
    run: OwnRun, models: Mapping[str, nn.Module], say: Say = lambda line: None
) -> pd.DataFrame:
    """What each model answers to held-out images on other backgrounds: `lean_rows` and `model`.

    Their masks are TokenCut's where those of finetuning are. Where nothing can be put on another
    background the table is empty, and `say` is told why.
    """
    part, view = run.data.test[HELD_OUT], run.model.view
    if run.data.masks != TOKENCUT:
        part = part.select(np.flatnonzero(part.rows["mask"].notna()))
    part = sample_evenly(part, run.choices.looked_at, run.choices.seed)
    if not len(part):
        say("no background gap: no held-out image has a mask")
        return pd.DataFrame()
    batch, rows = _read(part, view), []
    if run.data.masks == TOKENCUT:
        found = tokencut_masks(batch, run.device, run.choices.protocol)
        batch = replace(batch, masks=found.refined).select(found.kept.nonzero()[:, 0])
    if not len(batch):
        say("no background gap: TokenCut finds no object in any held-out image")
        return pd.DataFrame()
    shown = (batch.images, batch.masks > 0.5, batch.labels)
    try:
        for name, network in models.items():
            found = lean_rows(network, run.model.spec, *shown, seed=run.choices.seed)
            background_gap(found)
            rows.append(found.assign(model=name))
    except ValueError as error:
        say(f"no background gap: {error}")
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def examples(run: OwnRun, models: Mapping[str, nn.Module]) -> tuple[Batch, dict[str, Look]]:
    """The images of `OwnRun.shown`, and what each model sees in them."""
    batch, names = _read(run.shown, run.model.view), list(run.data.classes)
    return batch, {name: look(m, run.model.spec, batch, names) for name, m in models.items()}


def lean_gaps(lean: pd.DataFrame) -> pd.DataFrame:
    """The background gap of each model of `lean_of_all`, in points, with its 95 % interval.

    Columns: model, images, gap_pts, low_pts, high_pts.
    """
    columns = ["model", "images", "gap_pts", "low_pts", "high_pts"]
    parts = lean.groupby("model", sort=False) if len(lean) else ()
    rows = [(model, *background_gap(part)) for model, part in parts]
    return pd.DataFrame(rows, columns=columns)


def accuracies(answers: pd.DataFrame) -> pd.DataFrame:
    """Top-1 of each model on each set, in percent, with the 95 % interval over images.

    Columns: dataset, model, images, top1_pct, low_pct, high_pct.
    """
    rows = []
    for (dataset, model), part in answers.groupby(["dataset", "model"], sort=False):
        right = 100.0 * (part["label_rank"] == 0).to_numpy(dtype=float)
        interval = mean_interval(torch.from_numpy(right), PERCENT)
        rows.append((dataset, model, len(right), right.mean(), *interval))
    columns = ["dataset", "model", "images", "top1_pct", "low_pct", "high_pct"]
    return pd.DataFrame(rows, columns=columns)


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
    accuracies: pd.DataFrame
    changes: pd.DataFrame
    looks: pd.DataFrame
    lean: pd.DataFrame
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
    Leaves `weights.safetensors`, `rates`, `accuracies`, `changes`, `looks` and `lean` as parquet,
    `run.json` and `log.txt`; a run that was stopped goes on. `network` as in `prepare`. `say` is
    told each line for people, `step` each step.
    Raises: as `prepare` and `chosen_rate`.
    """
    say = Log(say)
    run = prepare(choices, out, device, say, network=network)
    say.file = run.out / SAID
    rates = search(run, say, step)
    lr = chosen_rate(run, rates)
    say(about_rate(run, rates, lr))
    models = networks(run, lr, say, step)
    answers = answer_all(run, models, say)
    looks, lean = look_at_all(run, models), lean_of_all(run, models, say)
    result = OwnResult(run, lr, rates, accuracies(answers), changes(answers), looks, lean, models)
    save(result, answers)
    return result


def save(result: OwnResult, answers: pd.DataFrame) -> None:
    """Write the tables and the weights."""
    tables = {
        "answers": answers,
        "rates": result.rates.drop(columns="log"),
        "accuracies": result.accuracies,
        "changes": result.changes,
        "looks": result.looks,
        "lean": result.lean,
    }
    for name, table in tables.items():
        write_atomically(result.run.out / f"{name}.parquet", table.to_parquet)
    made = _folder_of(result.run, result.run.cure, result.lr) / WEIGHTS
    write_atomically(result.weights, lambda target: shutil.copyfile(made, target))
    shutil.rmtree(result.run.frozen.folder, ignore_errors=True)

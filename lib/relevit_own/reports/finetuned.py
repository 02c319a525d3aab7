"""The page on a run of `relevit finetune`: what was done, what changed, how to use the model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from relevit.finetune.learning_rate import highest_passing
from relevit.models.card import load_code, write_card
from relevit_own.audit import Audited
from relevit_own.choices import OwnChoices
from relevit_own.finetune import (
    ABOUT,
    LEDGER,
    NAMES,
    ORIGINAL,
    SWAPPED,
    OwnResult,
    OwnRun,
    about_rate,
    accuracies,
    examples,
)
from relevit_own.images import HELD_OUT
from relevit_own.reports.checked import sample_grid
from relevit_own.reports.page import Part, audit_parts, drawn, html, write_page
from reproduction import plots

REPORT, CARD = "report.html", "README.md"
NO_AUDIT = "Not known: too few of the held-out images have an object that can be put elsewhere."


def write_report(result: OwnResult) -> Path:
    """Write `report.html` and the model's card beside the results; the page's path."""
    plots.set_style()
    run, table = result.run, accuracies(result.answers).round(1)
    notes = list(run.data.notes)
    if highest_passing(result.rates, run.choices.limit_pts) is None:
        notes.insert(0, about_rate(run, result.rates, result.lr))
    if result.audits:
        notes += result.audits[ORIGINAL].audit.notes
    facts = {"classes": len(run.data.classes), "images": len(run.data.finetuning)}
    settings = run.settings[run.cure].model_copy(update={"lr": result.lr}).identity
    write_card(run.out / CARD, run.model, ABOUT[run.cure], settings, facts, table, result.weights)
    lean = Part("How much it leans on the background", [NO_AUDIT])
    parts = audit_parts(result.audits) if result.audits else [lean]
    return write_page(
        run.out / REPORT,
        title=f"{run.model.spec.name} on {run.data.train.name}",
        finding=finding(run, result.changes) + leaned(run, result.audits),
        parts=[_images(run), _answers(result, table), *parts, _maps(result), *_made(result)],
        notes=list(dict.fromkeys(notes)),  # the audit's are of the same files
        files=[LEDGER],
    )


def finding(run: OwnRun, changes: pd.DataFrame) -> str:
    """The main sentence: what the cure added on the shifted sets, or on the held-out images."""
    ours = NAMES[run.cure]
    shifted = changes[changes["dataset"] != HELD_OUT]
    rows = shifted if len(shifted) else changes
    where = "on the shifted sets" if len(shifted) else "on the held-out images"
    means = rows.groupby("change", sort=False)["change_pts"].mean()
    text = f"Finetuned with {ABOUT[run.cure]}, top-1 changes by "
    text += f"{means[f'{ours} - {ORIGINAL}']:+z.1f} points {where}."
    twin = NAMES[run.twin] if run.twin else ""
    if f"{twin} - {ORIGINAL}" not in means:
        return f"{text} No other cure is beside it, so what this one adds is not known."
    added = rows[rows["change"] == f"{ours} - {twin}"]
    gains, losses = int((added["low_pts"] > 0).sum()), int((added["high_pts"] < 0).sum())
    beyond = f"a gain beyond chance on {gains} of {len(added)} sets and a loss on {losses}"
    if len(added) == 1:
        known = "a gain beyond" if gains else "a loss beyond" if losses else "no more than"
        beyond = f"{known} chance"
    return (
        f"{text} The same images and steps with {ABOUT[run.twin]} change it by "
        f"{means[f'{twin} - {ORIGINAL}']:+z.1f}. The difference of the two is "
        f"{added['change_pts'].mean():+z.1f}: {beyond} (95 % over images, one run)."
    )


def leaned(run: OwnRun, audits: Mapping[str, Audited]) -> str:
    """How much the original leaned on the background, and how much the result does."""
    if not audits:
        return ""
    told = []
    for name in (ORIGINAL, NAMES[run.cure]):
        audit = audits[name].audit
        gap = audit.gap_pts
        told.append(f"{gap.value:z.0f} points ({gap.low:z.0f} to {gap.high:z.0f}: {audit.verdict})")
    return f" Its background gap was {told[0]}, and is {told[1]}."


def command(choices: OwnChoices, out: Path) -> str:
    """The line in a terminal that makes the same run."""
    default = _values(OwnChoices.model_construct())
    settings = [
        f"{name}={_yaml(value)}"
        for name, value in _values(choices).items()
        if value != default.get(name) and name not in ("own_model", "data")
    ]
    words = ["relevit", "finetune", "--model", choices.own_model, "--data", choices.data]
    words += ["--out", str(out), *(["--set", *settings] if settings else [])]
    return shlex.join(words)


def _values(choices: OwnChoices) -> dict[str, Any]:
    return choices.model_dump(exclude_none=True)


def _yaml(value: Any) -> str:
    """In a line, as the command reads it."""
    style = {"default_flow_style": True, "allow_unicode": True, "width": float("inf")}
    return yaml.safe_dump(value, **style).removesuffix("...\n").strip()


def _images(run: OwnRun) -> Part:
    used = {"finetuned on": run.data.finetuning, "validation": run.data.validation, **run.data.test}
    masks = "annotated"
    if run.images.drawn is not None:
        lost = run.images.looked - len(run.data.finetuning)
        masks = "TokenCut's, without annotation; the folder masks has them, for --masks to read"
        masks += f"; it found none to train on in {lost} more" * bool(lost)
    text = (
        f"{len(run.data.classes)} classes. The masks of training are {masks}. Below are some: "
        "outlined in their image, and without the rest of it."
    )
    counts = pd.DataFrame({"images": {name: len(part) for name, part in used.items()}})
    figure = drawn(sample_grid(run.data.finetuning, run.choices.seed))
    return Part("The images", [text], tables=[html(counts)], figures=[figure])


def _answers(result: OwnResult, table: pd.DataFrame) -> Part:
    run, changes = result.run, result.changes
    ends = [f"{r.low_pts:+z.1f} to {r.high_pts:+z.1f}" for r in changes.itertuples()]
    columns = ["change", "images", "gained", "lost", "change_pts", "interval"]
    cures = [cure for cure in (run.twin, run.cure) if cure]
    called = " and ".join(f'"{NAMES[cure]}" is {ABOUT[cure]}' for cure in cures)
    text = f"The cure is {run.cure}: {run.why}. In the tables {called}."
    if not set(SWAPPED).isdisjoint(cures):
        text += " Swapped: half of each batch is on the backgrounds of other training images."
    paired = (
        "Every model answers the same images. Gained and lost are images newly right and newly "
        "wrong; the interval, 95 %, is over images. Another seed would finetune to other "
        "weights: repeat the run with a few before you rely on it."
    )
    shown = changes.assign(interval=ends).set_index("dataset")[columns]
    tables = [html(table), html(shown.rename(columns={"change_pts": "points"}))]
    figure = drawn(plots.paired_changes(changes, "Change of top-1, 95 % intervals"))
    return Part("The answers", [text, paired], tables=tables, figures=[figure])


def _maps(result: OwnResult) -> Part:
    if result.run.model.no_maps:
        return Part("Its maps", [f"None: {result.run.model.no_maps}."])
    run, (batch, looks) = result.run, examples(result.run, result.models, result.answers)
    text = (
        "GAE's map of the predicted class, on images that only one of the last two models names "
        "rightly, by turns, of the set that has most of the rarer kind. Where one model alone "
        "has such images, they show its wins. Bright is relevant, each map over its own range. A "
        "wrong answer is orange and in italics. A white line is around an object whose mask is "
        "known."
    )
    names = [run.data.classes[label] for label in batch.labels]
    figure = drawn(plots.looks_grid(batch.images, names, looks, batch.masks))
    return Part("Its maps", [text], figures=[figure])


def _made(result: OwnResult) -> list[Part]:
    """By which rate and which command, and how to use what came of it."""
    run, settings = result.run, result.run.settings[result.run.cure]
    logs = {row.lr: row.log for row in result.rates.itertuples() if row.log}
    figure = drawn(plots.rate_curves(logs, run.choices.limit_pts, settings))
    rule = (
        f"The paper's rule: the highest rate at which validation top-1 falls by at most "
        f"{run.choices.limit_pts:g} points and the classification loss does not rise. "
        f"{about_rate(run, result.rates, result.lr).capitalize()}."
    )
    if run.twin:
        rule += f" It was found with {ABOUT[run.cure]}; the cure beside it ran at the same rate."
    text = f"On {run.device}, in {settings.precision}, by this command; all else is the default:"
    if run.given:
        text = f"{text[:-1]}, and the model was handed over in Python:"
    return [
        Part("The learning rate", [rule], figures=[figure]),
        Part("Use it", ["The weights are plain timm's:"], load_code(run.model, result.weights)),
        Part("How it was made", [text], command(run.choices, run.out)),
    ]

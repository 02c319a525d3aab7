"""The page on a run of `relevit finetune`: what was done, what changed, how to use the model.

It has all pictures in it. Tables and pictures scroll where they do not fit, and the maps wrap.
"""

from __future__ import annotations

import base64
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import yaml
from markupsafe import escape
from matplotlib.figure import Figure

from relevit.base.files import write_atomically
from relevit.choices.own import OwnChoices
from relevit.finetune.learning_rate import highest_passing
from relevit.finetune.own_cure import ABOUT, NAMES, SWAPPED
from relevit.finetune.own_data import HELD_OUT
from relevit.finetune.your_own import ORIGINAL, OwnResult, OwnRun, about_rate, examples, lean_gaps
from relevit.models.card import load_code, write_card
from reproduction import plots
from reproduction.plots.style import picture_kind, stored

REPORT, CARD = "report.html", "README.md"
LONG = 20  # rows from which a table is folded
# Of `relevit finetune`, by what they set; all else is set by --set.
FLAGS = {
    "own_model": "--model",
    "own_weights": "--weights",
    "own_options": "--model-options",
    "data": "--data",
    "masks": "--masks",
    "images_folder": "--images",
    "object_values": "--object",
    "ignored_values": "--ignore",
    "shifted": "--shifted",
    "new_head": "--new-head",
    "cure": "--cure",
    "against": "--against",
}


def write_report(result: OwnResult) -> Path:
    """Write `report.html` and the model's card beside the results; the page's path."""
    plots.set_style()
    template = jinja2.Template(
        (files("reproduction") / "assets" / "your_own.html.j2").read_text("utf-8"), autoescape=True
    )
    run = result.run
    notes = list(run.data.notes)
    if highest_passing(result.rates, run.choices.limit_pts) is None:
        notes.insert(0, about_rate(run, result.rates, result.lr))
    page = template.render(
        title=f"{run.model.spec.name} on {run.data.train.name}",
        finding=finding(run, result.changes) + leaned(run, result.lean),
        notes=notes,
        parts=[part(result) for part in (_images, _accuracy, _lean, _maps, _rate, _use, _made)],
    )
    path = run.out / REPORT
    write_atomically(path, page)
    facts = {"classes": len(run.data.classes), "images": len(run.data.finetuning)}
    if run.data.train.white:
        facts["white in greys of more than 8 bits"] = run.data.train.white
    settings = run.settings.changed(lr=result.lr).identity
    table, about = accuracy_table(result), ABOUT[run.cure]
    write_card(run.out / CARD, run.model, about, settings, facts, table, result.weights)
    return path


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


def leaned(run: OwnRun, lean: pd.DataFrame) -> str:
    """How much the original leaned on the background, and how much the result does."""
    gaps = lean_gaps(lean).set_index("model")
    if gaps.empty:
        return ""
    before, after = (gaps.loc[name] for name in (ORIGINAL, NAMES[run.cure]))
    told = [f"{x.gap_pts:+z.0f} ({x.low_pts:+z.0f} to {x.high_pts:+z.0f})" for x in (before, after)]
    return f" Its background gap was {told[0]} points, and is {told[1]}."


def command(choices: OwnChoices, out: Path) -> str:
    """The line in a terminal that makes the same run."""
    words, settings, default = [], [], _values(OwnChoices())
    for name, value in _values(choices).items():
        if value == default.get(name) and name not in ("own_model", "data"):
            continue
        if name in FLAGS:
            words += [FLAGS[name], *_words(value)]
        elif name == "rates" and len(value) == 1:
            words += ["--rate", str(value[0])]
        elif name == "corrupted":
            words.append("--skip-unreadable")
        else:
            settings += _words({name: value})
    settings = ["--set", *settings] if settings else []
    return shlex.join(["relevit", "finetune", *words, *settings, "--out", str(out)])


def _values(choices: OwnChoices) -> dict[str, Any]:
    return choices.model_dump(exclude_none=True)


def _words(value: Any) -> list[str]:
    """What follows a flag."""
    if isinstance(value, dict):
        return [f"{key}={_yaml(of_key)}" for key, of_key in value.items()]
    if isinstance(value, bool):
        return []
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _yaml(value: Any) -> str:
    """In a line, as the command reads it."""
    style = {"default_flow_style": True, "allow_unicode": True, "width": float("inf")}
    return yaml.safe_dump(value, **style).removesuffix("...\n").strip()


def accuracy_table(result: OwnResult) -> pd.DataFrame:
    """Top-1 in percent, a row a set and a column a model."""
    table = result.accuracies.pivot(index="dataset", columns="model", values="top1_pct")
    return table.loc[result.accuracies["dataset"].unique(), list(result.models)].round(1)


def _images(result: OwnResult) -> dict[str, Any]:
    run = result.run
    used = {"finetuned on": run.data.finetuning, "validation": run.data.validation, **run.data.test}
    masks = "annotated"
    if run.images.drawn is not None:
        lost = run.images.looked - len(run.data.finetuning)
        masks = "TokenCut's, without annotation; the folder masks has them, for --masks to read"
        masks += f"; it found none to train on in {lost} more" * bool(lost)
    return {
        "heading": "The images",
        "texts": [
            f"{len(run.data.classes)} classes. The masks of training are {masks}. Below are some: "
            "outlined in their image, and without the rest of it."
        ],
        "tables": [_html(pd.DataFrame({"images": {name: len(p) for name, p in used.items()}}))],
        "figures": [_img(plots.sample_grid(run.data.finetuning, run.choices.seed))],
    }


def _accuracy(result: OwnResult) -> dict[str, Any]:
    changes = result.changes.assign(
        interval=[f"{r.low_pts:+z.1f} to {r.high_pts:+z.1f}" for r in result.changes.itertuples()]
    )
    columns = ["change", "images", "gained", "lost", "change_pts", "interval"]
    return {
        "heading": "The answers",
        "texts": [
            f"The cure is {result.run.cure}: {result.run.why}. {_models(result.run)}",
            "Every model answers the same images. Gained and lost are images newly right and newly "
            "wrong; the interval, 95 %, is over images. Another seed would finetune to other "
            "weights: repeat the run with a few before you rely on it.",
        ],
        "tables": [
            _html(accuracy_table(result)),
            _html(changes.set_index("dataset")[columns]),
            _by_class(result),
        ],
        "figures": [_img(plots.paired_changes(result.changes, "Change of top-1, 95 % intervals"))],
    }


def _models(run: OwnRun) -> str:
    """What the tables call the models."""
    cures = [cure for cure in (run.twin, run.cure) if cure]
    told = " and ".join(f'"{NAMES[cure]}" is {ABOUT[cure]}' for cure in cures)
    text = f"In the tables {told}."
    if not set(SWAPPED).isdisjoint(cures):
        text += " Swapped: half of each batch is on the backgrounds of other training images."
    return text


def _by_class(result: OwnResult) -> str:
    """Top-1 of the set that is shown, a row a class that it has."""
    dataset = list(result.run.data.test)[-1]
    answers = pd.read_parquet(result.run.out / "answers.parquet").query("dataset == @dataset")
    right = 100.0 * (answers["label_rank"] == 0)
    groups = right.groupby([answers["label"], answers["model"]])
    table = groups.mean().unstack()[list(result.models)]
    table.insert(0, "images", groups.size().unstack()[ORIGINAL])
    table.index = [result.run.data.classes[label] for label in table.index]
    return _folded(f"Top-1 by class, on {dataset}", table)


def _lean(result: OwnResult) -> dict[str, Any]:
    gaps = lean_gaps(result.lean)
    if gaps.empty:
        text = "Not known: too few of the held-out images have an object that can be put elsewhere."
        return {"heading": "How much it leans on the background", "texts": [text]}
    top1 = 100 * result.lean.assign(right=result.lean["right"].astype(float)).pivot_table(
        index="model", columns="condition", values="right", sort=False
    )
    intervals = [f"{row.low_pts:+z.1f} to {row.high_pts:+z.1f}" for row in gaps.itertuples()]
    table = gaps.set_index("model")[["images", "gap_pts"]].assign(interval=intervals)
    return {
        "heading": "How much it leans on the background",
        "texts": [
            "Held-out images with their object put on other backgrounds. The gap is top-1 on those "
            "of the same class less that on another's (same, other), in points; the interval, 95 "
            "%, is over images. Control: on its own background, filled in. Filled: the object is "
            "painted over. relevit audit says more of one model."
        ],
        "tables": [_html(table), _html(top1)],
    }


def _maps(result: OwnResult) -> dict[str, Any]:
    run, (batch, looks) = result.run, examples(result.run, result.models)
    name, part = list(run.data.test.items())[-1]
    drawn, known = (len(set(some.labels.tolist())) for some in (run.shown, part))
    text = (
        f"GAE's map of the predicted class, on {len(batch)} images of {name} drawn by the seed, of "
        f"{drawn} of its {known} classes. Bright is relevant, each map over its own range. A wrong "
        "answer is orange and in italics."
    )
    if batch.masks.any():
        text += " A white line is around the object."
    tables = []
    if len(result.looks):
        columns = {"on_object_pct": "relevance on the object (%)", "iou_pct": "IoU (%)"}
        means = result.looks.groupby(["dataset", "model"], sort=False)[list(columns)].mean()
        tables = [_html(means.rename(columns=columns).reset_index(level=1))]
    shown = []
    for i, (file, label) in enumerate(zip(run.shown.ids, batch.labels.tolist(), strict=True)):
        image, mask = batch.images[i], batch.masks[i]
        tiles = [("image", run.data.classes[label], True, plots.map_tile(image))]
        for model, seen in looks.items():
            tile = plots.map_tile(image, seen.heatmaps[i], mask)
            tiles.append((model, seen.titles[i], bool(seen.right[i]), tile))
        shown.append((file, [(*said, _img(tile, margin=0)) for *said, tile in tiles]))
    return {"heading": "Where it looks", "texts": [text], "tables": tables, "examples": shown}


def _rate(result: OwnResult) -> dict[str, Any]:
    run = result.run
    logs = {row.lr: row.log for row in result.rates.itertuples() if row.log}
    figure = plots.rate_curves(logs, run.choices.limit_pts, run.settings)
    text = (
        f"The paper's rule: the highest rate at which validation top-1 falls by at most "
        f"{run.choices.limit_pts:g} points and the classification loss does not rise. "
        f"{about_rate(run, result.rates, result.lr).capitalize()}."
    )
    if run.twin:
        text += f" It was found with {ABOUT[run.cure]}; the cure beside it ran at the same rate."
    return {"heading": "The learning rate", "texts": [text], "figures": [_img(figure)]}


def _use(result: OwnResult) -> dict[str, Any]:
    return {
        "heading": "Use it",
        "texts": ["The weights are plain timm's:"],
        "code": load_code(result.run.model, result.weights),
    }


def _made(result: OwnResult) -> dict[str, Any]:
    run = result.run
    text = f"On {run.device}, in {run.settings.precision}, by this command:"
    if run.identity["weights"] and not run.choices.own_weights:
        text = f"{text[:-1]} but with a model that was handed over in Python:"
    value, default = _values(run.choices), _values(OwnChoices())
    rows = {
        name: (_yaml(value.get(name)), _yaml(default.get(name)), field.description or "")
        for name, field in OwnChoices.model_fields.items()
    }
    columns = ["value", "default", "what it is"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    changed = table["value"] != table["default"]
    return {
        "heading": "How it was made",
        "texts": [text],
        "code": command(run.choices, run.out),
        "tables": [
            _html(table[changed], "settings"),
            _folded("All other settings", table[~changed].drop(columns="default"), "settings"),
        ],
    }


def _html(table: pd.DataFrame, kind: str = "numbers") -> str:
    with pd.option_context("display.max_colwidth", None):
        plain = table.rename_axis(index=None, columns=None)
        inside = plain.to_html(border=0, classes=kind, float_format="{:z.1f}".format)
    return f'<div class="wide">{inside}</div>'


def _folded(summary: str, table: pd.DataFrame, kind: str = "numbers") -> str:
    """Open where it is short."""
    shown = " open" * (kind == "numbers" and len(table) <= LONG)
    inside = f"<summary>{escape(summary)}</summary>{_html(table, kind)}"
    return f"<details{shown}>{inside}</details>"


def _img(figure: Figure, margin: float = 0.05) -> str:
    """A picture as an element of the page, with its text for those who do not see it."""
    kind = picture_kind(figure)
    data, said = stored(figure, kind, margin)
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return f'<img alt="{escape(said["alt"])}" width="{said["width"]}" src="{source}">'

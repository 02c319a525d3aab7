"""The page on a run of `relevit finetune`: what was done, what changed, how to use the model."""

from __future__ import annotations

import base64
import io
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from matplotlib.figure import Figure

from relevit import plots
from relevit.base.files import write_atomically
from relevit.finetune.learning_rate import highest_passing
from relevit.finetune.your_own import (
    HELD_OUT,
    ORIGINAL,
    WITH,
    WITHOUT,
    OwnResult,
    about_rate,
    examples,
)
from relevit.models.card import load_code, write_card
from relevit.plots.style import alternative_text

REPORT, CARD = "report.html", "README.md"


def write_report(result: OwnResult) -> Path:
    """Write `report.html` and the model's card beside the results; the page's path."""
    plots.set_style()
    template = jinja2.Template(
        (files("relevit") / "assets" / "your_own.html.j2").read_text("utf-8"), autoescape=True
    )
    run = result.run
    notes = list(run.data.notes)
    if highest_passing(result.rates, run.choices.limit_pts) is None:
        notes.insert(0, about_rate(run, result.rates, result.lr))
    page = template.render(
        title=f"{run.choices.own_model} on {run.data.train.name}",
        finding=finding(result.changes),
        notes=notes,
        parts=[_images(result), _accuracy(result), _maps(result), _rate(result), _use(result)],
    )
    path = run.out / REPORT
    write_atomically(path, lambda target: target.write_text(page, encoding="utf-8"))
    facts = {"classes": len(run.data.classes), "images": len(run.data.finetuning)}
    settings = run.settings.changed(lr=result.lr).identity
    write_card(run.out / CARD, run.model, settings, facts, accuracy_table(result), result.weights)
    return path


def finding(changes: pd.DataFrame) -> str:
    """The main sentence: what relevance added on the shifted sets, or on the held-out images."""
    shifted = changes[changes["dataset"] != HELD_OUT]
    rows = shifted if len(shifted) else changes
    where = "on the shifted sets" if len(shifted) else "on the held-out images"
    means = rows.groupby("change", sort=False)["change_pts"].mean()
    text = f"Finetuned on where it looks, top-1 changes by {means[f'{WITH} - {ORIGINAL}']:+.1f} "
    text += f"points {where}."
    if f"{WITHOUT} - {ORIGINAL}" not in means:
        return f"{text} There was no control, so what relevance added to the training is not known."
    added = rows[rows["change"] == f"{WITH} - {WITHOUT}"]
    sure = int((added["low_pts"] > 0).sum()), int((added["high_pts"] < 0).sum())
    return (
        f"{text} The same finetuning without the relevance terms changes it by "
        f"{means[f'{WITHOUT} - {ORIGINAL}']:+.1f}, so that these terms add "
        f"{added['change_pts'].mean():+.1f}. Of {len(added)} sets {sure[0]} gain by them beyond "
        f"chance and {sure[1]} lose (95 % over images, one run)."
    )


def accuracy_table(result: OwnResult) -> pd.DataFrame:
    """Top-1 in percent, a row a set and a column a model."""
    table = result.accuracies.pivot(index="dataset", columns="model", values="top1_pct")
    order = [name for name in (ORIGINAL, WITHOUT, WITH) if name in table]
    return table.loc[result.accuracies["dataset"].unique(), order].round(1)


def _images(result: OwnResult) -> dict[str, Any]:
    run = result.run
    used = {"finetuned on": run.data.finetuning, "validation": run.data.validation, **run.data.test}
    table = pd.DataFrame({"images": {name: len(part) for name, part in used.items()}})
    masks = "annotated" if run.data.masks == "annotated" else "TokenCut's, without annotation"
    return {
        "heading": "The images",
        "texts": [f"{len(run.data.classes)} classes. The masks of training are {masks}."],
        "table": _html(table),
        "figures": [_img(plots.sample_grid(run.data.finetuning, run.choices.seed))],
    }


def _accuracy(result: OwnResult) -> dict[str, Any]:
    changes = result.changes.assign(
        interval=[f"{r.low_pts:+.1f} to {r.high_pts:+.1f}" for r in result.changes.itertuples()]
    )
    columns = ["change", "images", "gained", "lost", "change_pts", "interval", "p"]
    table = changes.set_index("dataset")[columns].round({"change_pts": 1})
    table["p"] = [f"{p:.3f}" if p >= 0.001 else "below 0.001" for p in table["p"]]
    return {
        "heading": "The answers",
        "texts": [
            "Every model answers the same images. Gained and lost are images newly right and newly "
            "wrong; the interval is a bootstrap over images, p is McNemar's exact test. Another "
            "seed would finetune to other weights: repeat the run with a few before you rely on it."
        ],
        "table": _html(accuracy_table(result)) + _html(table),
        "figures": [_img(plots.paired_changes(result.changes, "Change of top-1, 95 % intervals"))],
    }


def _maps(result: OwnResult) -> dict[str, Any]:
    batch, looks = examples(result.run, result.models)
    names = [str(result.run.data.classes[label]) for label in batch.labels]
    figure = plots.looks_grid(batch.images, names, looks, batch.masks)
    part: dict[str, Any] = {
        "heading": "Where it looks",
        "texts": ["GAE's map of the predicted class, below each model's answer."],
        "figures": [_img(figure)],
    }
    if len(result.looks):
        columns = {"on_object_pct": "relevance on the object (%)", "iou_pct": "IoU (%)"}
        means = result.looks.groupby(["dataset", "model"], sort=False)[list(columns)].mean()
        part["table"] = _html(means.rename(columns=columns).round(1).reset_index(level=1))
    return part


def _rate(result: OwnResult) -> dict[str, Any]:
    run = result.run
    logs = {row.lr: row.log for row in result.rates.itertuples() if row.log}
    figure = plots.rate_curves(logs, run.choices.limit_pts, run.settings)
    text = (
        f"The paper's rule: the highest rate at which validation top-1 falls by at most "
        f"{run.choices.limit_pts:g} points and the classification loss does not rise. "
        f"{about_rate(run, result.rates, result.lr).capitalize()}."
    )
    return {"heading": "The learning rate", "texts": [text], "figures": [_img(figure)]}


def _use(result: OwnResult) -> dict[str, Any]:
    return {
        "heading": "Use it",
        "texts": ["The weights are plain timm's:"],
        "code": load_code(result.run.model, result.weights),
        "figures": [],
    }


def _html(table: pd.DataFrame) -> str:
    return table.rename_axis(index=None, columns=None).to_html(border=0)


def _img(figure: Figure) -> str:
    """A picture as an element of the page, with its text for those who do not see it."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    text = alternative_text(figure).replace('"', "'")
    source = f"data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"
    return f'<img alt="{text}" src="{source}">'

"""The page on a run of `relevit audit`, with all pictures in it, and `audit.json` beside it."""

from __future__ import annotations

import base64
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import jinja2
from PIL import Image

from relevit.base.files import write_atomically
from relevit.evaluate.lean import CONDITIONS, shown_as
from relevit.finetune.own_audit import Audited

PAGE, FACTS, ROWS = "index.html", "audit.json", "rows.csv"
TILES = {  # of CONDITIONS, in few words
    "original": "as it is",
    "same": "on another of its class",
    "other": "on another class",
    "filled": "painted over",
}
QUALITY = 85  # of a JPEG


def need_free(out: Path) -> None:
    """Raise ValueError for a folder that holds something else than an audit."""
    if out.exists() and (
        not out.is_dir() or ({e.name for e in out.iterdir()} and not (out / FACTS).is_file())
    ):
        raise ValueError(f"audit: {out} is not empty and holds no audit; give another --out")


def write_audit(found: Audited, out: Path) -> Path:
    """Write the page, `audit.json` (`Audit` says its fields) and each answer; the page's path."""
    need_free(out)
    out.mkdir(parents=True, exist_ok=True)
    template = jinja2.Template(
        (files("reproduction") / "assets" / "audited.html.j2").read_text("utf-8"), autoescape=True
    )
    audit = found.audit
    page = template.render(
        audit=audit,
        conditions=CONDITIONS,
        tiles=TILES,
        examples=_examples(found),
        facts=FACTS,
        rows=ROWS,
    )
    rows = found.rows.assign(
        label=[found.names[label] for label in found.rows["label"]],
        answer=[found.names[answer] for answer in found.rows["answer"]],
    )
    columns = ["file", *rows.columns.drop(["file", "image"])]
    texts = {
        ROWS: rows[columns].to_csv(index=False, float_format="%.4f"),
        PAGE: page,
        FACTS: audit.model_dump_json(indent=1) + "\n",
    }
    for name, text in texts.items():
        write_atomically(out / name, text)
    return out / PAGE


def _examples(found: Audited) -> list[dict[str, Any]]:
    """Each image of `Audited.examples` in the ways of TILES, with the answers."""
    images, wanted = found.images, set(found.examples)
    pictures = {}
    shown = shown_as(images.images, images.masks, images.labels, seed=found.audit.seed)
    for condition, places, tiles in shown:
        if condition in TILES:
            for place, tile in zip(places.tolist(), tiles, strict=True):
                if place in wanted:
                    pictures[place, condition] = _jpeg(tile)
    rows = found.rows.set_index(["image", "condition"])
    told = []
    for place in found.examples:
        tiles = []
        for condition in TILES:
            row = rows.loc[(place, condition)]
            answer = found.names[row["answer"]]
            share = 100 * row["probability"]
            tiles.append((condition, answer, bool(row["right"]), share, pictures[place, condition]))
        told.append({"file": row["file"], "label": found.names[row["label"]], "tiles": tiles})
    return told


def _jpeg(picture: Any) -> str:
    data = BytesIO()
    Image.fromarray(picture.permute(1, 2, 0).numpy()).save(data, "jpeg", quality=QUALITY)
    return base64.b64encode(data.getvalue()).decode()

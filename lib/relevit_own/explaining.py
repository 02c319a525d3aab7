"""Pictures of one's own and where models look in them: `relevit explain`.

`prepare` looks at all that is asked for before a model is opened, `explain_pictures` does it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from relevit.attribution import check_known
from relevit.base.errors import one_line
from relevit.base.files import full_disk_said, write_atomically
from relevit.data.pictures import READING, mark, open_image, opened
from relevit.models.loading import OwnModel
from relevit.models.spec import Mask, is_deep
from relevit_own.check import DEEP, stretched
from relevit_own.explained import Found, Subject, class_names, class_number, look_into
from relevit_own.loose import find_masks, find_pictures
from relevit_own.outlines import fitting_mask
from reproduction.plots.overlay import Overlay, overlay_figure
from reproduction.plots.style import readable

FORMATS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".pdf": "pdf"}
MANIFEST, PAGE = "manifest.csv", "index.html"
WIDE = 6  # maps side by side, at most
THUMB = 120  # pixels, its height


@dataclass(frozen=True)
class Work:
    """What is drawn, and where to; all of it can be read.

    `pictures` and `masks` are by the name of the picture, which no other has. `left_out` says why.
    """

    pictures: dict[str, Path]
    masks: dict[str, Path]
    left_out: list[str]
    out: Path
    methods: tuple[str, ...]
    save_maps: bool = False

    @property
    def kind(self) -> str | None:
        """The kind of the one file that is written; none for a folder."""
        return FORMATS.get(self.out.suffix.lower())

    def mask(self, name: str, picture: Path) -> Mask | None:
        """The object in the upright picture; none without a mask."""
        path = self.masks.get(name)
        try:
            return None if path is None else fitting_mask(path, picture)
        except READING as error:
            raise ValueError(f"{path} is no mask of {name} ({one_line(error)})") from error


def explain_file(
    image: Path | str,
    model: OwnModel,
    *,
    method: str = "gae",
    target: int | str | None = None,
    out: Path | str,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Draw an image, and beside it a method's map for one class, laid over it.

    `target` is a class's number or name, none for the predicted one; `out` a PNG, JPEG or PDF, by
    its ending, which is replaced. `names` of the classes: none for those that came with weights of
    timm's or the package, else numbers.
    Returns what is drawn, as a row of `explain_pictures`.
    Raises: as `prepare`, `class_number` and `Subject`.
    """
    work = prepare([Path(image)], Path(out), [method])
    subject = Subject(model.spec.name, model, class_names(model) if names is None else names)
    return explain_pictures(work, subject, target=target).to_dict("records")[0]


# Before the work


def prepare(
    images: Sequence[Path],
    out: Path,
    methods: Sequence[str] = ("gae",),
    *,
    masks: Path | None = None,
    save_maps: bool = False,
    skip_unreadable: bool = False,
) -> Work:
    """Look at everything before long work: each picture and mask is decoded.

    `images` are files and folders, as `find_pictures` has them. `out` is a file of FORMATS for one
    picture, else a folder, for which masks are found as `find_masks` has them. With `save_maps` it
    gets an NPY of each map, too: float32, a value for each patch, [rows, columns].
    Raises: ValueError for what cannot be read (with `skip_unreadable` it is left out), an unknown
    method, and an `out` that does not fit; as `find_pictures` and `find_masks`.
    """
    methods = check_known(methods)
    found, others = find_pictures(images, but=out)
    work = Work({}, {}, [], out, tuple(dict.fromkeys(methods)), save_maps)
    _need_fitting(work, found, masks)
    masked = {} if work.kind else find_masks(found, masks)
    above = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in found])
    for path in found:
        name = Path(os.path.relpath(path, above)).as_posix()
        work.masks.update({name: masked[path]} if path in masked else {})
        try:
            _need_fit(path)
            work.mask(name, path)
            work.pictures[name] = path
        except ValueError as error:
            work.left_out.append(str(error))
    if work.left_out and not (skip_unreadable and work.pictures):
        more = f" ({len(work.left_out)} such of {len(found)})" if len(found) > 1 else ""
        way = ", or leave such out (--skip-unreadable)" if work.pictures else ""
        raise ValueError(
            f"explain: {work.left_out[0]}{more}; mend it (a picture is a JPEG or PNG, a mask a "
            f"PNG), or take it out{way}"
        )
    work.left_out.extend(others)
    return work


def _need_fit(path: Path) -> None:
    size = open_image(path).size  # a truncated file says so only when it is decoded
    with opened(path) as found:
        if why := DEEP if is_deep(found) else stretched(*size):
            raise ValueError(f"{path} cannot be read as an image ({why})")


def _need_fitting(work: Work, found: Collection[Path], masks: Path | None) -> None:
    """Raise ValueError for an output that cannot hold what is asked for, or is a picture itself."""
    count = len(found)
    if any(os.path.abspath(path) == os.path.abspath(work.out) for path in found):
        raise ValueError(f"explain: {work.out} is the picture itself; give another file to write")
    if work.kind and (count > 1 or masks is not None or work.save_maps):
        why = f"{count} images are given" if count > 1 else "maps and masks need more files"
        raise ValueError(f"explain: {work.out} is one picture and {why}; give a folder to write to")
    if work.out.suffix and not work.kind and not work.out.is_dir():
        raise ValueError(
            f"explain: {work.out} ends in none of {', '.join(FORMATS)}; give one of these, or a "
            "folder's name without a dot"
        )


# The work


def explain_pictures(
    work: Work,
    subject: Subject,
    *,
    target: int | str | None = None,
    top: int = 1,
    say: Callable[[str], object] = lambda line: None,
) -> pd.DataFrame:
    """Draw each picture with the maps of each method, and say what is drawn.

    Maps are for the class `target` (`class_number`), or for the `top` likeliest. A picture is drawn
    in its own size, its longer side at most 2,000 pixels. A folder gets a PNG of each, a contact
    sheet, and the table.
    Columns: file, model, method, target (the class's number), class, answer (of the model),
    probability_pct (of the class); of a model of the package known (whether the picture looks like
    one of its classes, by `knows_it`; else its title says so); where there are masks iou_pct (map
    above its mean against the object), pointing_hit (it is highest on the object) and
    on_object_pct (of all relevance; of a signed map of what is above zero), all in what the model
    sees and empty where it sees no object;
    in a folder picture and, of saved maps, map: files in it.
    Raises: ValueError as `class_number`, and for a `top` beyond the classes.
    """
    if not 1 <= top <= len(subject.classes):
        raise ValueError(
            f"explain: top {top} of {len(subject.classes)} classes; ask for 1 to "
            f"{len(subject.classes)}"
        )
    number = None if target is None else class_number(target, subject.classes)
    if number is not None:
        say(f"target: class {number} of {subject.name}, called {subject.classes[number]}")
    rows, thumbs = [], {}
    for name, path in work.pictures.items():
        picture = open_image(path)
        found = look_into(subject, picture, work.methods, number, top, work.mask(name, path))
        figure = _figure(path.name, picture, found, top)
        rows += _write(work, figure, name, found)
        said = _classes(found[:top], found)
        thumbs |= {} if work.kind else {name: (_thumb(figure), said)}
        say(f"{name}: {said}")
        if flat := [one.row["method"] for one in found if one.patches.max() <= one.patches.min()]:
            say(f"{name}: the map of {', '.join(flat)} is the same everywhere, and says nothing")
    table = pd.DataFrame(rows)
    if not work.kind:
        _write_tables(work, table, thumbs)
    return table


def _figure(name: str, picture: Image.Image, found: Sequence[Found], top: int) -> Figure:
    """Side by side are classes, or methods where there is one class."""
    panels = [
        Overlay(
            one.heat,
            one.box,
            f"{one.row['method']}\n{_classes([one], found, drawn=True)}",
            one.signed,
        )
        for one in found
    ]
    group = top if top > 1 else len(panels)
    wide = -(-group // -(-group // WIDE))  # rows as even as can be
    groups = [panels[start : start + group] for start in range(0, len(panels), group)]
    rows = [each[start : start + wide] for each in groups for start in range(0, group, wide)]
    return overlay_figure(picture, name, rows)


def _classes(shown: Sequence[Found], among: Sequence[Found], *, drawn: bool = False) -> str:
    """The classes of maps, and the model's answer where `among` all its maps none is for it; before
    them whether it is sure that the picture is of any.

    What is `drawn` has the number of a class whose name no font here draws.
    """

    def called(row: dict[str, Any]) -> str:
        return readable(row["class"], f"class {row['target']}") if drawn else row["class"]

    text = ", ".join(f"{called(o.row)} {o.row['probability_pct']:.1f} %" for o in shown)
    answer = among[0].row["answer"]
    if shown[0].doubt:
        text = f"{shown[0].doubt}; {'nearest: ' * (shown[0].row['class'] == answer)}{text}"
    there = any(one.row["class"] == answer for one in among)
    return text if there else f"{text}; its answer: {answer}"


def _write(work: Work, figure: Figure, name: str, found: Sequence[Found]) -> list[dict[str, Any]]:
    """The figure and, if asked, the maps; the rows of the table."""
    path = work.out if work.kind else work.out / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = work.kind or "png"
    drawn = {"format": kind, "dpi": figure.dpi, "bbox_inches": "tight"} | mark(kind)
    write_atomically(path, lambda target: figure.savefig(target, **drawn))
    rows = []
    for one in found:
        row = {"file": name} | one.row
        row |= {} if work.kind else {"picture": f"{name}.png"}
        if work.save_maps:
            row["map"] = f"{name}.{row['method']}.{row['target']}.npy"
            with full_disk_said(work.out / row["map"]):
                np.save(work.out / row["map"], one.patches.numpy())
        rows.append(row)
    return rows


def _thumb(figure: Figure) -> str:
    data = BytesIO()
    figure.savefig(data, format="jpeg", dpi=THUMB / figure.get_figheight(), bbox_inches="tight")
    return base64.b64encode(data.getvalue()).decode()


def _write_tables(work: Work, table: pd.DataFrame, thumbs: dict[str, tuple[str, str]]) -> None:
    """The table, and a contact sheet."""
    write_atomically(
        work.out / MANIFEST, lambda path: table.to_csv(path, index=False, float_format="%.3f")
    )
    template = jinja2.Template(
        (files("relevit_own") / "assets" / "explained.html.j2").read_text("utf-8"), autoescape=True
    )
    page = template.render(thumbs=thumbs, left_out=work.left_out, manifest=MANIFEST)
    write_atomically(work.out / PAGE, page)

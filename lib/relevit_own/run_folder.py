"""The folder of runs on one's own images: what these have in common, what was said, masks."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

from jaxtyping import Bool
from PIL import Image
from torch import Tensor

from relevit.base.files import file_fingerprint, write_atomically
from relevit.finetune.run import MADE
from relevit.models.spec import View
from relevit_own.outlines import MaskSource
from relevit_own.table import Table, same_form

SAID = "log.txt"  # what was said of it, and when
Say = Callable[[str], object]


@dataclass
class Log:
    """Says each line and, once it has a file, adds all of them to it with their times."""

    say: Say
    file: Path | None = None
    held: str = ""

    def __call__(self, line: str) -> None:
        self.say(line)
        self.held += f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}\n"
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as log:
                log.write(self.held)
            self.held = ""


def claim(out: Path, record: Mapping[str, Any], replace_other: bool) -> None:
    """Write down what the runs of a folder have in common; refuse one that others were made in.

    Raises: ValueError, which says what differs.
    """
    path, text = out / MADE, json.dumps({"record": record}, indent=1, sort_keys=True) + "\n"
    need_run_or_nothing(out)
    if _inside(out) - {MADE}:  # alone it is of a run that was refused at once
        if path.read_text(encoding="utf-8") == text:
            return
        if not replace_other:
            raise ValueError(
                f"finetune: {out} holds another run: {_difference(path, json.loads(text))}; give "
                "another folder with --out, or the same values to go on with it"
            )
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)


def need_run_or_nothing(out: Path) -> None:
    """Raise ValueError for a folder that holds something else than a run."""
    if _inside(out) and MADE not in _inside(out):
        raise ValueError(
            f"finetune: {out} is not empty and holds no run; give another folder with --out"
        )


def _inside(out: Path) -> set[str]:
    return {entry.name for entry in out.iterdir()} - {SAID} if out.is_dir() else set()


def _difference(path: Path, now: Mapping[str, Any]) -> str:
    """What differs in a folder's run, in words."""
    try:
        record, before = now["record"], json.loads(path.read_text(encoding="utf-8"))["record"]
        key = next(k for k in [*record, *before] if before.get(k) != record.get(k))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return f"its {MADE} is of an earlier version, or of something else"
    was, is_now = (
        shorten(repr(each.get(key)), 80, placeholder=" ...") for each in (before, record)
    )
    return f"{key} was {was} and is {is_now}"


def files_fingerprint(part: Table) -> str:
    """Tells sets of files apart by name, label and content, that of their masks included."""

    def content(source: MaskSource | None) -> str:
        return file_fingerprint(source) if isinstance(source, Path) else repr(source)

    rows = zip(part.images, part.labels.tolist(), part.masks, strict=True)
    lines = [f"{path.name} {content(path)} {label} {content(mask)}" for path, label, mask in rows]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def with_mask_files(
    part: Table, masks: Bool[Tensor, "images 1 crop crop"], view: View, folder: Path
) -> Table:
    """A part with these masks of what a model sees, each a PNG of its whole picture's size.

    They lie in `folder`/<class>, or <part>/<class> in a set that has parts, as `--masks` reads
    them. What the model does not see of a picture is no object.
    """
    files: list[Path] = []
    for place, (name, label) in enumerate(zip(part.ids, part.labels.tolist(), strict=True)):
        files.append(folder / mask_path(part, name, part.classes[label]))
        if files[-1] in files[:-1]:  # of two pictures that differ in the ending alone
            files[-1] = files[-1].with_name(f"{Path(name).name}.png")
        size = part.picture(place).size
        left, top, right, bottom = view.box(*size)
        across, down = view.crop / (right - left), view.crop / (bottom - top)
        place_of = (across, 0, -left * across, 0, down, -top * down)
        square = Image.fromarray(masks[place, 0].numpy()).convert("L")
        whole = square.transform(size, Image.Transform.AFFINE, place_of, Image.Resampling.BILINEAR)
        whole = whole.point(lambda grey: 255 * (grey > 127))
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        write_atomically(files[-1], partial(whole.save, format="PNG"))
    return replace(part, rows=part.rows.assign(mask=files))


def mask_path(part: Table, name: str, label: str) -> Path:
    """Where the mask of a picture lies in a folder of masks, whatever its id and class are."""
    above, *below = Path(name).with_suffix(".png").parts
    parts = [*Path(part.name).parts[1:], label, *([] if same_form(above) == label else [above])]
    return Path(*(p for p in "/".join([*parts, *below]).split("/") if p not in ("", "..")))

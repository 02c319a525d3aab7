"""The folder of a run on one's own images: what it was made from, what was said, what it left."""

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
from torch import Tensor, nn

from relevit.base.device import choose_device
from relevit.base.files import file_fingerprint, write_atomically
from relevit.base.results import Kept, read_json
from relevit.finetune.epochs import WEIGHTS
from relevit.models.dinov2 import fingerprint
from relevit.models.loading import OwnModel, open_model
from relevit.models.passport import CONFIG
from relevit.models.spec import View
from relevit_own.choices import OwnChoices
from relevit_own.outlines import MaskSource
from relevit_own.table import Table, same_form

RUN = "run.json"  # what a folder was made from
SAID = "log.txt"  # what was said of it, and when
# What may change in a folder without making its results another run's.
FREE = ("rates", "limit_pts", "control", "against", "shown", "looked_at", "test_images")
FREE += ("precision",)
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


def claim(out: Path, identity: Mapping[str, Any], replace_other: bool) -> None:
    """Write down what a folder is made from; refuse one that something else was made in."""
    path, text = out / RUN, json.dumps(identity, indent=1, sort_keys=True) + "\n"
    inside = {entry.name for entry in out.iterdir()} - {SAID} if out.is_dir() else set()
    if RUN in inside and inside != {RUN}:  # alone it is of a run that was refused at once
        if path.read_text(encoding="utf-8") == text:
            return
        if not replace_other:
            before = read_json(path)
            raise ValueError(
                f"finetune: {out} holds another run: {_first_difference(before, identity)}; give "
                "another folder with --out, or the same values to go on with it"
            )
        shutil.rmtree(out)
        inside = set()
    if inside - {RUN}:
        raise ValueError(
            f"finetune: {out} is not empty and holds no run; give another folder with --out"
        )
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)


def of_run(choices: OwnChoices) -> OwnChoices:
    """The same choices; where `own_model` is the folder of a run, with what that finetuned.

    Raises: as `open_run`; ValueError where weights are given as well.
    """
    folder = Path(choices.own_model)
    if not (folder / RUN).is_file():
        return choices
    if choices.own_weights:
        raise ValueError(f"finetune: {folder} has weights of its own; leave --weights out")
    made = _made(folder)
    if (folder / CONFIG).is_file():
        return choices
    known = made.values_of("choices")  # of a run before it had one
    given: dict[str, Any] = {
        "own_model": known["own_model"],
        "own_weights": str(folder / WEIGHTS),
        "own_options": known["own_options"] | choices.own_options,
    }
    if not (choices.new_head or choices.head_classes):
        given["head_classes"] = made["classes"]
    return choices.model_copy(update=given)


def open_run(
    folder: Path | str, device: str = "auto", answers_alone: bool = False
) -> tuple[OwnModel, tuple[str, ...]]:
    """The finetuned model that `finetune_folder` left in a folder, and the names of its classes.

    `answers_alone` as in `open_model`.
    Raises: FileNotFoundError for a folder without a finished run; ValueError for a damaged one.
    """
    folder = Path(folder)
    made = _made(folder)
    known, names = made.values_of("choices"), tuple(made["classes"])
    how: dict[str, Any] = {"device": choose_device(device), "answers_alone": answers_alone}
    if (folder / CONFIG).is_file():
        return open_model(str(folder), **how), names
    how |= {"classes": len(names), "options": known["own_options"]}
    return open_model(known["own_model"], folder / WEIGHTS, **how), names


def _made(folder: Path) -> Kept:
    """What a finished run was made from. Raises: as `open_run`."""
    if not (folder / RUN).is_file() or not (folder / WEIGHTS).is_file():
        raise FileNotFoundError(
            f"{folder} holds no finished run; give the --out of relevit finetune, or a model's name"
        )
    return read_json(folder / RUN)


def _first_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    then, now = ({**run, **run.get("choices", {}), "choices": None} for run in (before, now))
    known = [*OwnChoices.model_fields, *sorted(then.keys() | now.keys())]  # choices say it best
    key = next(k for k in known if then.get(k) != now.get(k))
    was, is_now = (shorten(repr(run.get(key)), 80, placeholder=" ...") for run in (then, now))
    return f"{key} was {was} and is {is_now}"


def origin(weights: Path | None, network: nn.Module | None, name: str = "") -> str:
    """Tells starting weights apart, those of a run's folder too; empty for those of a name."""
    if weights is None and (Path(name) / WEIGHTS).is_file():
        weights = Path(name) / WEIGHTS
    if network is not None:
        return fingerprint({key: value.cpu() for key, value in network.state_dict().items()})
    return file_fingerprint(weights) if weights else ""


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

"""A picture of one's own and where a model looks in it: `relevit explain`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor

from relevit import plots
from relevit.attention.recording import evaluating
from relevit.attribution import check_known, explain
from relevit.base.errors import one_line
from relevit.base.files import write_atomically
from relevit.data.own.outlines import upright
from relevit.data.pictures import READING, opened
from relevit.data.real.classes import IMAGENET_NAMES
from relevit.models.loading import OwnModel
from relevit.models.spec import View

SIDE, TITLE, DPI = 2.6, 44, 150  # inches of an image, characters of a line, dots an inch


def explain_file(
    image: Path | str,
    model: OwnModel,
    *,
    method: str = "gae",
    target: int | None = None,
    out: Path | str,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Write a PNG of an image and, below it, a method's map for one class, laid over it.

    `image` is turned as its camera says and cut as the model wants it. `target`: none for the
    predicted class. `names` of the classes: none for ImageNet's where the model has 1,000, else
    numbers. A PNG that is there is replaced.
    Returns what is drawn: target, name, predicted (its number), confidence_pct of the target,
    method and out.
    Raises: FileNotFoundError; ValueError for an image that cannot be read, an unknown method or
    class, names of another number, or a file that is no PNG.
    """
    check_known([method])
    image, out = Path(image), Path(out)
    if out.suffix.lower() != ".png":
        raise ValueError(f"explain: {out} is no PNG by its name; give one that ends in .png")
    classes = _names(model.spec.classes, names)
    if target is not None and not 0 <= target < len(classes):
        raise ValueError(f"explain: target {target}; the classes are 0 to {len(classes) - 1}")
    pixels = open_image(image, model.view)[None]
    inputs = model.spec.normalise(pixels, like=next(model.network.parameters()))
    with evaluating(model.network), torch.inference_mode():
        shares = model.network(inputs)[0].float().softmax(dim=0)
    predicted = int(shares.argmax())
    shown = predicted if target is None else target
    heat = explain(model.network, inputs, shown, method=method).float()
    said = {
        "target": shown,
        "name": classes[shown],
        "predicted": predicted,
        "confidence_pct": 100 * float(shares[shown]),
        "method": method,
        "out": out,
    }
    title = f"{fill(classes[shown], TITLE)}\n{said['confidence_pct']:.1f} %"
    if shown != predicted:
        title += f"; its answer: {fill(classes[predicted], TITLE)}"
    figure = plots.heatmap_grid(pixels, [(method, heat)], [title], side=SIDE)
    out.parent.mkdir(parents=True, exist_ok=True)
    drawn = {"format": "png", "dpi": DPI, "bbox_inches": "tight"}
    write_atomically(out, lambda path: figure.savefig(path, **drawn))
    return said


def open_image(path: Path, view: View) -> UInt8[Tensor, "3 crop crop"]:
    """What a model sees of an image file, upright. Raises: FileNotFoundError, ValueError."""
    if not path.is_file():
        raise FileNotFoundError(f"explain: the image {path} is missing; check its name")
    try:
        with opened(path) as found:
            return view.picture(upright(found))
    except READING as error:
        raise ValueError(
            f"explain: {path} cannot be read as an image ({one_line(error)}); give a JPEG or PNG"
        ) from error


def _names(count: int, names: Sequence[str] | None) -> Sequence[str]:
    if names is None:
        known = count == len(IMAGENET_NAMES)
        return IMAGENET_NAMES if known else [f"class {place}" for place in range(count)]
    if len(names) != count:
        raise ValueError(f"explain: {len(names)} names for a model of {count} classes; give each")
    return names

"""What a model says of one picture: its answer, maps of it, and how well these fit the object."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

import torch
import yaml
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor

from habitats.drawings import CLASSES
from habitats.real.classes import IMAGENET_NAMES
from relevit.attribution import explain_all, patch_grid, to_heatmap
from relevit.attribution.methods import SIGNED
from relevit.choices.words import IMAGENET, SHIPPED
from relevit.evaluate.looking import foreground_iou_pct, object_share_pct, points_at_object
from relevit.maps import evaluating
from relevit.models.answers import probabilities
from relevit.models.describing import need_classifier
from relevit.models.loading import OwnModel
from relevit.models.spec import Mask
from relevit_own.table import places_of, same_form


@dataclass(frozen=True)
class Subject:
    """A model to be explained: what people call it, and the names of its classes.

    Raises: ValueError for names of another number.
    """

    name: str
    model: OwnModel
    classes: Sequence[str]

    def __post_init__(self) -> None:
        count = self.model.spec.classes
        if len(self.classes) != count:
            raise ValueError(
                f"names: {len(self.classes)} are told of a model with {count} classes; give each"
            )


@dataclass(frozen=True)
class Found:
    """A map: what is said of it, its value for each patch, and as it is drawn.

    `heat` is from 0 to 1, of a `signed` map from -1 to 1 with zero as it was.
    """

    row: dict[str, Any]
    patches: Float[Tensor, "rows columns"]
    heat: Float[Tensor, "height width"]
    signed: bool
    box: tuple[float, float, float, float]  # what the model sees: left, top, right, bottom, pixels
    doubt: str = ""  # whether the picture is of any class at all


def class_names(model: OwnModel) -> Sequence[str]:
    """Those that came with its weights, ImageNet's or the animals'; else their numbers.

    Raises: ValueError for CLIP's projection, whose outputs are no classes.
    """
    need_classifier(model.spec.name, model.network)
    if model.spec.names:
        return model.spec.names
    if model.knows:
        return IMAGENET_NAMES if model.knows == IMAGENET else CLASSES
    return [f"class {place}" for place in range(model.spec.classes)]


@cache
def limits() -> dict[str, dict[str, float]]:
    """Of each shipped model the energy from which on it takes a picture for one of its classes, and
    its two errors, in percent. Source: tools/known_pictures.py of commit 1e87ea29."""
    path = files("relevit_own") / "assets" / "known.yaml"
    return yaml.safe_load(path.read_text("utf-8"))


def knows_it(model: OwnModel, logits: Float[Tensor, " classes"]) -> bool | None:
    """Whether a picture looks like one of a shipped model's classes; None of any other model.

    Source: the energy score (Liu et al. 2020, Energy-based Out-of-distribution Detection).
    """
    if model.knows not in SHIPPED or model.spec.name not in limits():
        return None
    return float(logits.logsumexp(dim=0)) >= limits()[model.spec.name]["energy_from"]


def class_number(target: int | str, classes: Sequence[str]) -> int:
    """The number of the class that is meant: of a text the class called so, else the number it is.

    So "3" is the class called 3, where there is one. Of a name with commas, as ImageNet's, each
    part will do, and capitals do not matter.
    Raises: ValueError for what is no class, or may be several.
    """
    sought = same_form(str(target)).strip()
    found = places_of(sought, classes)
    if isinstance(target, int) or (not found and sought.isdecimal()):
        found = [int(sought)] if 0 <= int(sought) < len(classes) else []
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"explain: target {target!r} may be any of {found}; give the number")
    parts = {part.strip().casefold() for name in classes for part in (name, *name.split(","))}
    close = get_close_matches(sought.casefold(), parts)
    nearest = f"; nearest are {', '.join(close)}" if close else ""
    raise ValueError(
        f"explain: target {target!r} is no class; give 0 to {len(classes) - 1} or a name{nearest}"
    )


def look_into(
    subject: Subject,
    picture: Image.Image,
    methods: Sequence[str],
    target: int | None = None,
    top: int = 1,
    mask: Mask | None = None,
) -> list[Found]:
    """The maps of each method for a class, or for each of the `top` likeliest.

    `mask` is of the whole picture, and what it says of what the model sees. A head with one output
    has one class, whose probability is its sigmoid, and below one half the answer is *not* it.
    """
    network, view = subject.model.network, subject.model.view
    inputs = subject.model.spec.normalise(
        view.picture(picture)[None], like=next(network.parameters())
    )
    with evaluating(network), torch.inference_mode():
        logits = network(inputs)[0].float()
    shares, known = probabilities(logits).cpu(), knows_it(subject.model, logits.cpu())
    doubt = f"not sure this is one of the {len(shares)} classes it knows" if known is False else ""
    likeliest = shares.argsort(descending=True, stable=True).tolist()
    answer = subject.classes[likeliest[0]]
    if len(shares) == 1 and shares[0] < 0.5:
        answer = f"not {answer}"
    asked = likeliest[:top] if target is None else [target]
    found = explain_all(network, inputs.repeat(len(asked), 1, 1, 1), asked, methods)
    grid, seen = patch_grid(network, inputs), None if mask is None else view.mask(mask)
    maps = []
    for method, values in found.items():
        values = values.detach().nan_to_num(nan=0.0).float().cpu()  # as `explain`
        heats = _drawn(values, (view.crop, view.crop), grid, method in SIGNED)
        for place, heat, patches in zip(asked, heats, values, strict=True):
            row = {
                "model": subject.name,
                "method": method,
                "target": place,
                "class": subject.classes[place],
                "answer": answer,
                "probability_pct": 100 * float(shares[place]),
            }
            row |= {} if known is None else {"known": known}
            row |= {} if seen is None else _on_object(heat[None], seen[None])
            box = view.box(*picture.size)
            maps.append(Found(row, patches.reshape(grid), heat[0], method in SIGNED, box, doubt))
    return maps


def _drawn(
    values: Float[Tensor, "maps patches"],
    size: tuple[int, int],
    grid: tuple[int, int],
    signed: bool,
) -> Float[Tensor, "maps 1 height width"]:
    """Each map over its own range; a signed one over its largest size, so that zero stays."""
    heats = to_heatmap(values, size, grid, normalise=not signed)
    most = heats.abs().amax(dim=(1, 2, 3), keepdim=True)
    return heats / torch.where(most > 0, most, 1.0) if signed else heats


def _on_object(
    heat: Float[Tensor, "1 1 height width"], mask: Bool[Tensor, "1 1 height width"]
) -> dict[str, Any]:
    """How well a map fits the object; empty where the model sees none of it."""
    if not mask.any():
        return {"iou_pct": math.nan, "pointing_hit": None, "on_object_pct": math.nan}
    return {
        "iou_pct": float(foreground_iou_pct(heat, mask)),
        "pointing_hit": bool(points_at_object(heat, mask)),
        "on_object_pct": float(object_share_pct(heat.clamp_min(0), mask)),
    }

"""Automatic masks in a file: written by 01_masks, read by finetuning."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import UInt8
from safetensors.torch import save_file
from torch import Tensor

from relevit.base.files import write_atomically
from relevit.masks.automatic import AutomaticMasks
from relevit.models.checkpoints import FACTS, read_tensors

MASKS = "masks.safetensors"
PARTS = ("coarse", "refined", "kept")
Images = UInt8[Tensor, "images 3 height width"]
AnyImages = UInt8[Tensor, "_ 3 height width"]
Of = int | Literal["validation"]


def save_masks(folder: Path, masks: Mapping[Of, tuple[AutomaticMasks, Images]]) -> None:
    """Write the masks of each seed's training images, and of the validation images, to `folder`.

    The file also tells the images apart, so that masks never meet other images.
    Raises: ValueError when masks and images differ in number.
    """
    tensors, images = {}, {}
    for of, (found, pictures) in masks.items():
        if len(found) != len(pictures):
            raise ValueError(
                f"save_masks: {len(found)} masks for the {len(pictures)} images of {_named(of)}; "
                "give one mask for each image"
            )
        tensors |= {f"{of}/{part}": getattr(found, part).to(torch.uint8) for part in PARTS}
        images[str(of)] = _fingerprint(pictures)
    # One entry, because safetensors writes several in a random order: same run, same bytes.
    facts = {FACTS: json.dumps({"images": images}, sort_keys=True)}
    write_atomically(folder / MASKS, lambda target: save_file(tensors, target, metadata=facts))


def load_masks(folder: Path, of: Of, images: Images | None = None) -> AutomaticMasks:
    """The masks of one seed's training images, or of the first validation images.

    `folder` is that of 01_masks. With `images`, the masks must be of these very images.
    Raises: FileNotFoundError without the file. ValueError when it is damaged, has no such masks,
    has those of another number of images or of other images, or keeps a mask without object or
    background.
    """
    path = folder / MASKS
    if not path.is_file():
        raise FileNotFoundError(f"load_masks: {path} is missing; run the notebook 01_masks")
    again = "delete it and run the notebook 01_masks again"
    try:
        tensors, facts = read_tensors(path)
        known = facts["images"]
        if not isinstance(known, dict):
            raise ValueError("its images are no values by name")
    except (ValueError, KeyError) as error:
        raise ValueError(f"load_masks: {path} is damaged ({error}); {again}") from error
    if str(of) not in known:
        raise ValueError(
            f"load_masks: {path} has no masks of {_named(of)}, only of {sorted(known)}; add the "
            "seed to the parameter seeds of 01_masks and run it again"
        )
    try:
        stored = [tensors[f"{of}/{part}"] for part in PARTS]
    except KeyError as error:
        raise ValueError(f"load_masks: {path} is damaged (no {error}); {again}") from error
    coarse, refined, kept = (tuple(part.shape) for part in stored)
    of_kind = all(part.dtype == torch.uint8 for part in stored)
    if not of_kind or len(coarse) != 4 or refined != coarse or kept != coarse[:1]:
        raise ValueError(f"load_masks: {path} is damaged (no masks of {_named(of)}); {again}")
    found = AutomaticMasks(*(part.bool() for part in stored))
    _check(found, of, images, known[str(of)], path)
    return found


def masks_of(
    images: Images, known: Sequence[tuple[AutomaticMasks, AnyImages]], where: str
) -> AutomaticMasks:
    """The masks of these images, each found by its pixels among the masks of others.

    `known` are masks with their images, and `where` says in errors which these are.
    Raises: ValueError for an image that is not among them.
    """
    stacks = [pictures for _, pictures in known]
    rows = {_fingerprint(one[None]): row for row, one in enumerate(chain(*stacks))}
    wanted = [rows.get(_fingerprint(one[None])) for one in images]
    missing = wanted.count(None)
    if missing:
        raise ValueError(
            f"masks: {missing} of {len(images)} images have no mask among {where}; let 01_masks "
            "and 02_finetune take all validation images (validation_maps), and 01_masks the seed 0"
        )
    parts = [torch.cat([getattr(found, part) for found, _ in known])[wanted] for part in PARTS]
    return AutomaticMasks(*parts)


def _check(found: AutomaticMasks, of: Of, images: Images | None, known: str, path: Path) -> None:
    """Raise ValueError unless these are sound masks of these images."""
    if images is not None and len(images) != len(found):
        raise ValueError(
            f"load_masks: {path} has masks of {len(found)} images of {_named(of)}, asked for are "
            f"{len(images)}; run 01_masks again with the same parameters of 02_finetune"
        )
    if images is not None and _fingerprint(images) != known:
        raise ValueError(
            f"load_masks: {path} has masks of other images than the {len(images)} of {_named(of)} "
            "asked for; run 01_masks again with the same parameters of 02_finetune"
        )
    kept = found.refined[found.kept].float().mean(dim=(1, 2, 3))
    if not bool(((kept > 0) & (kept < 1)).all()):
        raise ValueError(
            f"load_masks: {path} is damaged (a kept mask of {_named(of)} has no object or no "
            "background); delete it and run the notebook 01_masks again"
        )


def _named(of: Of) -> str:
    return "the validation images" if of == "validation" else f"seed {of}"


def _fingerprint(images: Images) -> str:
    """Tells one stack of images from another, by shape and bytes."""
    digest = hashlib.sha256(str(tuple(images.shape)).encode())
    digest.update(images.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]

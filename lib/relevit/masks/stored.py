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
    """
    tensors, images = {}, {}
    for of, (found, pictures) in masks.items():
        tensors |= {f"{of}/{part}": getattr(found, part).to(torch.uint8) for part in PARTS}
        images[str(of)] = _fingerprint(pictures)
    # One entry, because safetensors writes several in a random order: same run, same bytes.
    facts = {FACTS: json.dumps({"images": images}, sort_keys=True)}
    write_atomically(folder / MASKS, lambda target: save_file(tensors, target, metadata=facts))


def load_masks(folder: Path, of: Of, images: Images | None = None) -> AutomaticMasks:
    """The masks of one seed's training images, or of the first validation images.

    `folder` is that of 01_masks. With `images`, the masks must be of these very images.
    Raises: FileNotFoundError without the file. ValueError when it is damaged, has no such masks,
    or has those of other images.
    """
    path = folder / MASKS
    tensors, facts = read_tensors(path)
    known = facts["images"]
    if str(of) not in known:
        raise ValueError(
            f"load_masks: {path} has no masks of {_named(of)}, only of {sorted(known)}; add the "
            "seed to the parameter seeds of 01_masks and run it again"
        )
    if images is not None and _fingerprint(images) != known[str(of)]:
        raise ValueError(
            f"load_masks: {path} has masks of other images than the {len(images)} of {_named(of)} "
            "asked for; run 01_masks again with the same parameters of 02_finetune"
        )
    return AutomaticMasks(*(tensors[f"{of}/{part}"].bool() for part in PARTS))


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
    if None in wanted:
        raise ValueError(
            f"masks: {wanted.count(None)} of {len(images)} images have no mask among {where}; let "
            "01_masks and 02_finetune take all validation images (validation_maps), and 01_masks "
            "the seed 0"
        )
    parts = [torch.cat([getattr(found, part) for found, _ in known])[wanted] for part in PARTS]
    return AutomaticMasks(*parts)


def _named(of: Of) -> str:
    return "the validation images" if of == "validation" else f"seed {of}"


def _fingerprint(images: Images) -> str:
    """Tells one stack of images from another, by shape and bytes."""
    digest = hashlib.sha256(str(tuple(images.shape)).encode())
    digest.update(images.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]

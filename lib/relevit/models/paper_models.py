"""The models of the papers, loaded by name with their published weights.

Which there are is in `relevit.models.registry`. Weights come from timm's hub, from their authors'
servers or from files (`relevit.models.published_weights`); nothing that is pickled is run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import timm
import torch
from jaxtyping import Float
from timm.models import get_pretrained_cfg, load_state_dict_from_hf
from torch import Tensor, nn

from relevit.base.errors import one_line
from relevit.base.seeding import seeded
from relevit.models.published_weights import (
    fill,
    find_weights,
    head_tensors,
    named_tensors,
    read_checkpoint,
)
from relevit.models.registry import IMAGENET_CLASSES, PaperModel, Preset, paper_model, preprocessing

Head = Path | Literal["new"] | None
Tensors = Mapping[str, Tensor]
BOTH = "both"  # rows that DINO's classifier reads, in `model.global_pool`


def load_paper_model(
    name: str,
    *,
    classes: int | None = None,
    weights: Path | str | None = None,
    head: Head = None,
    depth: int | None = None,
    random: bool = False,
    seed: int = 0,
    preset: Preset = "published",
    trust: bool = False,
) -> nn.Module:
    """A model with its published weights, in eval mode, on the CPU.

    `classes`: none for those of the published head (1,000; CLIP: its embedding), 0 for no head.
    `weights`: a file in any layout of `relevit.models.published_weights`, or a folder with
    `<name>.safetensors`, .pth, .bin or .pth.tar; without it they are fetched once. `head`: a file
    with a linear head instead of the weights' own; a folder may hold it as `<name>-head`. A head is
    untrained, drawn from `seed`, with head="new", or when `classes` is neither 1,000 nor that of
    any head given.
    `random`: no weights at all, drawn from `seed`. `depth`: only so many blocks, for rehearsals.
    `preset`: mean and std in the model's `pretrained_cfg`, from which attributions know black.
    `trust`: run what a pickle says; only for a file whose origin you know.
    Raises: ValueError for a name, number or file that does not fit; FileNotFoundError;
    ConnectionError when weights cannot be fetched. torch's own seed is left alone.
    """
    weights = None if weights is None else Path(weights)
    model = paper_model(name)
    count = model.classes if classes is None else classes
    _check(model, count, weights, head, depth, random)
    if random or model.random:
        both = head != "new" and count == model.classes and model.reads == BOTH
        return _built(model, count, depth, seed, preset, both)
    path = None if weights is None else _weights_file(model, weights)
    place = path or model.source
    if path is None:
        tensors = _fetched(model)
    else:
        with _fitting(model, path):
            tensors = named_tensors(_opened(path, trust))
    tensors |= _head(model, tensors, count, weights, head, trust)
    keep = head != "new" and 0 < count == _rows(tensors)
    if head is None and not keep and count in (IMAGENET_CLASSES, model.classes) and count:
        raise _headless(model, count, place)
    both = keep and _reads_both(tensors)
    built = _built(model, count, depth, seed, preset, both)
    with _fitting(model, place):
        fill(built, tensors, keep_head=keep)
    return built


def class_and_mean(
    tokens: Float[Tensor, "batch tokens width"], pool_type: str | None = None
) -> Float[Tensor, "batch features"]:
    """What DINO's linear classifier reads: class token and mean patch, channel by channel in turn.

    Source: DINO's linear evaluation of ViT-B; so does Beyond Intuition's code (differences D5).
    """
    return torch.stack([tokens[:, 0], tokens[:, 1:].mean(dim=1)], dim=-1).flatten(1)


def _check(
    model: PaperModel, count: int, weights: Path | None, head: Head, depth: int | None, random: bool
) -> None:
    where = f"paper_models: {model.name!r}"
    if count < 0 or (depth is not None and depth < 1):
        raise ValueError(f"{where}: classes {count} and depth {depth}; give numbers from 0 and 1")
    if random and (weights is not None or isinstance(head, Path)):
        raise ValueError(f"{where}: random=True beside a file; give one of them")
    if depth is not None and not random and weights is None:
        raise ValueError(f"{where}: published weights have all blocks; give depth with random=True")
    published = random or weights is not None or head is not None
    if not published and count == IMAGENET_CLASSES != model.classes:
        raise _headless(model, count, model.source)


def _built(
    model: PaperModel, count: int, depth: int | None, seed: int, preset: Preset, both: bool
) -> nn.Module:
    cut = {} if depth is None else {"depth": depth}
    with seeded(seed):
        built = timm.create_model(model.timm_name, num_classes=count, **model.options, **cut)
        if both:
            built.head = nn.Linear(2 * built.embed_dim, count)
            nn.init.trunc_normal_(built.head.weight, std=0.02)
            nn.init.zeros_(built.head.bias)
            built.pool, built.global_pool = class_and_mean, BOTH
    how = preprocessing(model.name, preset)
    built.pretrained_cfg.update(mean=how.mean, std=how.std)
    return built.eval()


def _fetched(model: PaperModel) -> dict[str, Tensor]:
    with _connected(model, model.source, f"weights=, a folder with {model.name}.pth"):
        if model.url:
            return named_tensors(_from_url(model.url))
        hub_id = get_pretrained_cfg(model.timm_name).hf_hub_id
        return named_tensors(load_state_dict_from_hf(hub_id, weights_only=True))


def _from_url(url: str) -> Mapping[str, Any]:
    with torch.serialization.safe_globals([argparse.Namespace]):  # the authors' settings
        return torch.hub.load_state_dict_from_url(
            url, map_location="cpu", progress=False, check_hash=True, weights_only=True
        )


def _weights_file(model: PaperModel, weights: Path) -> Path:
    path = weights if weights.is_file() else find_weights(weights, model.name)
    if path is None:
        raise FileNotFoundError(
            f"paper_models: {weights} is no file and has no {model.name}.safetensors (nor .pth, "
            f".bin, .pth.tar); put the weights there, from {model.source}"
        )
    return path


def _head(
    model: PaperModel, tensors: Tensors, count: int, weights: Path | None, head: Head, trust: bool
) -> dict[str, Tensor]:
    """The head that is not among the weights, where one is needed and known."""
    known = count in (IMAGENET_CLASSES, model.classes) and _rows(tensors) != count > 0
    path = head if isinstance(head, Path) else None
    if head is None and known and weights is not None:
        path = find_weights(weights, f"{model.name}-head")
    if path is not None:
        with _fitting(model, path):
            found = head_tensors(_opened(path, trust))
            if _rows(found) != count:
                raise ValueError(f"it has {_rows(found)} classes and not {count}")
        return found
    if head is None and known and weights is None and model.head_url:
        with _connected(model, model.head_url, "head=, its file"):
            return head_tensors(_from_url(model.head_url))
    return {}


def _opened(path: Path, trust: bool) -> dict[str, Any]:
    """What a file holds; an error also says how a pickle of one's own can be opened."""
    try:
        return read_checkpoint(path, trust)
    except ValueError as error:
        if trust or path.suffix == ".safetensors":
            raise
        hint = "trust=True runs it: only if you know where it comes from"
        raise ValueError(f"{one_line(error)}; {hint}") from error


def _rows(tensors: Tensors) -> int:
    """Classes of the head among the tensors; OpenAI's CLIP names and turns it in its own way."""
    turned = tensors.get("visual.proj")
    weight = tensors.get("head.weight", None if turned is None else turned.T)
    return 0 if weight is None else weight.shape[0]


def _reads_both(tensors: Tensors) -> bool:
    names = ("head.weight", "cls_token")
    head, token = (tensors.get(name) for name in names)
    return head is not None and token is not None and head.shape[1] == 2 * token.shape[-1]


def _headless(model: PaperModel, count: int, place: Path | str) -> ValueError:
    file = f" (published: {model.head_url})" if model.head_url else ""
    return ValueError(
        f"paper_models: {place} has no head of {model.name!r} for {count} classes; give head=, "
        f'a file with one{file}, or head="new" to train one'
    )


@contextmanager
def _fitting(model: PaperModel, place: Path | str) -> Iterator[None]:
    """What is wrong with weights, told with where they are and which are needed."""
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"paper_models: {place} does not fit {model.name!r} ({one_line(error)}); use the "
            f"weights of {model.timm_name}, from {model.source}"
        ) from error


@contextmanager
def _connected(model: PaperModel, place: str, remedy: str) -> Iterator[None]:
    """Why weights cannot be fetched, told with what to do without a connection."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise ConnectionError(
            f"paper_models: {place} cannot be had for {model.name!r} ({one_line(error)}); connect, "
            f"or fetch it elsewhere and give {remedy}"
        ) from error

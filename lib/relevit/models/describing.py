"""What a model of timm's says of itself, and whether it is one that can be explained."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_args

import torch
from timm.data import resolve_data_config
from timm.layers import to_2tuple
from timm.models import get_pretrained_cfg
from torch import Tensor, nn

from relevit.base.seeding import seeded
from relevit.maps import (
    FAMILIES,
    attention_layers,
    evaluating,
    head_pooling,
    headless,
    patch_grid,
    prefix_tokens,
    record_attention,
)
from relevit.models.registry import tagged, view_of
from relevit.models.spec import Interpolation, ModelSpec


def describe(
    name: str, timm_name: str, network: nn.Module, options: Mapping[str, Any], count: int
) -> ModelSpec:
    """The spec of any network, once it is known to answer; its classes are those that it gives.

    Raises: ValueError for what is no classifier of colour pictures.
    """
    size = image_size(name, network, options.get("img_size"))
    outputs = need_answers(name, network, size)
    return spec_as_told(name, timm_name, network, options, outputs if count else 0)


def need_colours(name: str, network: nn.Module) -> None:
    """Raise ValueError for a network whose pictures have other channels than three."""
    first = next((part for part in network.modules() if isinstance(part, nn.Conv2d)), None)
    if first is not None and first.in_channels != 3:
        raise ValueError(
            f"model {name!r}: it reads {first.in_channels} channels, and pictures here have the "
            "three colours; in Python the methods of relevit.METHODS take tensors of any channels"
        )


def need_answers(name: str, network: nn.Module, size: int) -> int:
    """How many logits one picture gets, 0 of a network without a head.

    Raises: ValueError for pictures of other channels than three, and what gives no logits.
    """
    need_colours(name, network)
    picture = torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), evaluating(network):
        output = network(picture.to(next(network.parameters())))
    if not isinstance(output, Tensor) or output.ndim != 2:
        given = type(output).__name__
        if isinstance(output, Tensor):
            given = f"a tensor {list(output.shape)}"
        raise ValueError(
            f"model {name!r}: its forward pass gives {given}, and not logits, [batch, classes]; "
            "wrap it so that it returns these alone"
        )
    if output.shape[1] > 1 and bool((output >= 0).all()) and abs(float(output.sum()) - 1) < 1e-4:
        raise ValueError(
            f"model {name!r}: it gives probabilities, and a map is of logits; leave out its softmax"
        )
    return 0 if headless(network) else output.shape[1]


def need_maps(name: str, network: nn.Module, size: int) -> None:
    """Raise ValueError that says why a network has no relevance maps."""
    with explained(name):
        _try_it(network, size)


def need_grid_in_training(network: nn.Module, size: int, what: str) -> None:
    """Raise ValueError for a network that leaves out patches in training, whose maps `what` reads.

    Looked at on a copy: a pass in train mode changes what counts its inputs.
    """
    alone = copy.deepcopy(network).train()
    black = torch.zeros(2, 3, size, size).to(next(alone.parameters()))
    rows, columns = patch_grid(alone, black)
    with torch.no_grad(), seeded(0, black.device), record_attention(alone) as tape:
        alone(black)
    tokens = tape.maps[0].shape[-1]
    if tokens != rows * columns + prefix_tokens(alone):
        raise ValueError(
            f"{what}: in training this {type(network).__name__} leaves out patches, {tokens} of "
            f"{rows * columns + prefix_tokens(alone)} tokens are left, and its maps have no grid; "
            "set patch_drop_rate to 0, or take the cures label and swap"
        )


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Where a model is tried. Raises: ValueError that says why it has no relevance maps."""
    try:
        yield
    except (ValueError, RuntimeError, AssertionError, TypeError) as error:
        told = "" if FAMILIES in str(error) else f"; use another: {FAMILIES}"
        reason = " ".join(str(error).split())
        raise ValueError(f"model {name!r} has no relevance maps: {reason}{told}") from error


def own_cfg(network: nn.Module) -> Mapping[str, Any]:
    """What a network says of its pixels. Raises: ValueError where it says nothing."""
    cfg = getattr(network, "pretrained_cfg", None)
    if not isinstance(cfg, Mapping) or not {"mean", "std"} <= cfg.keys():
        raise ValueError(
            f"model {type(network).__name__}: how its pixels were normalised is unknown; set "
            "model.pretrained_cfg, such as {'mean': (0.5, 0.5, 0.5), 'std': (0.5, 0.5, 0.5), "
            "'input_size': (3, 224, 224)}"
        )
    return cfg


def spec_as_told(
    name: str, timm_name: str, network: nn.Module, options: Mapping[str, Any], count: int
) -> ModelSpec:
    """The spec of a network whose `pretrained_cfg` is believed. Raises: ValueError."""
    size = image_size(name, network, options.get("img_size"))
    how = resolve_data_config(pretrained_cfg=network.pretrained_cfg)
    wanted = {"interpolation": get_args(Interpolation), "crop_mode": ("center", "squash")}
    for key, allowed in wanted.items():
        if how[key] not in allowed:
            raise ValueError(
                f"model {name!r}: its pretrained_cfg has {key} {how[key]!r}, which is not known "
                f"here; in Python, set model.pretrained_cfg[{key!r}] to one of {allowed}"
            )
    mean, std = (tuple(map(float, how[key])) for key in ("mean", "std"))
    view, names = view_of(how, size), tuple(network.pretrained_cfg.get("label_names") or ())
    if len(names) != count:  # of the head that was there before
        names = ()
    return ModelSpec(name, timm_name, size, mean, std, dict(options), count, view, names)


def image_size(name: str, network: nn.Module, asked: Any = None) -> int:
    """Pixels of a side, of a NaFlex those `asked` for. Raises: ValueError when they differ."""
    made_for = getattr(getattr(network, "patch_embed", None), "img_size", None)
    size = made_for or asked or network.pretrained_cfg.get("input_size", (3, 224, 224))[1:]
    need_square(*to_2tuple(size), name)
    return int(to_2tuple(size)[0])


def need_square(height: int, width: int, name: str) -> None:
    if height != width:
        raise ValueError(
            f"model {name!r}: its pictures are {height} x {width} pixels, and pictures are "
            f"cut to squares here; give the model option img_size={min(height, width)}"
        )


def need_classifier(name: str, network: nn.Module) -> None:
    """Raise ValueError for a head that is CLIP's projection: as wide as its tags have it, no bias.

    timm gives it a bias of zeros, which no training of a classifier leaves.
    """
    tower, head = network.pretrained_cfg.get("architecture", ""), getattr(network, "head", None)
    if "clip" not in tower or not isinstance(head, nn.Linear):
        return
    tags = [tag for tag in tagged(tower) if "_ft_" not in tag]
    wide = head.out_features in {get_pretrained_cfg(tag).num_classes for tag in tags}
    if wide and (head.bias is None or not head.bias.any()):
        raise ValueError(
            f"model {name!r}: its head is CLIP's projection to {head.out_features} numbers of an "
            "embedding, which are no classes; put an untrained head there (classes=N and "
            "new_head=True, or relevit finetune --new-head), or use weights that were finetuned to "
            "classes"
        )


def _try_it(network: nn.Module, size: int) -> None:
    """One black picture through the model. Raises: ValueError or RuntimeError."""
    attention_layers(network)
    head_pooling(network)
    black = torch.zeros(1, 3, size, size).to(next(network.parameters()))
    patch_grid(network, black)
    with torch.no_grad(), record_attention(network):
        network(black)
